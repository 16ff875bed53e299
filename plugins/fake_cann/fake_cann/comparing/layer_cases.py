"""Cases of layers that torch_npu has under names of its own, of inference, and of a batch norm over several ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch_npu
from torch.nn import functional as F

from fake_cann.comparing.more_cases import drawn, floats, fused, inplace, normal, positive

__all__ = ["CASES"]


def constant(value: Any) -> Callable[[torch.dtype], Any]:
    """Return the factory of a value that is the same for every type."""
    return lambda dtype: value


def batch_norm_of_ranks(gather: str) -> Callable[..., Any]:
    """Return a function that computes a batch norm and its gradients from two parts of the batch.

    Args:
        gather: ``stats``, which is aten's, or ``sums``, which is torch_npu's: how the parts are put together.
    """

    def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, gradient: torch.Tensor) -> list[torch.Tensor]:
        x = x.detach()
        mean, variance = torch.zeros(x.size(1), device=x.device), torch.ones(x.size(1), device=x.device)
        if x.device.type == "cpu":
            leaves = [part.detach().requires_grad_() for part in (x, weight, bias)]
            y = F.batch_norm(leaves[0], mean, variance, *leaves[1:], training=True)
            return [y.detach(), mean, variance, *torch.autograd.grad(y, leaves, gradient)]
        parts = x.chunk(2)
        counts = torch.tensor([float(part.numel() // part.size(1)) for part in parts], device=x.device)
        if gather == "stats":
            stats = [torch.stack(found) for found in zip(*(torch.batch_norm_stats(part, 1e-5) for part in parts))]
            joined = torch.batch_norm_gather_stats_with_counts(x, *stats, mean, variance, 0.1, 1e-5, counts)
        else:
            sums = [torch.stack(found) for found in zip(*(torch_npu.batch_norm_reduce(part, 1e-5) for part in parts))]
            joined = torch_npu.batch_norm_gather_stats_update(x, *sums, mean, variance, 0.1, 1e-5, counts)
        of_all = [
            torch.batch_norm_backward_reduce(g, part, *joined, weight, True, True, True)
            for g, part in zip(gradient.chunk(2), parts)
        ]
        sums_of_all = [sum(found) for found in zip(*of_all)]
        of_x = [
            torch.batch_norm_backward_elemt(g, part, *joined, weight, *sums_of_all[:2], counts.int())
            for g, part in zip(gradient.chunk(2), parts)
        ]
        y = torch.batch_norm_elemt(x, weight, bias, *joined, 1e-5)
        return [y, mean, variance, torch.cat(of_x), *sums_of_all[2:]]

    return run


def on_npu(call: Callable[..., Any], definition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes a call on the NPU and computes its definition on the CPU."""
    return lambda first, *rest: (definition if first.device.type == "cpu" else call)(first, *rest)


def group_norm_silu(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, groups: int, epsilon: float
) -> torch.Tensor:
    """Return silu of a group norm."""
    return F.silu(F.group_norm(x, groups, weight, bias, epsilon))


def group_norm_swish(
    x: torch.Tensor, groups: int, weight: torch.Tensor, bias: torch.Tensor, epsilon: float, scale: float
) -> torch.Tensor:
    """Return swish of a group norm."""
    normed = F.group_norm(x, groups, weight, bias, epsilon)
    return normed * torch.sigmoid(scale * normed)


