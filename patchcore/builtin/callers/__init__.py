"""Built-in plugin ``callers``: tells of wrapped functions that look at the frame of their caller, and find patchcore's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    from patchcore.planning.plan import PlannedPatch
    from patchcore.report import Remark

__all__ = ["remarks"]


@hookimpl
def remarks(entry: PlannedPatch) -> Sequence[Remark]:
    if not any(getattr(change, "calls_original", False) for change in entry.patch.changes):
        return []
    from patchcore.builtin.callers.callers import remarks_on  # reads sources: for patches that put something between

    return remarks_on(entry)
