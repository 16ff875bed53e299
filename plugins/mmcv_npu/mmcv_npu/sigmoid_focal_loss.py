"""Focal loss on sigmoids on the kernel of mx_driving (distribution mx-driving 26.2).

mmcv's autograd Function and that of mx_driving take the same arguments; mmcv's own class stays, so that saved
references keep their meaning. The kernel computes in float32: half precision is cast, and the result has the dtype of
the input, as in mmcv.

Paper: Lin et al., "Focal Loss for Dense Object Detection" (arXiv:1708.02002).
"""

from __future__ import annotations

from typing import Any

import patchcore as pc
from mmcv_npu import kernels


def forward_fits(
    ctx: Any,
    input: Any,
    target: Any,
    gamma: float = 2.0,
    alpha: float = 0.25,
    weight: Any = None,
    reduction: str = "mean",
) -> bool:
    """Return whether the kernel takes this call, see :func:`forward`; mmcv still refuses the same arguments."""
    import torch

    return (
        kernels.takes(input)
        and kernels.takes_dtype(input)
        and input.dim() == 2
        and input.numel() > 0
        and target.dtype == torch.int64
        and target.shape == input.shape[:1]
        and (weight is None or weight.shape == input.shape[1:])
        and reduction in ("none", "mean", "sum")
    )


def forward(
    ctx: Any,
    input: Any,
    target: Any,
    gamma: float = 2.0,
    alpha: float = 0.25,
    weight: Any = None,
    reduction: str = "mean",
) -> Any:
    """Replace ``SigmoidFocalLossFunction.forward``: run the kernel.

    Args:
        ctx: autograd context, handed through.
        input: (samples, classes), logits.
        target: (samples,), int64, the class of each sample; the number of classes for background.
        gamma: how much less well-classified samples count.
        alpha: weight of the target class; all others have 1 - alpha.
        weight: (classes,), weight of the samples of each class, or ``None``. There must be no background then.
        reduction: ``none``, ``mean`` (the sum divided by the number of samples) or ``sum``.

    Returns:
        (samples, classes), or a scalar, of the dtype of ``input``.
    """
    from mx_driving.ops.sigmoid_focal_loss import SigmoidFocalLossFunction

    kernels.mark_forward(ctx)
    with kernels.without_autocast(input):
        loss = SigmoidFocalLossFunction.forward(
            ctx, input.float(), target, gamma, alpha, None if weight is None else weight.float(), reduction
        )
    return loss.type_as(input)


def backward(ctx: Any, grad_output: Any) -> tuple[Any, ...]:
    """Replace ``SigmoidFocalLossFunction.backward``: run the kernel.

    Args:
        ctx: autograd context of :func:`forward`.
        grad_output: of the shape that :func:`forward` returned.

    Returns:
        The gradient of ``input`` in float32, which autograd casts, and ``None`` for the five other arguments.
    """
    from mx_driving.ops.sigmoid_focal_loss import SigmoidFocalLossFunction

    return SigmoidFocalLossFunction.backward(ctx, grad_output.float())


_FUNCTION = "mmcv.ops.focal_loss:SigmoidFocalLossFunction"

SIGMOID_FOCAL_LOSS = pc.Patch(
    "mmcv.sigmoid_focal_loss",
    [
        pc.Replace(f"{_FUNCTION}.forward", forward, when_call=forward_fits),
        pc.Replace(f"{_FUNCTION}.backward", backward, when_call=kernels.did_forward),
    ],
    summary="sigmoid focal loss on the mx_driving kernel",
    requires="mmcv>=1.3,<3",
    when=kernels.operators_are_built,
    needs="mx_driving",
    legacy_names=["sigmoid_focal_loss", "SigmoidFocalLoss"],
    default=False,
    checks=pc.Check(
        "mmcv_npu.checks.sigmoid_focal_loss:called", dtypes={"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
    ),
)