def gemma(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    """Return the norm of Gemma, whose factor is one more than the weight."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, True) + 1e-6) * (1 + gamma.float())).to(x.dtype)


def added_rms_norm_cast(x: torch.Tensor, y: torch.Tensor, gamma: torch.Tensor) -> list[torch.Tensor]:
    """Return the norm of a sum, as float and as it is, and the sum."""
    wide = (x + y).float()
    normed = (wide * torch.rsqrt(wide.square().mean(-1, True) + 1e-6) * gamma.float()).to(x.dtype)
    return [normed.float(), normed, x + y]


def called_rms_norm_cast(x: torch.Tensor, y: torch.Tensor, gamma: torch.Tensor) -> list[torch.Tensor]:
    """Return the results of the operator but for the roots."""
    first, second, _, total = torch.ops.npu.npu_add_rms_norm_cast(x, y, gamma)
    return [first, second, total]


def added_layer_norm(x: torch.Tensor, y: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> list[torch.Tensor]:
    """Return the layer norm of a sum."""
    return F.layer_norm(x + y, gamma.shape, gamma, beta)


def cross_entropy(x: torch.Tensor, target: torch.Tensor, weight: Any, reduction: str) -> torch.Tensor:
    """Return the cross entropy, which torch_npu has with one element rather than none; targets of -100 do not count."""
    loss = F.cross_entropy(x, target, weight, reduction=reduction)
    return loss.reshape(1) if reduction != "none" else loss


def masked_softmax(x: torch.Tensor, mask: torch.Tensor, scale: float, is_upper: bool) -> torch.Tensor:
    """Return the softmax of scaled numbers, of which some are replaced by -10,000."""
    hidden = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1) if is_upper else mask
    return torch.softmax((x * scale).masked_fill(hidden, -1e4), -1)


def rotated(query: torch.Tensor, key: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> list[torch.Tensor]:
    """Return query and key with rotated positions."""

    def turned(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * cosine + torch.cat([-second, first], -1) * sine

    return [turned(query), turned(key)]


def called_rotation(query: torch.Tensor, key: torch.Tensor, *angles: torch.Tensor) -> list[torch.Tensor]:
    """Return copies of query and key that the operator has changed."""
    changed = [query.clone(), key.clone()]
    torch.ops.npu.npu_apply_rotary_pos_emb(*changed, *angles)
    return changed


def gated(x: torch.Tensor, k: int) -> list[torch.Tensor]:
    """Return the largest probabilities of experts, the experts, and the rows by expert."""
    values, experts = torch.softmax(x.float(), -1).topk(k)
    rows = torch.arange(values.numel()).reshape(k, -1).t()
    return [values.to(x.dtype), experts.int(), rows.int()]


def quantised(x: torch.Tensor, factors: Any) -> list[torch.Tensor]:
    """Return rows as int8 with their scales."""
    x = x if factors is None else x.float() * factors.float()
    scale = x.float().abs().amax(-1, True) / 127
    return [torch.round(x.float() / scale).to(torch.int8), scale.squeeze(-1)]


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: Any) -> torch.Tensor:
    """Return the attention of BNSD tensors, of which the keys behind a length do not count."""
    groups = query.size(1) // key.size(1)
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    allowed = torch.ones(query.size(0), 1, 1, key.size(2), dtype=torch.bool)
    if lengths is not None:
        allowed = (torch.arange(key.size(2)) < torch.tensor(lengths)[:, None])[:, None, None]
    return F.scaled_dot_product_attention(query.float(), key.float(), value.float(), allowed, scale=0.5).to(query.dtype)


def whole_layer_norm(x: torch.Tensor, y: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> list[torch.Tensor]:
    """Return the layer norm of a sum, and the sum."""
    return [added_layer_norm(x, y, gamma, beta), x + y]


def called_layer_norm(*given: torch.Tensor) -> list[torch.Tensor]:
    """Return the layer norm of a sum, and the sum, from the operator."""
    normed, _, _, total = torch_npu.npu_add_layer_norm(*given, 1e-5, True)
    return [normed, total]


def gelu_multiplied(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """Return the gelu of the first half of each row times the second half."""
    first, second = x.chunk(2, -1)
    return F.gelu(first, approximate=approximate) * second


def called_gelu_mul(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """Return the result of the operator."""
    return torch_npu.npu_gelu_mul(x, approximate=approximate)


def in_layout(layout: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that gives a BNSD tensor another layout."""
    return {
        "BNSD": lambda x: x,
        "BSND": lambda x: x.transpose(1, 2).contiguous(),
        "BSH": lambda x: x.transpose(1, 2).flatten(2),
    }[layout]


def causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, mode: int) -> torch.Tensor:
    """Return the attention in which the last query sees all keys, and each before it one less."""
    hidden = torch.ones(query.size(2), key.size(2), dtype=torch.bool).triu(1 + key.size(2) - query.size(2))
    return F.scaled_dot_product_attention(query, key, value, ~hidden, scale=0.5)


