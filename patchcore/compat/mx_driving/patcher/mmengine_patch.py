"""Predefined patches of mmengine, and its training loops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchcore.compat.mx_driving.patcher.mmcv_patch import ddp, ddp_forward, optimizer_hooks, stream
from patchcore.compat.mx_driving.predefined import Predefined, legacy_function
from patchcore.compat.mx_driving.training import TrainingLoops, loops_function

__all__ = [
    "OptimizerWrapper",
    "build_mmengine_epoch_train_loop_patch",
    "build_mmengine_iter_train_loop_patch",
    "ddp",
    "ddp_forward",
    "epoch_runner",
    "epoch_train_loop",
    "iter_runner",
    "iter_train_loop",
    "optimizer_hooks",
    "optimizer_wrapper",
    "stream",
]


class OptimizerWrapper(Predefined):
    """Fused gradient clipping in OptimWrapper."""

    name = "optimizer_wrapper"
    legacy_name = "optimizer_wrapper"
    target_module = "mmengine"
    provided_by = ("optimizer_wrapper",)
    distribution = "mmcv-npu-patches"


optimizer_wrapper = legacy_function(OptimizerWrapper)

# API 1.0 has the training loops of both lines here, and what mmcv 1.x had and mmengine took over
epoch_runner = loops_function("epoch_runner")
iter_runner = loops_function("iter_runner")
epoch_train_loop = loops_function("epoch_train_loop")
iter_train_loop = loops_function("iter_train_loop")


def build_mmengine_epoch_train_loop_patch(options: Mapping[str, Any]) -> TrainingLoops:
    """Return profiling and brake for the loops of mmengine; see :meth:`Training.of` for the options."""
    return TrainingLoops("mmengine_epoch_train_loop", options)


def build_mmengine_iter_train_loop_patch(options: Mapping[str, Any]) -> TrainingLoops:
    """Return the same: what is asked with equal options is done once, for all loops."""
    return TrainingLoops("mmengine_iter_train_loop", options)
