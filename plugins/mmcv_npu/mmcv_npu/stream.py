"""Copying a batch to its device, for mmcv 1.x on newer torch and on NPUs.

mmcv 1.x copies the tensors of a ``DataContainer`` on a background stream, and asks torch for that stream with the
number of the device. From torch 2.1 on ``torch.nn.parallel._functions._get_stream`` takes a ``torch.device``, and a
number ends in ``'int' object has no attribute 'type'``. The rest of mmcv's function is written with ``torch.cuda``.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc


def copies_to_devices(target_gpus: list[int], input: Any) -> bool:
    """Return whether this call copies at all: mmcv asks for device -1 to stay on the CPU.

    Args:
        target_gpus: numbers of the devices.
        input: to copy.
    """
    return target_gpus != [-1]


def forward(target_gpus: list[int], input: Any) -> tuple[Any, ...]:
    """Replace ``Scatter.forward``: copy to the devices; tensors of the CPU on background streams.

    Args:
        target_gpus: numbers of the devices.
        input: a tensor, which goes to the first device; or a list, dealt out to the devices in equal runs, of tensors
            and lists.

    Returns:
        The copies, one for each item of the list; of a tensor, the one copy.

    Raises:
        TypeError: something else is in ``input``.
    """
    import torch

    is_npu = hasattr(torch, "npu") and torch.npu.is_available()
    devices = [torch.device("npu" if is_npu else "cuda", index) for index in target_gpus]
    copied = _copy(input, devices)
    return tuple(copied) if isinstance(copied, list) else (copied,)


def _copy(input: Any, devices: list[Any]) -> Any:
    import torch

    if isinstance(input, list):
        run = (len(input) - 1) // len(devices) + 1
        return [_copy(item, [devices[index // run]]) for index, item in enumerate(input)]
    if isinstance(input, torch.Tensor):
        return _copy_tensor(input.contiguous(), devices[0])
    raise TypeError(
        f"mmcv.parallel: expected tensors and lists of them in a DataContainer, found {type(input).__name__}; "
        "wrap other things in DataContainer(..., cpu_only=True)"
    )


def _copy_tensor(tensor: Any, device: Any) -> Any:
    import torch

    from mmcv_npu.private_torch import get_stream as _get_stream

    if tensor.device.type != "cpu" or tensor.numel() == 0:
        return tensor.to(device, non_blocking=True)
    background = _get_stream(device)
    backend = getattr(torch, device.type)
    with backend.device(device):
        with backend.stream(background):
            copy = tensor.to(device, non_blocking=True)
        used_on = backend.current_stream()
        used_on.wait_stream(background)
        copy.record_stream(used_on)  # its memory is not to be given away before that stream is done with it
    return copy


STREAM = pc.Patch(
    "mmcv.stream",
    [pc.Replace("mmcv.parallel._functions:Scatter.forward", forward, when_call=copies_to_devices)],
    summary="batches copied to the device on a stream that newer torch accepts",
    requires=["mmcv>=1.3,<2", "torch>=2.1"],
    legacy_names=["stream", "Stream"],
    upstream="https://github.com/open-mmlab/mmdetection/issues/10720",
    remove_when="mmcv>=2",
)
