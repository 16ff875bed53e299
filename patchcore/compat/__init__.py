"""The interfaces of other patchers on this engine, for programs that were written against them.

Each is a package here with a module ``run``, whose :func:`take_part` makes it work in the processes of a run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchcore.patcher import Patcher

__all__ = ["NAMES", "libraries", "take_part"]

#: What there is, and the top-level modules that programs import of it.
NAMES = {"mx_driving": ("mx_driving",)}


def libraries(names: tuple[str, ...]) -> set[str]:
    """Return the top-level modules that programs written against these patchers import."""
    return {library for name in names for library in NAMES[name]}


def take_part(names: tuple[str, ...], patcher: Patcher) -> None:
    """Let programs find these patchers in this process of a run.

    Args:
        names: of the patchers.
        patcher: that of the run in this process, not applied yet.
    """
    for name in names:
        importlib.import_module(f"{__name__}.{name}.run").take_part(patcher)
