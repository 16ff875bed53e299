"""Random tensors and settings, from the ``random.Random`` that a check is given."""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc


def generator(rng: random.Random) -> Any:
    """Return a ``torch.Generator`` whose numbers ``rng`` decides."""
    import torch

    return torch.Generator().manual_seed(rng.getrandbits(62))


def normal(rng: random.Random, *shape: int) -> Any:
    """Return a float32 tensor of standard normal numbers."""
    import torch

    return torch.randn(shape, generator=generator(rng))


def uniform(rng: random.Random, low: float, high: float, *shape: int) -> Any:
    """Return a float32 tensor of numbers from ``low`` to ``high``."""
    import torch

    return low + (high - low) * torch.rand(shape, generator=generator(rng))


def integers(rng: random.Random, low: int, high: int, *shape: int) -> Any:
    """Return an int64 tensor of numbers from ``low`` to ``high``, both included."""
    import torch

    return torch.randint(low, high + 1, shape, generator=generator(rng))


def parameters(rng: random.Random, size: pc.Size) -> list[Any]:
    """Return the weights of a model: some tensors of up to three dimensions."""
    shapes = [
        [size.draw(rng, small=(1, 6), typical=(16, 64)) for _ in range(rng.randint(1, 3))]
        for _ in range(size.draw(rng, small=(1, 4), typical=(4, 16)))
    ]
    return [normal(rng, *shape) for shape in shapes]


def within_pixels(rng: random.Random, low: int, high: int, *shape: int) -> Any:
    """Return float32 places from ``low`` to ``high + 1``, well between whole numbers.

    At whole pixels the derivative of a bilinear sample jumps, and rounding would decide about its side.
    """
    return integers(rng, low, high, *shape) + uniform(rng, 0.1, 0.9, *shape)


def mixed(rng: random.Random, dtype: Any, *tensors: Any) -> list[Any]:
    """Return tensors as mixed precision has them: each in ``dtype``, or as it is."""
    return [rng.choice((tensor, tensor.to(dtype))) for tensor in tensors]


def autocast(rng: random.Random, dtype: Any) -> Any:
    """Return a function of a tensor that makes a context: autocast to ``dtype`` on its device, or none.

    There is none in float32, the dtype that autocast spares.
    """
    import torch

    enabled = rng.random() < 0.5 and dtype is not torch.float32
    return lambda tensor: torch.autocast(tensor.device.type, dtype=dtype if enabled else torch.float16, enabled=enabled)
