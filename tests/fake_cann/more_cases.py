"""Cases that PyTorch's database of operators does not have: name, function, what makes the arguments for a type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F


def normal(*sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return what makes a tensor of normal numbers."""
    return lambda dtype: torch.randn(*sizes).to(dtype)


def numbers(high: int, *sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return what makes a tensor of whole numbers."""
    return lambda dtype: torch.randint(0, high, sizes)


def adam(parameter: torch.Tensor, gradient: torch.Tensor, **options: Any) -> torch.Tensor:
    """Return a parameter after three steps of Adam."""
    parameter = torch.nn.Parameter(parameter.clone())
    optimizer = torch.optim.AdamW([parameter], 1e-2, **options)
    for _ in range(3):
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


CASES: list[tuple[str, Callable[..., Any], list[Any]]] = [
    ("foreach adam", lambda p, g: adam(p, g, foreach=True), [normal(7, 5), normal(7, 5)]),
    ("fused adam", lambda p, g: adam(p, g, fused=True), [normal(7, 5), normal(7, 5)]),
    ("fused adam amsgrad", lambda p, g: adam(p, g, fused=True, amsgrad=True), [normal(7, 5), normal(7, 5)]),
    ("embedding", lambda w, i: F.embedding(i, w), [normal(11, 4), numbers(11, 3, 5)]),
    ("cross entropy", lambda x, y: F.cross_entropy(x, y), [normal(6, 9), numbers(9, 6)]),
    ("cross entropy 2d", lambda x, y: F.cross_entropy(x, y), [normal(2, 9, 4, 4), numbers(9, 2, 4, 4)]),
    ("masked index", lambda x: x[x > 0], [normal(4, 5)]),
    (
        "index put",
        lambda x, i, v: x.clone().index_put((i,), v, accumulate=True),
        [normal(6, 3), numbers(6, 4), normal(4, 3)],
    ),
]
