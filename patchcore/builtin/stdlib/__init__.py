"""Built-in plugin ``stdlib``: keeps patchcore from running patches of the standard library itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    from patchcore.declare.patch import Patch
    from patchcore.declare.target import Target
    from patchcore.planning.plan import Candidate
    from patchcore.report import PatchRecord

__all__ = ["after_collect"]

_NAME = "patchcore.stdlib.collected"
#: Top-level packages of targets that are not of the standard library.
_others: set[str] = set()


@hookimpl
def after_collect(plugins: Any, candidates: Sequence[Candidate]) -> None:
    modules = {
        target.module or target.root
        for candidate in candidates
        for change in candidate.patch.changes
        for target in (change.target, *change.claims(change.target))
    }
    if _has_standard({module.partition(".")[0] for module in modules}):
        plugins.add(_PrivateCopies(), _NAME)


class _PrivateCopies:
    """Has patchcore use private copies of modules while a patch of the standard library is in force."""

    @hookimpl(trylast=True)
    def before_apply(self, patch: Patch, planning: bool) -> None:
        targets = _targets(patch)
        if not planning and _has_standard({target.root for target in targets}):
            from patchcore.builtin.stdlib.private import LIBRARY
            from patchcore.engine.events import observe

            observe(_leave)
            LIBRARY.enter(patch.name, targets)

    @hookimpl(trylast=True)
    def after_apply(self, patch: Patch, outcome: PatchRecord) -> None:
        _leave(outcome.status, patch.name)


def _targets(patch: Patch) -> list[Target]:
    return [target for change in patch.changes for target in (change.target, *change.claims(change.target))]


def _has_standard(roots: set[str]) -> bool:
    """Return whether one of some top-level packages is of the standard library."""
    if _others.issuperset(roots):
        return False
    from patchcore.builtin.stdlib.standard import is_standard

    _others.update([root for root in roots if not is_standard(root)])
    return not _others.issuperset(roots)


def _leave(kind: str, subject: str, detail: str = "", since: object = None) -> None:
    """End the use of private copies for a patch, unless a patch of that name is still in force."""
    private = sys.modules.get("patchcore.builtin.stdlib.private")
    if private is not None and subject in private.LIBRARY.users:
        from patchcore.engine.engine import ENGINE

        if subject not in ENGINE.active:
            private.LIBRARY.leave(subject)
