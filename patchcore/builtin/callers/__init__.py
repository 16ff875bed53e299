"""Built-in plugin ``callers``: warns about wrapped functions that inspect the frame of their caller.

Such a function finds a frame of patchcore instead.
"""

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
    if not [change for change in entry.patch.changes if getattr(change, "calls_original", False)]:
        return []
    from patchcore.builtin.callers.callers import remarks_on  # reads sources: only if needed

    return remarks_on(entry)
