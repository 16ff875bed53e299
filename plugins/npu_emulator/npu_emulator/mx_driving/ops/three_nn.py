"""The three nearest neighbours (mx-driving 26.2, ``mx_driving/ops/three_nn.py``)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from npu_emulator.mx_driving._counting import calls


class ThreeNN(Function):
    """The three source points nearest to each target. It has no gradient."""

    @staticmethod
    def forward(ctx: Any, target: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        """Find neighbours.

        Args:
            ctx: the autograd context.
            target: shape (b, n, 3).
            source: shape (b, m, 3), m at least 3.

        Returns:
            Distances, nearest first, and indices, int32, both of shape (b, n, 3). Of float16, computed in float32.

        Raises:
            ValueError: the tensors have another shape than described.
        """
        shapes = tuple(target.shape), tuple(source.shape)
        if any(len(shape) != 3 or shape[::2] != (shapes[0][0], 3) for shape in shapes) or shapes[1][1] < 3:
            raise ValueError(
                "mx_driving.three_nn: expected targets of shape (b, n, 3) and three or more sources, (b, m, 3), found "
                f"{shapes[0]} and {shapes[1]}"
            )
        calls["three_nn"] += 1
        precise = torch.promote_types(source.dtype, torch.float32)
        offset = target.to(precise).unsqueeze(2) - source.to(precise).unsqueeze(1)
        squared, index = torch.topk(offset.square().sum(dim=-1), 3, dim=-1, largest=False)
        index = index.int()
        ctx.mark_non_differentiable(index)
        return squared.sqrt().to(source.dtype), index


# Bound as in mx_driving: positional arguments only.
three_nn = ThreeNN.apply
