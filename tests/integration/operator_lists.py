"""The operators of the training steps in operator_models.py, written from the model's definition.

No trace has made these lists. What a layer runs is its definition in ``torch.nn``, what its gradient runs are the
formulas of torch's ``derivatives.yaml``, what an optimizer and ``clip_grad_norm_`` run are their sources in
``torch.optim`` and ``torch.nn.utils`` (torch 2.13). A number is how often, on the NPU; ``None`` stands for an operator
that only makes views, whose number says nothing about the model. Inputs and parameters are made on the CPU and moved.
"""

from __future__ import annotations

from typing import Optional

Calls = dict[str, Optional[int]]

#: Loss and backward begin alike, per step. A parameter's gradient is kept as ``grad.detach()``.
LOSS: Calls = {"_log_softmax": 1, "nll_loss_forward": 1}
LOSS_BACKWARD: Calls = {"ones_like": 1, "nll_loss_backward": 1, "_log_softmax_backward_data": 1}

#: ``clip_grad_norm_``: the norm of norms, ``max_norm / (norm + 1e-6)`` clamped, and all gradients times that.
CLIPPING: Calls = {
    "_foreach_norm.Scalar": 1,
    "stack": 1,
    "linalg_vector_norm": 1,
    "add.Tensor": 1,
    "reciprocal": 1,
    "mul.Tensor": 1,
    "clamp": 1,
    "_foreach_mul_.Tensor": 1,
}

#: Two steps of the ResNet. Per step: 4 convolutions, each with a batch norm, which counts its batches (``add_``) and
#: asks for an empty buffer; 3 ReLUs in place; the shortcut is added in place; the average over 1x1 is a mean.
RESNET_FORWARD: Calls = {
    "_to_copy": 14 + 12 + 2,  # parameters, buffers of 4 batch norms, inputs: once
    "convolution": 2 * 4,
    "native_batch_norm": 2 * 4,
    "empty.memory_format": 2 * 4,
    "add_.Tensor": 2 * (4 + 1),
    "relu_": 2 * 3,
    "max_pool2d_with_indices": 2,
    "mean.dim": 2,
    "view": None,
    "t": None,
    "addmm": 2,
    **dict.fromkeys(LOSS, 2),
}
#: The gradient of a mean is expanded and divided; both uses of the block's input are added; ``addmm`` has two ``mm``
#: and a sum for its bias; 14 parameters.
RESNET_BACKWARD: Calls = {
    **dict.fromkeys(LOSS_BACKWARD, 2),
    "t": None,
    "mm": 2 * 2,
    "sum.dim_IntList": 2,
    "view": None,
    "expand": None,
    "div.Scalar": 2,
    "threshold_backward": 2 * 3,
    "native_batch_norm_backward": 2 * 4,
    "convolution_backward": 2 * 4,
    "add.Tensor": 2,
    "max_pool2d_with_indices_backward": 2,
    "detach": None,
}
#: SGD with momentum and weight decay: ``grad + decay * parameter``; the momentum is a clone of that at first, then it
#: is multiplied and added to; then the update.
RESNET_OPTIMIZER: Calls = {
    "_foreach_add.List": 2,
    "clone": 14,
    "detach": None,
    "_foreach_mul_.Scalar": 1,
    "_foreach_add_.List": 2 + 1,
}
RESNET_CPU_OPTIMIZER = {"add.Tensor", "clone", "detach", "mul_.Tensor", "add_.Tensor"}


#: What kernels for all devices call, which run for operators without a kernel of their own: views are strides.
INNER: dict[str, set[str]] = {
    "t": {"transpose.int"},
    "transpose.int": {"as_strided"},
    "expand": {"as_strided"},
}

#: Parameters and inputs are made on the CPU, whatever the device.
RESNET_MADE = {"empty.memory_format", "uniform_", "ones", "fill_.Scalar", "zeros", "zero_", "lift_fresh"}


def with_inner(operators: set[str]) -> set[str]:
    """Return operators with those that their kernels call."""
    found = set(operators)
    while True:
        more = {inner for name in found for inner in INNER.get(name, ())} - found
        if not more:
            return found
        found |= more


def scaled(calls: Calls, times: int) -> Calls:
    return {name: None if number is None else number * times for name, number in calls.items()}


#: By phase, on the NPU.
RESNET: dict[str, Calls] = {
    "forward": RESNET_FORWARD,
    "backward": RESNET_BACKWARD,
    "clipping": scaled(CLIPPING, 2),
    "optimizer": RESNET_OPTIMIZER,
}
#: On the CPU.
RESNET_CPU = (
    (RESNET_FORWARD.keys() | RESNET_BACKWARD.keys() | CLIPPING.keys() | RESNET_CPU_OPTIMIZER | RESNET_MADE)
    - {"_to_copy"}
)  # fmt: skip
