"""Built-in plugin ``stdlib``: keeps patchcore from running patches of the standard library itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    from patchcore.declare.patch import Patch
    from patchcore.declare.target import Target
    from patchcore.report import PatchRecord

__all__ = ["after_apply", "before_apply"]


@hookimpl
def before_apply(patch: Patch) -> None:
    from patchcore.builtin.stdlib.private import LIBRARY, is_standard

    targets: list[Target] = []
    for change in patch.changes:
        targets += (change.target, *change.claims(change.target))
    if any(map(is_standard, {target.root for target in targets})):
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
