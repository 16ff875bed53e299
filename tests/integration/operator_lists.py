"""The operators of the training steps in operator_models.py, written from the models' definitions.

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

#: One step of the transformer: 5 linear layers, attention (2 products of matrices, a division, softmax), 2 dropouts, 2
#: sums, 2 norms, GELU. Products of 4 dimensions are expanded, cloned where they are not contiguous, and viewed.
TRANSFORMER_FORWARD: Calls = {
    "_to_copy": 15 + 2,  # parameters and inputs
    "embedding": 1,
    "view": None,
    "t": None,
    "addmm": 5,
    "permute": None,
    "select.int": None,
    "transpose.int": None,
    "expand": None,
    "clone": None,
    "_unsafe_view": None,
    "bmm": 2,
    "div.Tensor": 1,
    "_softmax": 1,
    "native_dropout": 2,
    "add.Tensor": 2,
    "native_layer_norm": 2,
    "gelu": 1,
    **LOSS,
}
#: Each product has two products for its gradients. Three parts of one tensor give three gradients, each as a part of a
#: tensor of zeros (``select_backward``), and two sums of these; and two residual paths.
TRANSFORMER_BACKWARD: Calls = {
    **LOSS_BACKWARD,
    "view": None,
    "t": None,
    "mm": 2 * 5,
    "sum.dim_IntList": 5,
    "native_layer_norm_backward": 2,
    "native_dropout_backward": 2,
    "gelu_backward": 1,
    "add.Tensor": 2 + 2,
    "bmm": 2 * 2,
    "transpose.int": None,
    "clone": None,
    "_unsafe_view": None,
    "_softmax_backward_data": 1,
    "div.Tensor": 1,
    "select_backward": 3,
    "permute": None,
    "embedding_dense_backward": 1,
    "detach": None,
}
#: AdamW: weight decay, both moments, the step size; state of 15 parameters.
TRANSFORMER_OPTIMIZER: Calls = {
    "zeros_like": 2 * 15,
    "_foreach_mul_.Scalar": 1 + 1,
    "_foreach_lerp_.Scalar": 1,
    "_foreach_addcmul_.Scalar": 1,
    "_foreach_sqrt": 1,
    "_foreach_div_.ScalarList": 1,
    "_foreach_add_.Scalar": 1,
    "_foreach_addcdiv_.ScalarList": 1,
}
#: The same, one parameter at a time. The number of steps is a tensor on the CPU, on the NPU as well.
TRANSFORMER_CPU_OPTIMIZER = {
    "zeros_like",
    "lift_fresh",
    "add_.Tensor",
    "_local_scalar_dense",
    "mul_.Tensor",
    "lerp_.Scalar",
    "addcmul_",
    "sqrt",
    "div.Tensor",
    "addcdiv_",
}

#: What kernels for all devices call, which run for operators without a kernel of their own: views are strides, zeros
#: are empty first, and ``select_backward`` copies into a part of zeros.
INNER: dict[str, set[str]] = {
    "t": {"transpose.int"},
    "transpose.int": {"as_strided"},
    "expand": {"as_strided"},
    "permute": {"as_strided"},
    "select.int": {"as_strided"},
    "zeros_like": {"empty_like", "zero_"},
    "select_backward": {"zeros", "select.int", "copy_"},
}

#: Parameters and inputs are made on the CPU, whatever the device.
RESNET_MADE = {"empty.memory_format", "uniform_", "ones", "fill_.Scalar", "zeros", "zero_", "lift_fresh"}
TRANSFORMER_MADE = {"empty.memory_format", "uniform_", "normal_", "fill_.Scalar", "zero_", "lift_fresh"}

#: Dropout is made of a mask and a product on the CPU (``torch.dropout`` outside of CUDA and torch_npu).
CPU_DROPOUT = {"empty_like", "bernoulli_.float", "div_.Scalar", "mul.Tensor"}
NPU_DROPOUT = {"native_dropout", "native_dropout_backward"}


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
TRANSFORMER: dict[str, Calls] = {
    "forward": TRANSFORMER_FORWARD,
    "backward": TRANSFORMER_BACKWARD,
    "clipping": CLIPPING,
    "optimizer": TRANSFORMER_OPTIMIZER,
}
#: On the CPU.
RESNET_CPU = (
    (RESNET_FORWARD.keys() | RESNET_BACKWARD.keys() | CLIPPING.keys() | RESNET_CPU_OPTIMIZER | RESNET_MADE)
    - {"_to_copy"}
)  # fmt: skip
TRANSFORMER_CPU = (
    (
        (TRANSFORMER_FORWARD.keys() | TRANSFORMER_BACKWARD.keys() | CLIPPING.keys() | TRANSFORMER_CPU_OPTIMIZER)
        | TRANSFORMER_MADE
        | CPU_DROPOUT
    )
    - NPU_DROPOUT
    - {"_to_copy"}
)
