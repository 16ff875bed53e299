"""The patches of the core that count steps, record and brake: made from settings, for one plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from patchcore.builtin.training import optimizers
from patchcore.builtin.training.brake import Brake
from patchcore.builtin.training.loops import LAST, TrainingLoop, user_loop
from patchcore.builtin.training.options import ProfilingOptions, brake_step
from patchcore.builtin.training.profiling import StepProfiler
from patchcore.declare.changes import Wrap
from patchcore.declare.patch import Patch
from patchcore.planning.plan import Candidate
from patchcore.planning.provenance import Provenance
from patchcore.plugins import Plugins
from patchcore.settings import Choice, Settings, check_training

__all__ = ["CORE", "choices_for", "counters", "listeners", "with_request"]

#: Who contributes the patches of the core. Without a distribution, a patch of two Patchers is one only if it is equal.
CORE = Provenance("patchcore")

_AFTER_STEP = "patchcore.builtin.training.steps:after_step"
_PROFILING = "patchcore.profiling"


def counters(settings: Settings, plugins: Plugins, others: Sequence[Candidate]) -> list[Candidate]:
    """Return the patches that count steps.

    Args:
        settings: may name the functions that make them.
        plugins: contribute training loops, which count where the user has named none.
        others: the other patches of the plan.
    """
    patches = [candidate.patch for candidate in others]
    if settings.step:
        return [Candidate(user_loop(target).patch(patches), CORE) for target in settings.step]
    found: dict[str, Candidate] = {patch.name: Candidate(patch, CORE) for patch in optimizers.PATCHES}
    for provenance, loops in plugins.each("training_loops"):
        for loop in loops:
            if isinstance(loop, TrainingLoop):
                found.setdefault(loop.name, Candidate(loop.patch(patches), provenance))
            else:
                error = TypeError(f"expected patchcore.TrainingLoop objects, got {loop!r}")
                plugins.note(provenance, "training_loops", error)
    return list(found.values())


def listeners(settings: Settings) -> list[Candidate]:
    """Return the patches that record and brake, as ``settings`` ask for; their steps begin with 1."""
    found: list[Candidate] = []
    profiling = None if settings.profiling is None else ProfilingOptions.of(settings.profiling)
    if profiling is not None:
        summary = f"records {profiling.window} in {profiling.path}"
        change = Wrap(_AFTER_STEP, StepProfiler(profiling))
        found.append(Candidate(Patch(_PROFILING, [change], summary=summary, priority=LAST), CORE))
    if settings.brake is not None:
        step = brake_step(settings.brake, profiling)
        change = Wrap(_AFTER_STEP, Brake(step))
        summary = f"ends the program after training step {step}"
        patch = Patch("patchcore.brake", [change], summary=summary, priority=LAST, after=_PROFILING)
        found.append(Candidate(patch, CORE))
    return found


def with_request(settings: Settings, asked: Mapping[str, Any], origin: str) -> Settings:
    """Return ``settings`` with what a program asks for.

    Args:
        settings: so far.
        asked: values of ``profiling``, ``brake`` and ``step``, as in ``[tool.patchcore]``.
        origin: what to call the request in messages.

    Raises:
        SettingsError: the request means nothing, or goes against an earlier one.
    """
    checked = Settings.of(asked, origin=origin)
    values = {name: getattr(checked, name) for name in asked}
    return check_training(replace(settings, **values, origins={**settings.origins, **checked.origins}))


def choices_for(candidates: Sequence[Candidate], settings: Settings) -> list[Choice]:
    """Return the choice of each patch that was asked for by what it does: only its own name switches it off.

    That way ``--disable '*' --profile DIR`` records the program without patches.

    Args:
        candidates: of :func:`counters` and :func:`listeners`.
        settings: ask for them.
    """
    strength = max((choice.strength for choice in settings.choices), default=0)
    asked = (settings.origins.get(name) for name in ("profiling", "brake"))
    origin = " and ".join(filter(None, asked)) or "settings"
    return [Choice(True, candidate.patch.name, origin, strength) for candidate in candidates]
