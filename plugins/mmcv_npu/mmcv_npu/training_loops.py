"""The training loops of mmcv 1.x and mmengine, for profiling and brake."""

from __future__ import annotations

from typing import Any

from patchcore_torch import TrainingLoop

__all__ = ["TRAINING_LOOPS"]


def _ends_iteration(runner: Any, fn_name: str) -> bool:
    """Return whether hooks are called because an iteration ends: the optimizer steps in one of them, ``OptimizerHook``.

    mmcv 1.0 to 1.7, ``runner/base_runner.py``: ``BaseRunner.call_hook(fn_name)`` calls the method of that name of every
    hook. Both runners call it after each training iteration, and with other names in validation.
    """
    return fn_name == "after_train_iter"


#: mmengine 0.1 to 0.10, ``runner/loops.py``: the optimizer steps in ``run_iter``, hooks are called by it. Validation
#: and test loops are other classes.
TRAINING_LOOPS = (
    TrainingLoop("mmengine.runner.loops:EpochBasedTrainLoop.run_iter", requires="mmengine"),
    TrainingLoop("mmengine.runner.loops:IterBasedTrainLoop.run_iter", requires="mmengine"),
    TrainingLoop("mmcv.runner.base_runner:BaseRunner.call_hook", when_call=_ends_iteration, requires="mmcv<2"),
)
