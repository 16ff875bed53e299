"""Built-in plugin ``phases``: ``Patch(phase=...)`` waits until the program, or an import, reaches that phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    from patchcore.declare.changes import Skip, Wait
    from patchcore.declare.patch import Patch
    from patchcore.planning.candidates import Candidate
    from patchcore.planning.plan import Context, PlannedPatch
    from patchcore.report import Remark

__all__ = ["after_collect", "before_apply", "register_hookspecs", "remarks"]


def _some_wait(candidates: Sequence[Candidate]) -> bool:
    return any(getattr(found.patch, "phase", None) is not None for found in candidates)


@hookimpl
def register_hookspecs() -> Any:
    from patchcore.builtin.phases import hookspecs

    return hookspecs


@hookimpl(concerns=_some_wait)
def after_collect(plugins: Any, answers: Mapping[str, Sequence[Any]], candidates: Sequence[Candidate]) -> None:
    from patchcore.builtin.phases.phases import PHASES

    PHASES.learn(plugins, candidates)


@hookimpl(concerns=_some_wait)
def before_apply(patch: Patch, context: Context, planning: bool) -> Union[Skip, Wait, None]:
    from patchcore.builtin.phases.phases import PHASES

    return PHASES.decide(patch, context, planning=planning)


@hookimpl(concerns=_some_wait)
def remarks(entry: PlannedPatch, thorough: bool) -> Sequence[Remark]:
    from patchcore.builtin.phases.phases import PHASES

    return PHASES.remarks(entry)
