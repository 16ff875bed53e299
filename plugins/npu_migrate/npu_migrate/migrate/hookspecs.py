"""The hook that this plugin brings: rules of other plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Union

import patchcore as pc

__all__ = ["register_migration_rules"]


@pc.hookspec
def register_migration_rules() -> Iterable[Union[str, Path, Mapping[str, Any]]]:  # type: ignore[empty-body]
    """Return further rules for ``patchcore migrate``: paths of TOML files, or tables as they are in one.

    A rule whose id is there already takes the place of that rule.
    """
