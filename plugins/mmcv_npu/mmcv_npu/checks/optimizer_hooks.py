"""Random trainings with mmcv 1.x's optimizer hooks: with a fused optimizer on the NPU, with torch's elsewhere."""

from __future__ import annotations

import logging
import random
from types import SimpleNamespace
from typing import Any

import patchcore as pc
from mmcv_npu.checks import drawing
from mmcv_npu.checks.optimizer_wrapper import make_optimizer

#: More than once round for every hook that gathers gradients.
ITERATIONS = 4


def trained(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a few steps of gradient descent, clipped by a norm, with or without accumulation."""
    values = drawing.parameters(rng, size)
    clipping = rng.choice(({"max_norm": 0.5}, {"max_norm": 1e6, "norm_type": 2}, {"max_norm": 0.1, "norm_type": 1}))
    gathered = rng.choice((1, 2))

    def call(*values: Any) -> list[Any]:
        import torch
        from mmcv.runner.hooks.optimizer import GradientCumulativeOptimizerHook, OptimizerHook
        from mmcv.runner.log_buffer import LogBuffer

        model = torch.nn.Module()
        for number, value in enumerate(values):
            model.register_parameter(f"weight{number}", torch.nn.Parameter(value.clone()))
        hook = (
            OptimizerHook(grad_clip=dict(clipping))
            if gathered == 1
            else GradientCumulativeOptimizerHook(cumulative_iters=gathered, grad_clip=dict(clipping))
        )
        runner = SimpleNamespace(  # as much of a runner as the hooks look at
            model=model,
            optimizer=make_optimizer(list(model.parameters())),
            log_buffer=LogBuffer(),
            logger=logging.getLogger(__name__),
            max_iters=ITERATIONS,
            _max_iters=ITERATIONS,  # Hook.is_last_iter reads it
        )
        for runner.iter in range(ITERATIONS):
            loss = sum((parameter**2).sum() for parameter in model.parameters())
            runner.outputs = {"loss": loss, "num_samples": 1}
            hook.after_train_iter(runner)
        norms = runner.log_buffer.val_history["grad_norm"]
        return [torch.tensor(norms), *(parameter.detach() for parameter in model.parameters())]

    return pc.Case(call, values)
