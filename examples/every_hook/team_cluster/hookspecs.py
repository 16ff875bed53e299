"""The hook that this plugin brings for other plugins."""

from __future__ import annotations

from collections.abc import Iterable

import patchcore as pc


@pc.hookspec
def contacts() -> Iterable[str]:  # type: ignore[empty-body]
    """Return whom to ask about the patches of this plugin."""
