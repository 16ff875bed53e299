"""What is recorded of a tensor: its dtype and shape, and numbers that show where it differs from another one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import torch

from patchcore_torch.recording.records import NAMES

__all__ = ["Described", "dense", "describe", "tensors_in"]

#: Containers in containers, for results that contain themselves.
_DEEPEST = 6
#: A prime, so that no row of a usual shape begins with the same sign as the row before it.
_PATTERN = 4099

_signs: dict[torch.device, torch.Tensor] = {}


class Described(NamedTuple):
    """A tensor in a record.

    Args:
        dtype: its name, ``float32``.
        shape: as numbers.
        device: its kind, ``npu``.
        numbers: see :data:`~patchcore_torch.recording.records.NAMES`, of the values that are finite.
        bad: how many values are infinite or no number.
    """

    dtype: str
    shape: tuple[int, ...]
    device: str
    numbers: tuple[float, ...]
    bad: int


def tensors_in(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in a value with names: ``output``, ``output[0]``, ``output.logits``.

    Args:
        value: a tensor, or lists, tuples, mappings and data classes of them; all else has none.
        name: of the value.
        depth: how many containers it is in.
    """
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth == _DEEPEST or isinstance(value, (str, bytes)):
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from tensors_in(item, f"{name}.{key}", depth + 1)
    elif isinstance(value, Sequence):
        for index, item in enumerate(value):
            yield from tensors_in(item, f"{name}[{index}]", depth + 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from tensors_in(getattr(value, field.name, None), f"{name}.{field.name}", depth + 1)


def describe(tensor: torch.Tensor) -> Described:
    """Return the description of a tensor.

    The numbers are computed where the tensor is, in single precision (double for double), and cross to the host as one
    tensor: a statistic costs one wait for the device.

    Raises:
        Exception: whatever torch raises for a tensor without values.
    """
    local = dense(tensor)
    flat = _real(local).reshape(-1)
    shape = tuple(int(size) for size in tensor.shape)
    device = local.device.type
    dtype = str(tensor.dtype).partition(".")[2]
    if flat.numel() == 0:
        return Described(dtype, shape, device, (0.0,) * len(NAMES), 0)
    finite = torch.isfinite(flat)
    values = torch.where(finite, flat, torch.zeros((), dtype=flat.dtype, device=flat.device))
    low, high = values.aminmax()
    found = [low, high, values.mean(), torch.linalg.vector_norm(values), _mix(values), (~finite).sum().to(flat.dtype)]
    numbers = torch.stack(found).cpu().tolist()
    bad = numbers.pop()
    return Described(
        dtype, shape, device, tuple(number if math.isfinite(number) else 0.0 for number in numbers), int(bad)
    )


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of this process as an ordinary tensor, without gradient."""
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):  # torch.distributed.tensor.DTensor, torch 2.0 and later
        tensor = tensor.to_local()
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.layout is not torch.strided:
        return tensor.to_dense()
    return tensor


def _real(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _mix(values: torch.Tensor) -> torch.Tensor:
    """Return the sum of values that have been given signs by their place."""
    signs = _signs.get(values.device)
    if signs is None:
        # the bits of a linear congruential generator (Knuth, The Art of Computer Programming 2, 3.3.4, line 26):
        # the same on each device and in each release of torch, and no random number of the program is used up
        state, bits = 1, []
        for _ in range(_PATTERN):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            bits.append(1.0 if state >> 63 else -1.0)
        signs = _signs[values.device] = torch.tensor(bits, device=values.device)
    rows = -(-values.numel() // _PATTERN)
    padded = torch.nn.functional.pad(values, (0, rows * _PATTERN - values.numel())).view(rows, _PATTERN)
    sums = (padded * signs.to(values.dtype)).sum(1)
    return (sums * signs[:_PATTERN].to(values.dtype).repeat(-(-rows // _PATTERN))[:rows]).sum()
