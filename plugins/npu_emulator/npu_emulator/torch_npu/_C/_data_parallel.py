"""The functions that torch_npu adds to ``torch._C`` for ``nn.DataParallel`` and ``torch.nn.parallel.scatter``.

``initCommMethods`` in ``torch_npu/csrc/npu/Module.cpp`` adds it (torch_npu 2.1 from 6.0.rc2 on); the vendor's tables
call ``nn.DataParallel`` unsupported all the same. Here it is made of ``Tensor.to``. A device is its number, -1 is the
CPU. The streams to copy in are left out: copies are ordered by the current streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor

from npu_emulator import private_torch

__all__ = ["install"]


def install() -> None:
    """Add the functions that torch lacks where it was built without CUDA."""
    for function in _FUNCTIONS:
        if not hasattr(private_torch.C, function.__name__):
            setattr(private_torch.C, function.__name__, function)


def _device(index: Optional[int]) -> torch.device:
    if index is None:
        return torch.device("npu")
    return torch.device("cpu") if index < 0 else torch.device("npu", index)


def _broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    """Return a copy on each device; on its own device the tensor itself."""
    return [tensor.to(_device(index)) for index in devices]


def _broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> list[Tensor]:
    """Copy into each tensor of ``out``."""
    return [each.copy_(_same_shape(tensor, each)) for each in out]


def _broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int) -> list[list[Tensor]]:
    """Return the copies of all tensors, by device."""
    return [[tensor.to(_device(index)) for tensor in tensors] for index in devices]


def _scatter(
    tensor: Tensor,
    devices: Sequence[int],
    chunk_sizes: Optional[Sequence[int]] = None,
    dim: int = 0,
    streams: Optional[Sequence[Any]] = None,
) -> list[Tensor]:
    """Return a part of the tensor on each device; fewer parts than devices where it is too short."""
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    if chunk_sizes is not None and len(chunk_sizes) != len(devices):
        raise RuntimeError(f"Expected devices and chunk_sizes to be of same length, found {devices} and {chunk_sizes}")
    parts = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return [part.to(_device(index)) for part, index in zip(parts, devices)]


def _scatter_out(
    tensor: Tensor, out: Sequence[Tensor], dim: int = 0, streams: Optional[Sequence[Any]] = None
) -> list[Tensor]:
    """Copy parts of the tensor, as long as each tensor of ``out``, into these."""
    if not out:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    return [each.copy_(part) for each, part in zip(out, tensor.split([each.size(dim) for each in out], dim))]


def _gather(tensors: Sequence[Tensor], dim: int = 0, destination_index: Optional[int] = None) -> Tensor:
    """Return the tensors joined on one device."""
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    return torch.cat([tensor.to(_device(destination_index)) for tensor in tensors], dim)


def _gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int = 0) -> Tensor:
    """Join the tensors in ``out``."""
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    for part, tensor in zip(out.split([each.size(dim) for each in tensors], dim), tensors):
        part.copy_(tensor)
    return out


def _same_shape(tensor: Tensor, other: Tensor) -> Tensor:
    if tensor.shape != other.shape:
        raise RuntimeError(
            f"Expected all output tensors to have the shape {tuple(tensor.shape)}, found {tuple(other.shape)}"
        )
    return tensor


_FUNCTIONS = (
    *(_broadcast, _broadcast_coalesced, _broadcast_out),
    *(_scatter, _scatter_out, _gather, _gather_out),
)
