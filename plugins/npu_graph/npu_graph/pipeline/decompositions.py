"""Decompositions: operators that are traced as smaller ones, so that a vendor converts few."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional

import torch

from npu_graph.options import Options
from npu_graph.private_torch import core_aten_decompositions, decomposition_table
from npu_graph.vendor import Vendor

__all__ = ["decompositions_for", "is_random"]

aten = torch.ops.aten
Table = dict[Any, Callable[..., Any]]

#: Operators that torch's core set keeps whole, and that are decomposed here, by torch's own decompositions.
_FURTHER = (
    aten.native_layer_norm.default,
    aten.native_group_norm.default,
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit_no_training.default,
    aten._batch_norm_with_update_functional.default,
    aten.batch_norm_backward.default,
    aten.max_pool2d_with_indices_backward.default,
    aten.gelu.default,
    aten._softmax.default,
    aten._log_softmax.default,
    aten.elu.default,
    aten.elu_backward.default,
    aten.leaky_relu.default,
    aten.leaky_relu_backward.default,
    aten.hardtanh.default,
    aten.hardtanh_backward.default,
    aten.embedding_dense_backward.default,
    aten.upsample_bilinear2d.default,
    aten.upsample_bilinear2d.vec,
    aten.index_select.default,
    aten.split_with_sizes.default,
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.replication_pad2d.default,
    aten.hypot.default,
    aten.repeat.default,
)


def decompositions_for(vendor: Vendor, options: Options) -> Table:
    """Return the table for aot_autograd: torch's core set and more, without operators that the vendor takes whole.

    Operators that stay eager on request stay whole, and so do random operators: their decompositions would draw
    other numbers.
    """
    table: Table = dict(core_aten_decompositions())
    table.update((operator, decomposition_table[operator]) for operator in _FURTHER if operator in decomposition_table)
    table.update(_OWN)
    named = {str(operator): operator for operator in table}
    for name, function in vendor.declarations.decompositions.items():
        for operator in [named[name]] if name in named else _overloads(name):
            table[operator] = function
    return {operator: function for operator, function in table.items() if _is_wanted(operator, vendor, options)}


def _is_wanted(operator: Any, vendor: Vendor, options: Options) -> bool:
    if options.kept_by(str(operator)):
        return False
    declared = vendor.declarations.decompositions
    if str(operator) in declared or str(operator).rpartition(".")[0] in declared:
        return True
    # attention is random for its dropout, which that of the CPU does not have
    return not vendor.find(operator) and (operator in _OWN or not is_random(operator))


def is_random(operator: Any) -> bool:
    """Return whether an operator draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ())


def _overloads(name: str) -> list[Any]:
    namespace, packet, *overload = name.split(".")
    found = getattr(getattr(torch.ops, namespace), packet)
    return [getattr(found, each) for each in overload or found.overloads()]


def variance(
    x: torch.Tensor, dim: Optional[list[int]] = None, *, correction: Optional[float] = None, keepdim: bool = False
) -> torch.Tensor:
    """The variance in two passes, as sums."""
    return _variance_and_mean(x, dim, correction, keepdim)[0]


def variance_and_mean(
    x: torch.Tensor, dim: Optional[list[int]] = None, *, correction: Optional[float] = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The variance in two passes, and the mean."""
    return _variance_and_mean(x, dim, correction, keepdim)


def _variance_and_mean(
    x: torch.Tensor, dim: Optional[list[int]], correction: Optional[float], keepdim: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    dims = list(dim) if dim else list(range(x.dim()))
    count = math.prod(x.shape[d] for d in dims)
    mean = x.mean(dims, keepdim=True)
    squares = (x - mean).square().sum(dims, keepdim=keepdim)
    free = count - (1 if correction is None else correction)
    # not below zero, where torch divides by zero too
    variance = squares / (max(free, 0) if isinstance(free, (int, float)) else torch.sym_max(free, 0))
    return variance, mean if keepdim else mean.squeeze(dims)


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Optional[torch.Tensor] = None,
    scale: Optional[float] = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of the CPU with the values that its backward needs.

    torch's own decomposition (2.13) returns the weights in the place of their logarithmic sums, which serves inference
    only.
    """
    from npu_graph.private_torch import compute_elementwise_output_logical_to_physical_perm

    key, value = _per_head(key, query), _per_head(value, query)
    scores = _scores(query, key, is_causal, attn_mask, scale)
    logsumexp = torch.logsumexp(scores, -1)
    if attn_mask is not None:  # a row that is masked whole is 0
        logsumexp = torch.where(logsumexp == float("-inf"), 0.0, logsumexp)
    output = torch.exp(scores - logsumexp.unsqueeze(-1)) @ value
    # the kernel gives its result the layout of the query
    order, _ = compute_elementwise_output_logical_to_physical_perm(query)
    back = sorted(range(len(order)), key=order.__getitem__)
    return output.permute(order).contiguous().permute(back), logsumexp


def attention_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Optional[torch.Tensor] = None,
    scale: Optional[float] = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of query, key and value, by the chain rule through the softmax."""
    heads = key.shape[1]
    key, value = _per_head(key, query), _per_head(value, query)
    weights = torch.exp(_scores(query, key, is_causal, attn_mask, scale) - logsumexp.unsqueeze(-1))
    grad_weights = grad_out @ value.transpose(-2, -1)
    grad_scores = weights * (grad_weights - (grad_out * out).sum(-1, keepdim=True)) * _scale(query, scale)
    grads = grad_scores @ key, grad_scores.transpose(-2, -1) @ query, weights.transpose(-2, -1) @ grad_out
    return (
        _as_sequences(grads[0]),
        _as_sequences(_of_groups(grads[1], heads)),
        _as_sequences(_of_groups(grads[2], heads)),
    )


def _per_head(x: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Keys or values for each head of a query, where several of these share one."""
    repeats = query.shape[1] // x.shape[1]
    return x if repeats == 1 else x.repeat_interleave(repeats, 1)


def _of_groups(grad: torch.Tensor, heads: int) -> torch.Tensor:
    """The gradient of keys or values that several heads share."""
    return grad if grad.shape[1] == heads else grad.unflatten(1, (heads, -1)).sum(2)


def _scale(query: torch.Tensor, scale: Optional[float]) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _scores(
    query: torch.Tensor, key: torch.Tensor, is_causal: bool, mask: Optional[torch.Tensor], scale: Optional[float]
) -> torch.Tensor:
    scores = query @ key.transpose(-2, -1) * _scale(query, scale)
    if is_causal:
        rows = torch.arange(query.shape[-2], device=query.device).unsqueeze(-1)
        columns = torch.arange(key.shape[-2], device=query.device)
        scores = torch.where(columns <= rows, scores, float("-inf"))
    return scores if mask is None else scores + mask


def _as_sequences(x: torch.Tensor) -> torch.Tensor:
    """The layout that the kernel gives gradients: heads inside positions."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def contiguous_view(
    x: torch.Tensor, size: list[int], stride: list[int], storage_offset: Optional[int] = None
) -> torch.Tensor:
    """A view by strides that is a view by sizes, as several decompositions of torch make; others are unchanged."""
    from npu_graph.private_torch import make_contiguous_strides_for

    covers_all = not storage_offset and x.is_contiguous() and math.prod(size) == x.numel()
    return x.view(size) if covers_all and tuple(stride) == make_contiguous_strides_for(size) else NotImplemented


_OWN: Table = {
    aten.as_strided.default: contiguous_view,
    aten.var.correction: variance,
    aten.var_mean.correction: variance_and_mean,
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default: attention_backward,
}
