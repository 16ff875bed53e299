"""Built-in plugin ``stdlib``: keeps patchcore from running patches of the standard library itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    from patchcore.declare.patch import Patch
    from patchcore.declare.target import Target
    from patchcore.planning.candidates import Candidate
    from patchcore.report import PatchRecord

__all__ = ["after_apply", "before_apply"]

#: Top-level packages of targets that are not of the standard library.
_others: set[str] = set()


def _change_standard_library(candidates: Sequence[Candidate]) -> bool:
    """True if a patch may change a module of the standard library."""
    targets = [target for candidate in candidates for target in _targets(candidate.patch)]
    return _has_standard({(target.module or target.root).partition(".")[0] for target in targets})


@hookimpl(trylast=True, concerns=_change_standard_library)
def before_apply(patch: Patch, planning: bool) -> None:
    targets = _targets(patch)
    if not planning and _has_standard({target.root for target in targets}):
        from patchcore.builtin.stdlib.private import LIBRARY
        from patchcore.engine.events import observe

        observe(_leave)
        LIBRARY.enter(patch.name, targets)


@hookimpl(trylast=True, concerns=_change_standard_library)
def after_apply(patch: Patch, outcome: PatchRecord) -> None:
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
