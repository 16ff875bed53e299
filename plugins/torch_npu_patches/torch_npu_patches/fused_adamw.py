"""The step of ``NpuFusedAdamW`` in one kernel for each combined tensor.

The optimizer (torch_npu, ``torch_npu/optim/npu_fused_adamw.py``) lays parameters, gradients and states of a group and
dtype out as one tensor each and updates them by about ten operations; ``fused_adamw_custom`` (distribution mx-driving
26.2) does the same update in place in one.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc


def group_step(self: Any, group_index: int) -> None:
    """Replace ``NpuFusedAdamW._group_step``: update the parameters of one group.

    Args:
        self: the optimizer, its parameters and states combined.
        group_index: which of ``self.param_groups``.

    Raises:
        RuntimeError: a gradient is sparse. No step is counted then.
    """
    from mx_driving import fused_adamw_custom

    group = self.param_groups[group_index]
    with_gradient = [parameter for parameter in group["params"] if parameter.grad is not None]
    for parameter in with_gradient:
        if parameter.grad.is_sparse:
            raise RuntimeError(
                "NpuFusedAdamW: expected dense gradients, found a sparse one of shape "
                f"{tuple(parameter.grad.shape)} in parameter group {group_index}; use torch.optim.SparseAdam for that "
                "parameter, or sparse=False in the embedding it belongs to"
            )
    for parameter in with_gradient:
        self.state[parameter]["step"] += 1
    beta1, beta2 = group["betas"]
    for parameters, gradients, state in zip(
        self.combined_params_indexed_by_group[group_index],
        self.combined_grads_indexed_by_group[group_index],
        self.combined_param_states_indexed_by_group[group_index],
    ):
        if parameters is None or gradients is None:  # no parameter of this dtype
            continue
        state["step"] += 1
        fused_adamw_custom(
            parameters,
            gradients,
            state["exp_avg"],
            state["exp_avg_sq"],
            state["max_exp_avg_sq"],
            group["lr"],
            beta1,
            beta2,
            group["weight_decay"],
            group["eps"],
            state["step"],
            group["amsgrad"],
        )


FUSED_ADAMW_STEP = pc.Patch(
    "torch.npu_fused_adamw_step",
    [pc.Replace("torch_npu.optim:NpuFusedAdamW._group_step", group_step)],
    summary="the step of NpuFusedAdamW in one mx_driving kernel",
    needs=["torch_npu", "mx_driving"],
    legacy_names=["npu_fused_adamw_step", "NpuFusedAdamwStep"],
    checks=pc.Check("torch_npu_patches.checks:fused_steps", dtypes={"float32": 1e-5}),
    default=False,
)
