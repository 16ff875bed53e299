"""``torch.autocast("npu")`` in Python: which operators compute in which precision.

The lists are those of torch_npu (``torch_npu/csrc/aten/AutoCastOps.cpp`` of Ascend/pytorch, 2.x), which are CUDA's of
torch (2.13, "Autocast Op Reference") without later additions. The compiled core has the same in C++.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import torch
from torch import Tensor

from npu_emulator import private_torch
from npu_emulator.device.dlpack.registry import operator_named
from npu_emulator.private_torch import DispatchKey, DispatchKeySet, OpOverload

__all__ = ["FLOAT32", "FLOAT32_RESULT", "LOWER_PRECISION", "WIDEST", "register"]

_KEY = "AutocastPrivateUse1"
_KEYS = DispatchKeySet(DispatchKey.AutocastPrivateUse1)

#: Computed in the lower precision.
LOWER_PRECISION = (
    "_convolution",
    "_convolution.deprecated",
    "_scaled_dot_product_flash_attention",
    "_thnn_fused_gru_cell",
    "_thnn_fused_lstm_cell",
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution",
    "einsum",
    "gru_cell",
    "linalg_multi_dot",
    "linear",
    "lstm_cell",
    "matmul",
    "mm",
    "mv",
    "prelu",
    "rnn_relu_cell",
    "rnn_tanh_cell",
    "scaled_dot_product_attention",
)
#: Computed in float32.
FLOAT32 = (
    "acos",
    "asin",
    "cdist",
    "cosh",
    "cosine_embedding_loss",
    "cosine_similarity",
    "dist",
    "erfinv",
    "exp",
    "expm1",
    "frobenius_norm.dim",
    "group_norm",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "logsumexp",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "native_layer_norm",
    "nll_loss",
    "nll_loss2d",
    "nuclear_norm",
    "nuclear_norm.dim",
    "pdist",
    "poisson_nll_loss",
    "pow.Scalar",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "reciprocal",
    "renorm",
    "rsqrt",
    "sinh",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softplus",
    "tan",
    "triplet_margin_loss",
    "binary_cross_entropy_with_logits",
)
#: Accumulate in float32, unless the caller names a dtype: they have an argument ``dtype``.
FLOAT32_RESULT = (
    "cumprod",
    "cumsum",
    "linalg_matrix_norm",
    "linalg_matrix_norm.str_ord",
    "linalg_vector_norm",
    "log_softmax.int",
    "prod",
    "prod.dim_int",
    "softmax.int",
    "sum",
    "sum.dim_IntList",
)
#: Computed in the widest type among the arguments.
WIDEST = (
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "grid_sampler",
    "index_put",
    "scatter_add",
    "tensordot",
)
#: Norms in float32 whose overload with an argument ``dtype`` is another one.
_NORMS = ("norm.Scalar", "norm.ScalarOpt_dim")
_LOWER_TYPES = (torch.float16, torch.bfloat16)

# torch drops kernels with the library that registered them.
_kept: list[torch.library.Library] = []
#: By identity of the parameter, which is kept with its cast so that no other takes its place.
_casts_of_parameters: dict[int, tuple[Tensor, Tensor]] = {}


def register() -> None:
    """Register the kernels of autocast; an operator that is in no list runs unchanged. Once per process."""
    aten = torch.library.Library("aten", "IMPL")
    others = torch.library.Library("_", "IMPL")
    _kept.extend([aten, others])
    others.fallback(torch.library.fallthrough_kernel, _KEY)
    for name in LOWER_PRECISION:
        aten.impl(name, _casting(operator_named(name), _lower_type), _KEY)
    for name in (*FLOAT32, *_NORMS):
        aten.impl(name, _casting(operator_named(name), lambda arguments: torch.float32), _KEY)
    for name in WIDEST:
        aten.impl(name, _casting(operator_named(name), _widest_type), _KEY)
    for name in FLOAT32_RESULT:
        aten.impl(name, _accumulating(operator_named(name)), _KEY)
    aten.impl("binary_cross_entropy", _refuse_binary_cross_entropy, _KEY)
    _keep_casts_of_parameters()


def _casting(operator: OpOverload, choose: Callable[[Iterator[Tensor]], torch.dtype]) -> Callable[..., Any]:
    """Return the kernel that casts tensors to one type and computes."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with private_torch.ExcludeDispatchKeyGuard(_KEYS):
            dtype = choose(_tensors_in((*args, *kwargs.values())))
            cast_args = [_cast(value, dtype) for value in args]
            return operator(*cast_args, **{name: _cast(value, dtype) for name, value in kwargs.items()})

    return kernel


def _accumulating(operator: OpOverload) -> Callable[..., Any]:
    """Return the kernel that asks for a result in float32 where the caller asks for nothing."""
    names = [argument.name for argument in operator._schema.arguments]
    position = names.index("dtype")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with private_torch.ExcludeDispatchKeyGuard(_KEYS):
            if args[0].dtype in _LOWER_TYPES:
                if position >= len(args):
                    if kwargs.get("dtype") is None:
                        kwargs["dtype"] = torch.float32
                elif args[position] is None:
                    args = (*args[:position], torch.float32, *args[position + 1 :])
            return operator(*args, **kwargs)

    return kernel


def _refuse_binary_cross_entropy(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradients "
        "overflow in half precision. Use torch.nn.functional.binary_cross_entropy_with_logits or "
        "torch.nn.BCEWithLogitsLoss, or leave autocast for this call."
    )


def _lower_type(tensors: Iterator[Tensor]) -> torch.dtype:
    return torch.get_autocast_dtype("npu")


def _widest_type(tensors: Iterator[Tensor]) -> torch.dtype:
    if any(tensor.dtype == torch.float32 for tensor in tensors if _is_cast(tensor)):
        return torch.float32
    return torch.get_autocast_dtype("npu")


def _tensors_in(values: tuple[Any, ...]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, Tensor))


def _is_cast(tensor: Tensor) -> bool:
    """Return whether autocast touches a tensor: floating point on the NPU, and not in double precision."""
    return tensor.is_floating_point() and tensor.dtype != torch.float64 and tensor.device.type == "npu"


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return _cast_tensor(value, dtype)
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        return [_cast(item, dtype) for item in value]
    return value


def _cast_tensor(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if tensor.dtype == dtype or not _is_cast(tensor):
        return tensor
    if not (
        torch.is_autocast_cache_enabled()
        and tensor.dtype == torch.float32
        and dtype in _LOWER_TYPES
        and tensor.requires_grad
        and tensor.is_leaf
        and not tensor._is_view()
    ):
        return tensor.to(dtype)
    kept = _casts_of_parameters.get(id(tensor))
    if kept is None:
        kept = _casts_of_parameters[id(tensor)] = (tensor, tensor.to(dtype))
    return kept[1]


def _keep_casts_of_parameters() -> None:
    """Cast a parameter once per outermost block: the conditions are those of ``cached_cast`` in torch's C++.

    torch clears its own cache at the end of the block, by a function that this joins.
    """
    clear_torchs = torch.clear_autocast_cache

    def clear() -> None:
        _casts_of_parameters.clear()
        clear_torchs()

    torch.clear_autocast_cache = clear
