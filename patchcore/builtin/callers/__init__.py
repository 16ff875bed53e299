"""Built-in plugin ``callers``: warns about wrapped functions that inspect the frame of their caller.

Such a function finds a frame of patchcore instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    from patchcore.declare.changes import Change
    from patchcore.planning.plan import Candidate, PlannedPatch
    from patchcore.report import Remark

__all__ = ["after_collect"]

_NAME = "patchcore.callers.collected"


@hookimpl
def after_collect(plugins: Any, candidates: Sequence[Candidate]) -> None:
    changes = (change for candidate in candidates for change in candidate.patch.changes)
    if _any_calls_original(changes):
        plugins.add(_Remarks(), _NAME)


class _Remarks:
    """Has remarks on patches that call the original."""

    @hookimpl(trylast=True)
    def remarks(self, entry: PlannedPatch) -> Sequence[Remark]:
        if not _any_calls_original(entry.patch.changes):
            return []
        from patchcore.builtin.callers.callers import remarks_on  # reads sources: only if needed

        return remarks_on(entry)


def _any_calls_original(changes: Iterable[Change]) -> bool:
    return any(getattr(change, "calls_original", False) for change in changes)
