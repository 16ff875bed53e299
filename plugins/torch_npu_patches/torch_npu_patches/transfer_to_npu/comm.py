"""Copies between the devices of one process, for ``nn.DataParallel``, ``torch.cuda.comm`` and ``.nccl``.

torch has these functions of ``torch._C`` only where it was built with CUDA (``python_comm.cpp`` and
``python_nccl.cpp`` in ``torch/csrc/cuda``, torch 2.13). Here they are made of ``Tensor.to``. A device is its number,
-1 is the CPU. The streams that a program copies in are left out: copies are ordered by the current streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

__all__ = ["FUNCTIONS"]


def _device(index: Optional[int]) -> Any:
    import torch

    if index is None:
        return torch.device("npu", torch.npu.current_device())
    return torch.device("cpu") if index < 0 else torch.device("npu", index)


def _broadcast(tensor: Any, devices: Sequence[int]) -> list[Any]:
    """Return a copy on each device; on its own device the tensor itself."""
    return [tensor.to(_device(index), non_blocking=True) for index in devices]


def _broadcast_out(tensor: Any, out: Sequence[Any]) -> list[Any]:
    """Copy into each tensor of ``out``."""
    for each in out:
        if each.shape != tensor.shape:
            raise RuntimeError(
                f"Expected all output tensors to have the shape {tuple(tensor.shape)}, found {tuple(each.shape)}"
            )
        each.copy_(tensor, non_blocking=True)
    return list(out)


def _broadcast_coalesced(tensors: Sequence[Any], devices: Sequence[int], buffer_size: int) -> list[list[Any]]:
    """Return the copies of all tensors, by device."""
    return [[tensor.to(_device(index), non_blocking=True) for tensor in tensors] for index in devices]


def _scatter(
    tensor: Any,
    devices: Sequence[int],
    chunk_sizes: Optional[Sequence[int]] = None,
    dim: int = 0,
    streams: Optional[Sequence[Any]] = None,
) -> list[Any]:
    """Return a part of the tensor on each device; fewer parts than devices where it is too short."""
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    if chunk_sizes is None:
        parts = tensor.chunk(len(devices), dim)
    elif len(chunk_sizes) != len(devices):
        raise RuntimeError(f"Expected devices and chunk_sizes to be of same length, found {devices} and {chunk_sizes}")
    else:
        parts = tensor.split(list(chunk_sizes), dim)
    return [part.to(_device(index), non_blocking=True) for part, index in zip(parts, devices)]


def _scatter_out(tensor: Any, out: Sequence[Any], dim: int = 0, streams: Optional[Sequence[Any]] = None) -> list[Any]:
    """Copy parts of the tensor, as long as each tensor of ``out``, into these."""
    if not out:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    for each, part in zip(out, tensor.split([each.size(dim) for each in out], dim)):
        each.copy_(part, non_blocking=True)
    return list(out)


def _gather(tensors: Sequence[Any], dim: int = 0, destination: Optional[int] = None) -> Any:
    """Return the tensors joined on one device."""
    import torch

    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    device = _device(destination)
    return torch.cat([tensor.to(device, non_blocking=True) for tensor in tensors], dim)


def _gather_out(tensors: Sequence[Any], out: Any, dim: int = 0) -> Any:
    """Join the tensors in ``out``."""
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    for part, tensor in zip(out.split([each.size(dim) for each in tensors], dim), tensors):
        part.copy_(tensor, non_blocking=True)
    return out


def _reduced(inputs: Sequence[Any], op: int, device: Any) -> Any:
    """Return the elementwise sum, product, maximum, minimum or mean of tensors; ``op`` counts as NCCL does, from 0."""
    import torch

    result = inputs[0].to(device, copy=True)
    for each in inputs[1:]:
        other = each.to(device)
        result = (torch.add, torch.mul, torch.maximum, torch.minimum, torch.add)[op](result, other)
    return result / len(inputs) if op == 4 else result


def _nccl_reduce(inputs: Sequence[Any], output: Any, root: int, op: int, streams: Any, comms: Any) -> None:
    """Reduce tensors to that of the root."""
    output.copy_(_reduced(inputs, op, output.device))


def _nccl_all_reduce(inputs: Sequence[Any], outputs: Sequence[Any], op: int, streams: Any, comms: Any) -> None:
    """Reduce tensors, for every device."""
    result = _reduced(inputs, op, inputs[0].device)
    for output in outputs:
        output.copy_(result)


def _nccl_broadcast(tensors: Sequence[Any], root: int, streams: Any, comms: Any) -> None:
    """Copy the tensor of the root into the others."""
    for tensor in tensors:
        tensor.copy_(tensors[root])


def _nccl_all_gather(inputs: Sequence[Any], outputs: Sequence[Any], streams: Any, comms: Any) -> None:
    """Join the tensors, for every device."""
    import torch

    joined = torch.cat([each.to(inputs[0].device).flatten() for each in inputs])
    for output in outputs:
        output.copy_(joined.view_as(output))


def _nccl_reduce_scatter(inputs: Sequence[Any], outputs: Sequence[Any], op: int, streams: Any, comms: Any) -> None:
    """Reduce tensors, a part for each device."""
    for output, part in zip(outputs, _reduced(inputs, op, inputs[0].device).flatten().chunk(len(outputs))):
        output.copy_(part.view_as(output))


def _nccl_version() -> int:
    """Return a version below any that a program asks for."""
    return 0


def _nccl_version_suffix() -> bytes:
    """Return that there is none."""
    return b""


#: By name in ``torch._C``.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(_broadcast, _broadcast_out, _broadcast_coalesced),
        *(_scatter, _scatter_out, _gather, _gather_out),
        *(_nccl_reduce, _nccl_all_reduce, _nccl_broadcast, _nccl_all_gather, _nccl_reduce_scatter),
        *(_nccl_version, _nccl_version_suffix),
    )
}
