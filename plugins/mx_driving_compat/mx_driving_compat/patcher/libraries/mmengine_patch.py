"""The predefined patches of mmengine, the training loops, and the names of mmcv 1.x that API 1.0 has here."""

from mx_driving_compat.predefined.classes import public_names
from mx_driving_compat.predefined.training import loops_builder, loops_function

_of_mmcv = public_names("mmcv_patch")
_names = {
    **public_names("mmengine_patch"),
    **{name: _of_mmcv[name] for name in ("ddp", "ddp_forward", "optimizer_hooks", "stream")},
}
globals().update(_names)
__all__ = [
    *_names,
    "build_mmengine_epoch_train_loop_patch",
    "build_mmengine_iter_train_loop_patch",
    "epoch_runner",
    "epoch_train_loop",
    "iter_runner",
    "iter_train_loop",
]

epoch_runner = loops_function("epoch_runner")
iter_runner = loops_function("iter_runner")
epoch_train_loop = loops_function("epoch_train_loop")
iter_train_loop = loops_function("iter_train_loop")
build_mmengine_epoch_train_loop_patch = loops_builder("mmengine_epoch_train_loop")
build_mmengine_iter_train_loop_patch = loops_builder("mmengine_iter_train_loop")