def called_attention(name: str, lengths_name: str, layout: str) -> Callable[..., torch.Tensor]:
    """Return a function that calls an operator of inference with BNSD tensors.

    Args:
        name: of the operator.
        lengths_name: of the argument that has the lengths of the keys.
        layout: in which it gets them.
    """
    turned = in_layout(layout)

    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: Any) -> torch.Tensor:
        scale = "scale" if "fused" in name else "scale_value"
        options = {"num_heads": query.size(1), "num_key_value_heads": key.size(1), "input_layout": layout, scale: 0.5}
        if lengths is not None:
            options[lengths_name] = lengths
        result = getattr(torch_npu, name)(turned(query), turned(key), turned(value), **options)
        return result if isinstance(result, torch.Tensor) else result[0]

    return call


def called_causal(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, mode: int
) -> torch.Tensor:
    """Return the attention of the operator with a mask: all of it in mode 1, else the one for up to 2,048 places."""
    return torch_npu.npu_fused_infer_attention_score(
        query, key, value, atten_mask=mask, num_heads=query.size(1), input_layout="BNSD", scale=0.5, sparse_mode=mode
    )[0]


def upper(queries: int, keys: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of a mask of the pairs in which the key is behind the query; the last query sees all."""
    return lambda dtype: torch.ones(1, 1, queries, keys, dtype=torch.bool).triu(1 + keys - queries)


def pooled(x: torch.Tensor, **options: Any) -> torch.Tensor:
    """Return the largest values of a volume."""
    return F.max_pool3d(x, **options)


def unpooled(y: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return an image with values at the places from which a pool took them; int32 ones are for the NPU."""
    places = places if y.device.type == "cpu" else places.int()
    return F.max_unpool2d(y, places, 2)


def spectrum(x: torch.Tensor, window: Any, **options: Any) -> torch.Tensor:
    """Return the spectrum of parts of a signal."""
    return torch.view_as_real(torch.stft(x, 64, 16, window=window, return_complex=True, **options))


def multiplied(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, rows: Any, bias: Any) -> torch.Tensor:
    """Return the product of int8 matrices, with a scale for each column of the weight and for each row of x."""
    y = x.long() @ weight.long()
    if bias is not None and not bias.is_floating_point():
        y = y + bias
    y = y * scale.float()
    y = y if rows is None else y * rows[:, None]
    return (y if bias is None or not bias.is_floating_point() else y + bias).to(torch.bfloat16)


def called_product(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, rows: Any, bias: Any) -> torch.Tensor:
    """Return the result of the operator."""
    return torch_npu.npu_quant_matmul(x, weight, scale, pertoken_scale=rows, bias=bias, output_dtype=torch.bfloat16)


def bytes_of(*sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of a tensor of int8."""
    return lambda dtype: torch.randint(-128, 128, sizes, dtype=torch.int8)


def chosen(x: torch.Tensor, places: Any) -> torch.Tensor:
    """Return a part of a tensor."""
    return x[tuple(places)]


def put(x: torch.Tensor, places: Any) -> torch.Tensor:
    """Return a copy of a tensor in which a part is 3."""
    copy = x.clone()
    copy[tuple(places)] = 3
    return copy


def whole_numbers(x: torch.Tensor, places: Any) -> torch.Tensor:
    """Return a copy of a tensor of whole numbers in which a part is 3."""
    return put(x.detach().long(), places)


def some(*sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of a mask of some three tenths."""
    return lambda dtype: torch.rand(*sizes) > 0.7


def gradient_of_target(reduction: str, logarithms: bool) -> Callable[..., torch.Tensor]:
    """Return a function that computes the gradient of the target of ``kl_div``."""

    def run(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        leaf = target.detach().clone().requires_grad_()
        loss = F.kl_div(x, leaf, reduction=reduction, log_target=logarithms)
        return torch.autograd.grad(loss.sum(), leaf)[0]

    return run


def detached(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function without a gradient."""
    return lambda first, *rest: call(first.detach(), *rest)


NOTHING = torch.empty(0, dtype=torch.int64)
#: Parts of a tensor of the sizes 5 and 4, of which some have no element.
PARTS = {
    "none": [NOTHING],
    "none of the columns": [slice(None), NOTHING],
    "none of two": [NOTHING, torch.tensor([1])],
    "columns": [slice(None), torch.tensor([0, 2])],
    "no matrix of columns": [slice(None), torch.empty(0, 6, dtype=torch.int64)],
    "no mask": [torch.zeros(5, dtype=torch.bool)],
    "no mask of columns": [slice(None), torch.zeros(4, dtype=torch.bool)],
    "false": [False, True],
}

#: As those of more_cases.
CASES: list[tuple[str, Callable[..., Any], list[Callable[[torch.dtype], Any]]]] = [
    *[
        (
            f"batch norm of ranks, {gather}",
            batch_norm_of_ranks(gather),
            [floats(4, 3, *rest), lambda dtype: torch.rand(3) + 0.1, floats(3), floats(4, 3, *rest)],
        )
        for gather in ("stats", "sums")
        for rest in ((), (5,), (2, 5))
    ],
    *[
        case
        for n, channels, groups, rest, number in ((2, 6, 3, (4, 3), 1.0), (1, 8, 2, (), 1.0), (3, 4, 1, (5,), 0.5))
        for case in (
            (
                f"npu group norm silu, {groups} groups",
                detached(on_npu(lambda *given: torch.ops.npu.npu_group_norm_silu(*given)[0], group_norm_silu)),
                [
                    normal(n, channels, *rest),
                    normal(channels),
                    normal(channels),
                    constant(groups),
                    constant(number / 100),
                ],
            ),
            (
                f"npu group norm swish, {groups} groups",
                fused("npu_group_norm_swish", group_norm_swish),
                [
                    normal(n, channels, *rest),
                    constant(groups),
                    normal(channels),
                    normal(channels),
                    constant(1e-5),
                    constant(number),
                ],
            ),
        )
    ],
    *[
        case
        for sizes in ((4, 6), (2, 3, 8))
        for case in (
            ("npu gemma rms norm", detached(fused("npu_gemma_rms_norm", gemma)), [normal(*sizes), normal(sizes[-1])]),
            (
                "npu add rms norm cast",
                detached(on_npu(called_rms_norm_cast, added_rms_norm_cast)),
                [normal(*sizes), normal(*sizes), normal(sizes[-1])],
            ),
            (
                "npu add layer norm",
                fused("npu_add_layer_norm", added_layer_norm),
                [floats(*sizes), floats(*sizes), floats(sizes[-1]), floats(sizes[-1])],
            ),
            (
                "npu add layer norm, with the sum",
                detached(on_npu(called_layer_norm, whole_layer_norm)),
                [normal(*sizes), normal(*sizes), floats(sizes[-1]), floats(sizes[-1])],
            ),
        )
    ],
    *[
        (
            f"npu gelu mul, {approximate}",
            detached(on_npu(called_gelu_mul, gelu_multiplied)),
            [normal(3, 8), constant(approximate)],
        )
        for approximate in ("none", "tanh")
    ],
    *[
        (
            "npu dynamic quant",
            detached(on_npu(lambda x, factors: list(torch_npu.npu_dynamic_quant(x, smooth_scales=factors)), quantised)),
            [normal(*sizes), factors],
        )
        for sizes, factors in (((3, 8), constant(None)), ((2, 3, 16), constant(None)), ((3, 8), normal(8)))
    ],
    *[
        (
            f"npu cross entropy, {reduction}",
            fused("npu_cross_entropy_loss", cross_entropy),
            [normal(5, 4), lambda dtype: torch.tensor([0, 3, -100, 1, 2]), weight, constant(reduction)],
        )
        for reduction in ("mean", "sum", "none")
        for weight in (constant(None), lambda dtype: torch.rand(4) + 0.1)
    ],
    *[
        (
            f"npu scaled masked softmax, {'upper triangle' if is_upper else 'mask'}",
            fused("npu_scaled_masked_softmax", masked_softmax),
            [
                normal(*sizes),
                some(sizes[0], 1, *sizes[2:]),
                constant(scale),
                constant(is_upper),
            ],
        )
        for sizes, scale in (((2, 3, 32, 32), 0.5), ((1, 2, 64, 64), 2))
        for is_upper in (False, True)
    ],
    *[
        (
            f"npu apply rotary, {heads} heads of keys",
            detached(on_npu(called_rotation, rotated)),
            [normal(2, 3, 4, 128), normal(2, 3, heads, 128), normal(2, 3, 1, 128), normal(2, 3, 1, 128)],
        )
        for heads in (1, 4)
    ],
    *[
        (
            f"npu gating, {k} of {experts} experts",
            detached(on_npu(lambda x, k: list(torch_npu.npu_moe_gating_top_k_softmax(x, None, k)), gated)),
            [normal(5, experts), constant(k)],
        )
        for experts, k in ((8, 2), (16, 1))
    ],
    *[(f"index, {name}", chosen, [normal(5, 4), constant(places)]) for name, places in PARTS.items()],
    *[(f"index put, {name}", put, [normal(5, 4), constant(places)]) for name, places in PARTS.items()],
    *[
        (f"index put of whole numbers, {name}", whole_numbers, [normal(5, 4), constant(PARTS[name])])
        for name in ("none", "none of the columns", "columns", "no mask")
    ],
    *[
        (
            f"npu quant matmul, {name}",
            detached(on_npu(called_product, multiplied)),
            [bytes_of(*sizes), bytes_of(sizes[-1], 6), lambda dtype: torch.rand(6) / 99, rows, bias],
        )
        for name, sizes, rows, bias in (
            ("scale", (3, 16), constant(None), constant(None)),
            ("rows", (3, 16), lambda dtype: torch.rand(3), constant(None)),
            ("whole bias", (2, 7), lambda dtype: torch.rand(2), lambda dtype: torch.arange(6, dtype=torch.int32)),
            ("bias", (2, 7), lambda dtype: torch.rand(2), lambda dtype: torch.rand(6)),
        )
    ],
    ("kl div of probabilities", lambda x, y: F.kl_div(x, y, reduction="batchmean"), [floats(3, 4), positive(3, 4)]),
    (
        "kl div of logarithms",
        lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True),
        [normal(3, 4), normal(3, 4)],
    ),
    *(
        (
            f"kl div, gradient of the target, {reduction}, logarithms {logarithms}",
            detached(gradient_of_target(reduction, logarithms)),
            [normal(3, 4), positive(3, 4)],
        )
        for reduction in ("none", "mean", "batchmean", "sum")
        for logarithms in (False, True)
    ),
    ("kl div, none", lambda x, y: F.kl_div(x, y, reduction="none"), [normal(3, 4), positive(3, 4)]),
    *[
        (
            f"repeat interleave of tensors, dimension {dim}",
            lambda x, times, dim: torch.repeat_interleave(x, times, dim),
            [normal(2, 3, 4), constant(torch.tensor(times)), constant(dim)],
        )
        for dim, times in ((1, [1, 0, 2]), (0, [3, 1]), (-1, [2]))
    ],
    # torch_npu has no derivative for this one: its gradient passes through the diagonal.
    ("fill diagonal", detached(inplace(lambda x: x.fill_diagonal_(2.5))), [normal(4, 4)]),
    ("fill diagonal, wrapped", detached(inplace(lambda x: x.fill_diagonal_(2.5, wrap=True))), [normal(7, 3)]),
    *[
        (f"prelu of {channels} channels", F.prelu, [normal(*sizes), normal(channels)])
        for channels, sizes in ((3, (2, 3, 4)), (1, (2, 3, 4)), (4, (3, 4)), (1, (5,)), (2, (1, 2, 3, 2)))
    ],
    *[
        (
            f"max pool of a volume, {options}",
            lambda x, options=options: pooled(x, **options),
            [normal(*sizes)],
        )
        for sizes, options in (
            ((2, 3, 6, 6, 6), {"kernel_size": 2}),
            ((1, 2, 5, 6, 7), {"kernel_size": 3, "stride": 2, "padding": 1}),
            ((3, 6, 5, 6), {"kernel_size": (2, 1, 3), "stride": (1, 2, 1)}),
            ((1, 2, 6, 6, 6), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
        )
    ],
    (
        "max unpool with int32",
        unpooled,
        [positive(2, 3, 2, 3), lambda dtype: torch.tensor([[1, 2, 5], [12, 21, 17]]).repeat(2, 3, 1, 1)],
    ),
    *[
        (
            f"stft, {options}",
            lambda x, window, options=options: spectrum(x, window, **options),
            [floats(*sizes), window],
        )
        for sizes, window, options in (
            ((2, 400), lambda dtype: torch.hann_window(64), {}),
            ((200,), constant(None), {"center": False, "normalized": True}),
            ((1, 300), lambda dtype: torch.hann_window(64), {"onesided": False}),
        )
    ],
    *[
        (f"normal, {kind}", drawn(draw, 1.0, 2.0), [normal(1)])
        for kind, draw in (
            (
                "two tensors",
                lambda device: torch.normal(torch.ones(20000).to(device), torch.full((20000,), 2.0).to(device)),
            ),
            ("a mean", lambda device: torch.normal(torch.ones(200, 100).to(device), 2.0)),
            ("a deviation", lambda device: torch.normal(1.0, torch.full((20000,), 2.0).to(device))),
        )
    ],
    *[
        (
            f"{name}, {layout}, {keys} heads of keys, lengths {lengths}",
            detached(
                on_npu(
                    called_attention(name, argument, layout),
                    lambda *given, layout=layout: in_layout(layout)(attention(*given)),
                )
            ),
            [normal(2, 4, queries, 16), normal(2, keys, 5, 16), normal(2, keys, 5, 16), constant(lengths)],
        )
        for name, argument, queries in (
            ("npu_prompt_flash_attention", "actual_seq_lengths_kv", 5),
            ("npu_incre_flash_attention", "actual_seq_lengths", 1),
            ("npu_fused_infer_attention_score", "actual_seq_lengths_kv", 5),
        )
        for layout, keys, lengths in (
            ("BNSD", 4, None),
            ("BNSD", 2, None),
            ("BNSD", 4, [3, 5]),
            ("BSND", 2, [5, 1]),
            ("BSH", 4, None),
        )
    ],
    *[
        (
            f"fused inference, sparse mode {mode}",
            detached(on_npu(called_causal, causal)),
            [normal(2, 4, queries, 16), normal(2, 4, 5, 16), normal(2, 4, 5, 16), mask, constant(mode)],
        )
        for mode, queries, mask in (
            (1, 5, upper(5, 5)),
            (1, 3, upper(3, 5)),
            (2, 5, upper(2048, 2048)),
            (3, 3, upper(2048, 2048)),
        )
    ],
]
