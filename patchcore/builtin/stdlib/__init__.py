"""Built-in plugin ``stdlib``: keeps patchcore from running patches of the standard library itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    from patchcore.declare.patch import Patch
    from patchcore.report import PatchRecord

__all__ = ["after_apply", "before_apply"]


#: Top-level packages of targets that are not of the standard library.
_others: set[str] = set()


@hookimpl
def before_apply(patch: Patch) -> None:
    targets = [target for change in patch.changes for target in (change.target, *change.claims(change.target))]
    roots = {target.root for target in targets}
    if _others.issuperset(roots):
        return
    from patchcore.builtin.stdlib.private import LIBRARY, is_standard

    _others.update([root for root in roots if not is_standard(root)])
    if not _others.issuperset(roots):
        from patchcore.engine.events import observe

        observe(_leave)
        LIBRARY.enter(patch.name, targets)


@hookimpl
def after_apply(patch: Patch, outcome: PatchRecord) -> None:
    _leave(outcome.status, patch.name)


def _leave(kind: str, subject: str, detail: str = "", since: object = None) -> None:
    """End the use of private copies for a patch, unless a patch of that name is still in force."""
    private = sys.modules.get("patchcore.builtin.stdlib.private")
    if private is not None and subject in private.LIBRARY.users:
        from patchcore.engine.engine import ENGINE

        if subject not in ENGINE.active:
            private.LIBRARY.leave(subject)
