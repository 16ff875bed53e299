"""The hook by which ``patchcore run`` learns of the interfaces of other patchers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from patchcore.hookspecs import hookspec

if TYPE_CHECKING:
    from patchcore.builtin.run.compat import Compat

__all__ = ["register_compat"]


@hookspec
def register_compat() -> Iterable[Compat]:  # type: ignore[empty-body]
    """Return the interfaces of other patchers that this plugin brings, for ``patchcore run --compat NAME``."""
