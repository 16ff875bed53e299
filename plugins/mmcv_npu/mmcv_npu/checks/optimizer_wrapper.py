"""Random trainings with mmengine's OptimWrapper: with a fused optimizer on the NPU, with torch's elsewhere."""

from __future__ import annotations

import random
from typing import Any

import patchcore as pc
from mmcv_npu.checks import drawing


def trained(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a few steps of gradient descent, clipped by a norm or by value, with or without accumulation."""
    values = drawing.parameters(rng, size)
    clipping = rng.choice(
        (
            {"max_norm": 0.5},
            {"max_norm": 1e6, "norm_type": 2},
            {"max_norm": 0.1, "norm_type": float("inf")},
            {"type": "norm", "max_norm": 0.5, "norm_type": 1.0},
            {"max_norm": 0.5, "error_if_nonfinite": True},
            {"type": "value", "clip_value": 0.05},
        )
    )
    accumulated = rng.choice((1, 2))

    def call(*values: Any) -> list[Any]:
        from mmengine.optim import OptimWrapper

        parameters = [value.clone().requires_grad_() for value in values]
        wrapper = OptimWrapper(make_optimizer(parameters), accumulative_counts=accumulated, clip_grad=dict(clipping))
        for _ in range(4):
            wrapper.update_params(sum((parameter**2).sum() for parameter in parameters))
        return [parameter.detach() for parameter in parameters]

    return pc.Case(call, values)


def make_optimizer(parameters: list[Any]) -> Any:
    """Return gradient descent with momentum for these parameters: fused on the NPU, torch's elsewhere."""
    if parameters[0].device.type == "npu":
        from torch_npu.optim import NpuFusedSGD

        return NpuFusedSGD(parameters, lr=0.1, momentum=0.9)
    from torch.optim import SGD

    return SGD(parameters, lr=0.1, momentum=0.9)
