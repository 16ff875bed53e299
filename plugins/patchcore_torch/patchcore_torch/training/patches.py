"""The patches that count steps, record and brake: made from settings, for one plan."""

from __future__ import annotations

from patchcore import Patch, Settings, Wrap
from patchcore.plugin import Plugins
from patchcore_torch.training import optimizers
from patchcore_torch.training.brake import Brake
from patchcore_torch.training.loops import LAST, TrainingLoop, user_loop
from patchcore_torch.training.options import ProfilingOptions, brake_step
from patchcore_torch.training.profiling import StepProfiler

__all__ = ["counters", "listeners"]

_AFTER_STEP = "patchcore_torch.training.steps:after_step"
_PROFILING = "patchcore.profiling"


def counters(settings: Settings, plugins: Plugins) -> list[Patch]:
    """Return the patches that count steps.

    Args:
        settings: may name the functions that make them.
        plugins: contribute training loops, which count where the user has named none.
    """
    if settings.get("step"):
        return [user_loop(target).patch() for target in settings.get("step")]
    found = {patch.name: patch for patch in optimizers.PATCHES}
    for provenance, loops in plugins.collect("training_loops"):
        for loop in loops:
            if isinstance(loop, TrainingLoop):
                found.setdefault(loop.name, loop.patch(f"counts training steps of a loop that {provenance} declares"))
            else:
                error = TypeError(f"expected patchcore_torch.TrainingLoop objects, got {loop!r}")
                plugins.note(provenance, "training_loops", error)
    return list(found.values())


def listeners(settings: Settings) -> list[Patch]:
    """Return the patches that record and brake according to ``settings``; their steps begin with 1."""
    found: list[Patch] = []
    asked = settings.get("profiling")
    profiling = None if asked is None else ProfilingOptions.of(asked)
    if profiling is not None:
        summary = f"records {profiling.window} in {profiling.path}"
        change = Wrap(_AFTER_STEP, StepProfiler(profiling))
        table = profiling.to_dict()
        found.append(Patch(_PROFILING, [change], summary=summary, priority=LAST, count=False, options=table))
    if settings.get("brake") is not None:
        step = brake_step(settings.get("brake"), profiling)
        change = Wrap(_AFTER_STEP, Brake(step))
        summary = f"ends the program after training step {step}"
        found.append(
            Patch(
                "patchcore.brake",
                [change],
                summary=summary,
                priority=LAST,
                after=_PROFILING,
                count=False,
                options={"step": step},
            )
        )
    return found
