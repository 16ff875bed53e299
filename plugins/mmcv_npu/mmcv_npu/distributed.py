"""Data-parallel training with mmcv 1.x on newer torch and on NPUs.

mmcv 1.7 has a class of its own for NPUs, ``mmcv.device.npu.NPUDistributedDataParallel``, that programs written for CUDA
do not use. It differs from ``MMDistributedDataParallel`` in how it moves arguments to the device: in ``to_kwargs`` and
``scatter``. These methods are patched, and the class is not exchanged: so objects that exist already, subclasses
and every name the class goes by do the same. (The two modules also import each other: while ``mmcv.parallel`` is being
imported, the NPU's class cannot be.) Its third method, ``forward``, has nothing to do from torch 1.12 on, where
``_run_ddp_forward`` calls ``to_kwargs``.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc

_CLASS = "mmcv.parallel.distributed:MMDistributedDataParallel"


def is_on_npu(self: Any, *args: Any, **kwargs: Any) -> bool:
    """Return whether the model of a ``MMDistributedDataParallel`` is on an NPU.

    Args:
        self: the wrapped model.
        args, kwargs: of whichever method is called.
    """
    return bool(self.device.type == "npu")


def to_kwargs(self: Any, inputs: Any, kwargs: Any, device_id: int) -> tuple[Any, Any]:
    """Replace ``to_kwargs``: copy to the current NPU, without background streams.

    Args:
        self: the wrapped model.
        inputs: positional arguments of the model: tensors, ``DataContainer`` and containers of them.
        kwargs: its keyword arguments.
        device_id: number of the device.

    Returns:
        One tuple of arguments for each device, and one mapping: both of length 1.
    """
    return scatter(self, inputs, kwargs, [device_id])


def scatter(self: Any, inputs: Any, kwargs: Any, device_ids: list[int]) -> tuple[Any, Any]:
    """Replace ``scatter``: copy to the current NPU, without background streams.

    Arguments and result: see :func:`to_kwargs`.
    """
    from mmcv.device.scatter_gather import scatter_kwargs

    return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)


def has_no_replicated_module(self: Any, *inputs: Any, **kwargs: Any) -> bool:
    """Return whether torch has dropped the attributes that mmcv's ``_run_ddp_forward`` reads.

    Args:
        self: the wrapped model.
        inputs, kwargs: arguments of the model.
    """
    return not hasattr(self, "_use_replicated_tensor_module")


def run_ddp_forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
    """Replace ``_run_ddp_forward``: move the arguments as mmcv does, then run the model as torch does.

    Args:
        self: the wrapped model.
        inputs, kwargs: arguments of the model.
    """
    from torch.nn.parallel import DistributedDataParallel

    if self.device_ids:
        moved, named = self.to_kwargs(inputs, kwargs, self.device_ids[0])
        inputs, kwargs = moved[0], named[0]
    return DistributedDataParallel._run_ddp_forward(self, *inputs, **kwargs)


DDP = pc.Patch(
    "mmcv.ddp",
    [
        pc.Replace(f"{_CLASS}.to_kwargs", to_kwargs, when_call=is_on_npu),
        pc.Replace(f"{_CLASS}.scatter", scatter, when_call=is_on_npu),
    ],
    summary="MMDistributedDataParallel moves batches to an NPU as mmcv's NPUDistributedDataParallel does",
    requires=["mmcv>=1.7,<2", "torch>=1.12"],
    needs="torch_npu",
    legacy_names=["ddp", "DDP"],
    remove_when="mmcv>=2",
)

DDP_FORWARD = pc.Patch(
    "mmcv.ddp_forward",
    [pc.Replace(f"{_CLASS}._run_ddp_forward", run_ddp_forward, when_call=has_no_replicated_module)],
    summary="MMDistributedDataParallel.forward without attributes that newer torch has dropped",
    requires=["mmcv>=1.6.1,<2", "torch>=2"],
    legacy_names=["ddp_forward", "DDP"],
    upstream="https://github.com/microsoft/Cream/issues/179",
    remove_when="mmcv>=2",
)
