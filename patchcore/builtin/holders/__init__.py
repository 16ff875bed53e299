"""Built-in plugin ``holders``: finds places that hold a replaced object and cannot be rebound.

A patch of a validator or serializer of pydantic that has no effect for this reason gets a remark when it is applied.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    from patchcore.planning.candidates import Candidate
    from patchcore.planning.conditions import Environment
    from patchcore.planning.plan import PlannedPatch
    from patchcore.report import Remark

__all__ = ["find_holders", "remarks"]


@hookimpl
def find_holders(originals: Iterable[Any], ours: Iterable[Any]) -> Sequence[tuple[Any, str, str]]:
    from patchcore.builtin.holders.search import find_unreachable  # walks over all objects several times

    return [(held, place.kind, place.where) for held, place in find_unreachable(originals, ours)]


def _change_classes(candidates: Sequence[Candidate]) -> bool:
    """True if a target may be in a class: it has a dot behind its module, or its module is not known yet."""
    targets = [change.target for candidate in candidates for change in candidate.patch.changes]
    return any(len(target.path) > 1 for target in targets)


@hookimpl(concerns=_change_classes)
def remarks(entry: PlannedPatch, environment: Environment, thorough: bool) -> Sequence[Remark]:
    if "pydantic" not in sys.modules:
        return ()
    from patchcore.builtin.holders.compiled import remarks_on

    return list(remarks_on(entry))
