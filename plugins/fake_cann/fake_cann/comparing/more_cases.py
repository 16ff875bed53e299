"""Cases that PyTorch's database of operators does not have: name, function, and the factory of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import torch
import torch_npu
from torch.nn import functional as F

__all__ = ["CASES"]


def normal(*sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of a tensor of normal numbers."""
    return lambda dtype: torch.randn(*sizes).to(dtype)


def positive(*sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of a tensor of numbers between 0.1 and 0.9."""
    return lambda dtype: (torch.rand(*sizes) * 0.8 + 0.1).to(dtype)


def numbers(high: int, *sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of a tensor of whole numbers."""
    return lambda dtype: torch.randint(0, high, sizes)


def adam(parameter: torch.Tensor, gradient: torch.Tensor, **options: Any) -> torch.Tensor:
    """Return a parameter after three steps of Adam."""
    parameter = torch.nn.Parameter(parameter.clone())
    optimizer = torch.optim.AdamW([parameter], 1e-2, **options)
    for _ in range(3):
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


def inplace(change: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that changes a copy of its first argument, and returns that."""

    def changed(first: torch.Tensor, *rest: Any) -> torch.Tensor:
        copy = first.clone()
        change(copy, *rest)
        return copy

    return changed


def sum_of_two_types(added: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return a product plus a tensor of float32, which addmm of an NPU has for smaller types, too."""
    if left.device.type == "cpu":
        return (0.5 * added.float() + 1.25 * (left.float() @ right.float())).to(left.dtype)
    return torch.addmm(added.float(), left, right, beta=0.5, alpha=1.25).to(left.dtype)


def coalesced(indices: torch.Tensor, values: torch.Tensor) -> list[torch.Tensor]:
    """Return the indices and values of a sparse tensor whose entries of the same place were added."""
    made = torch.sparse_coo_tensor(indices, values, (3, 3, *values.shape[1:])).coalesce()
    return [made.indices(), made.values()]


def of_sparse_embedding(weight: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return the weight of an embedding after a step of SGD with a sparse gradient."""
    parameter = torch.nn.Parameter(weight.detach().clone())
    F.embedding(indices, parameter, sparse=True).square().sum().backward()
    torch.optim.SGD([parameter], 0.1).step()
    return parameter.detach()


def unscaled(first: torch.Tensor, second: torch.Tensor) -> list[torch.Tensor]:
    """Return the gradients after the check of a gradient scaler, and its finding."""
    found = torch.zeros(1, device=first.device)
    gradients = [first.clone(), second.clone()]
    torch.ops.aten._amp_foreach_non_finite_check_and_unscale_(
        gradients, found, torch.full((1,), 0.5, device=first.device)
    )
    return [*gradients, found]


def updated_scale(found: torch.Tensor) -> list[torch.Tensor]:
    """Return a gradient scaler's scale and its count of good steps after two steps."""
    scale, tracker = torch.full((1,), 8.0).to(found.device), torch.zeros(1, dtype=torch.int32).to(found.device)
    for _ in range(2):
        torch.ops.aten._amp_update_scale_(scale, tracker, found.float(), 2.0, 0.5, 2)
    return [scale, tracker]


def drawn(draw: Callable[[torch.device], torch.Tensor], mean: float, deviation: float) -> Callable[..., torch.Tensor]:
    """Return a function that tells whether numbers have the moments that they should, and come again with the seed."""

    def check(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        first, second = draw(x.device).float(), draw(x.device).float()
        torch.manual_seed(3)
        again = draw(x.device).float()
        right = abs(float(first.mean()) - mean) < 0.05 and abs(float(first.std()) - deviation) < 0.05
        return torch.tensor([right, torch.equal(first.cpu(), again.cpu()), torch.equal(first.cpu(), second.cpu())])

    return check


def dropped(x: torch.Tensor) -> torch.Tensor:
    """Return whether dropout drops a third, scales the rest, and sends gradients back through the kept elements."""
    ones = torch.ones(9000, device=x.device, requires_grad=True)
    out = F.dropout(ones, 1 / 3)
    out.sum().backward()
    share = float((out == 0).float().mean())
    values = sorted({round(value, 3) for value in out.detach().cpu().tolist()})
    return torch.tensor([abs(share - 1 / 3) < 0.03, values == [0.0, 1.5], torch.equal(out.cpu(), ones.grad.cpu())])


def permuted(x: torch.Tensor) -> torch.Tensor:
    """Return whether a permutation has each number once, in another order."""
    order = torch.randperm(50, device=x.device).cpu()
    return torch.tensor([torch.equal(order.sort().values, torch.arange(50)), torch.equal(order, torch.arange(50))])


def fused(name: str, formula: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a function that calls a fused operator of torch_npu on the NPU, and its definition on the CPU."""

    def either(first: torch.Tensor, *rest: Any) -> torch.Tensor:
        if first.device.type == "cpu":
            return formula(first, *rest)
        result = getattr(torch.ops.npu, name)(first, *rest)
        return result if isinstance(result, torch.Tensor) else result[0]

    return either


def old(name: str, definition: Callable[..., torch.Tensor], gradient: bool = False) -> Callable[..., torch.Tensor]:
    """Return a function that calls an operator of ``torch_npu`` by its name there, and its definition on the CPU.

    Args:
        name: of the operator.
        definition: of what it computes.
        gradient: whether it has a gradient.
    """

    def either(first: torch.Tensor, *rest: Any) -> torch.Tensor:
        if first.device.type == "cpu":
            return definition(first if gradient else first.detach(), *rest)
        result = getattr(torch_npu, name)(first, *rest)
        return result if isinstance(result, torch.Tensor) else result[0]

    return either


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs as torch_npu does with ``jit_compile``: through the older interface, where it can."""

    def run(first: torch.Tensor, *rest: Any) -> Any:
        if first.device.type == "cpu":
            return function(first.detach(), *rest)
        torch.npu.set_compile_mode(jit_compile=True)
        try:
            return function(first.detach(), *rest)
        finally:
            torch.npu.set_compile_mode(jit_compile=False)

    return run


def formatted(x: torch.Tensor) -> list[torch.Tensor]:
    """Return what comes of a tensor in a format of the NPU's own, and of a sum with it."""
    if x.device.type == "npu":
        fractal = 29
        x = torch_npu.npu_format_cast(x, fractal)
    return [x * 1, x + x]


def padded(x: torch.Tensor, paddings: list[int]) -> torch.Tensor:
    """Return x with zeros around it; paddings begin with the first dimension."""
    above, below, left, right = paddings
    return F.pad(x, (left, right, above, below))


def sliced(x: torch.Tensor, offsets: list[int], sizes: list[int]) -> torch.Tensor:
    """Return a part of a table."""
    return x[offsets[0] : offsets[0] + sizes[0], offsets[1] : offsets[1] + sizes[1]]


def confused(x: torch.Tensor, order: tuple[int, ...], sizes: tuple[int, ...], first: bool) -> torch.Tensor:
    """Return x permuted and reshaped, or the other way round."""
    return x.permute(order).reshape(sizes) if first else x.reshape(sizes).permute(order)


def bags(weight: torch.Tensor, indices: torch.Tensor) -> list[torch.Tensor]:
    """Return sums and means over bags of rows."""
    offsets = torch.tensor([0, 2, 5], device=weight.device)
    return [F.embedding_bag(indices, weight, offsets, mode=mode) for mode in ("sum", "mean")]


def turned(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Return the rotary embedding of x: halves are turned against each other."""
    a, b = x.chunk(2, -1)
    return x * cosine + torch.cat([-b, a], -1) * sine


def swiglu(x: torch.Tensor) -> torch.Tensor:
    """Return the product of one half with the silu of the other."""
    gate, value = x.float().chunk(2, -1)
    return F.silu(gate) * value


def many(*how: Any) -> Callable[[torch.device], torch.Tensor]:
    """Return a function that fills 20000 numbers on a device by a method."""
    name, *rest = how
    return lambda device: getattr(torch.zeros(20000, device=device), name)(*rest)


ONE = [lambda dtype: torch.zeros(1)]
UNARY: tuple[str, ...] = (
    "abs",
    "acos",
    "asin",
    "atan",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
)
UNARY += ("neg", "reciprocal", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "pow")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
IN_PLACE = (*BINARY[:4], "floor_divide", "fmod", "remainder", "eq", "ne", "lt", "le", "gt", "ge", "xlogy")
TWO = [positive(3, 4), positive(5)]
INDEXED = [normal(6, 3), numbers(6, 4), normal(4, 3)]


def floats(*sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of a tensor of normal numbers, float for every type."""
    return lambda dtype: torch.randn(*sizes)


def foreach(name: str, *rest: Any) -> Callable[..., Any]:
    """Return a function that calls an operator on lists of two tensors; ``rest`` follows the lists."""
    function = getattr(torch, f"_foreach_{name}")
    return lambda *given: function(*(list(given[i : i + 2]) for i in range(0, len(given), 2)), *rest)


CAUSAL = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """Return a tensor of the dimensions batch, heads, sequence, size in a layout."""
    if layout == "BNSD":
        return x
    by_position = x.transpose(1, 2)
    if layout == "BSND":
        return by_position
    together = by_position.flatten(2)
    return together.transpose(0, 1) if layout == "SBH" else together


def band(queries: int, keys: int, mode: int, before: int, after: int) -> torch.Tensor:
    """Return the pairs outside of a band, which is counted from the last positions in modes 3 and 4."""
    shift = keys - queries if mode in (3, 4) else 0
    ahead = torch.arange(keys) - torch.arange(queries)[:, None] - shift
    return (ahead > after) | (ahead < -before)


def attended(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, masked: Optional[torch.Tensor], added: Optional[torch.Tensor]
) -> torch.Tensor:
    """Return attention by its definition, with a scale of a half, computed in float."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q.float() @ k.float().transpose(-2, -1)
    scores = (scores if added is None else scores + added.float()) * 0.5
    if masked is not None:
        scores = scores.masked_fill(masked, float("-inf"))
    return (scores.softmax(-1) @ v.float()).to(q.dtype)


def attention(
    layout: str,
    mode: int = 0,
    mask: Optional[torch.Tensor] = None,
    version: str = "",
    before: int = 2**31 - 1,
    after: int = 2**31 - 1,
) -> Callable[..., torch.Tensor]:
    """Return fused attention of torch_npu on the NPU, its definition on the CPU."""

    def either(qkv: list[torch.Tensor], added: Optional[torch.Tensor] = None) -> torch.Tensor:
        q, k, v = qkv
        limits = {1: (2**31 - 1, 2**31 - 1), 2: (2**31 - 1, 0), 3: (2**31 - 1, 0)}.get(mode, (before, after))
        if q.device.type == "cpu":
            masked = None
            if mask is not None:
                masked = band(q.shape[2], k.shape[2], mode, *limits)
                masked = masked | mask if mode < 2 else masked
            return laid_out(attended(q, k, v, masked, added), layout)
        tokens = ("pre_tokens", "next_tokens") if version else ("pre_tockens", "next_tockens")
        options = {"pse": added, "scale": 0.5, "sparse_mode": mode, **dict(zip(tokens, (before, after)))}
        if mask is not None:
            options["atten_mask"] = mask.npu()
        call = getattr(torch.ops.npu, f"npu_fusion_attention{version}")
        return call(*(laid_out(x, layout) for x in qkv), q.shape[1], layout, **options)[0]

    return either


def of_sequences(mode: int, version: str = "") -> Callable[..., torch.Tensor]:
    """Return fused attention over two sequences, one after the other, and over each of them on the CPU."""
    query_ends, key_ends = [3, 5], [4, 7]

    def either(qkv: list[torch.Tensor]) -> torch.Tensor:
        q, k, v = qkv
        if q.device.type == "cpu":
            parts = []
            for first, last, key_first, key_last in zip([0, 3], query_ends, [0, 4], key_ends):
                queries, keys, values = (
                    x[a:b].transpose(0, 1)[None]
                    for x, a, b in ((q, first, last), (k, key_first, key_last), (v, key_first, key_last))
                )
                masked = band(last - first, key_last - key_first, mode, 99, 0) if mode else None
                parts.append(attended(queries, keys, values, masked, None)[0].transpose(0, 1))
            return torch.cat(parts)
        options: dict[str, Any] = {"actual_seq_qlen": query_ends, "actual_seq_kvlen": key_ends, "scale": 0.5}
        if mode:
            options.update(sparse_mode=mode, atten_mask=CAUSAL.npu())
        return getattr(torch.ops.npu, f"npu_fusion_attention{version}")(q, k, v, q.shape[1], "TND", **options)[0]

    return either


def attention_with_dropout(x: torch.Tensor) -> torch.Tensor:
    """Return whether attention drops a half, scales the rest, and sends gradients back through the kept elements."""
    q, k = (torch.zeros(1, 2, 64, 16, device=x.device, dtype=torch.float16) for _ in range(2))
    v = torch.ones(1, 2, 64, 16, device=x.device, dtype=torch.float16, requires_grad=True)
    if x.device.type == "cpu":
        return torch.tensor([True, True, True])
    out = torch.ops.npu.npu_fusion_attention(q, k, v, 2, "BNSD", keep_prob=0.5)[0]
    out.float().sum().backward()
    mean, spread = float(out.float().mean()), float(out.float().std())
    return torch.tensor(
        [abs(mean - 1) < 0.05, spread > 0.05, abs(float(v.grad.float().sum() / out.float().sum()) - 1) < 0.01]
    )


def small(*sizes: tuple[int, ...]) -> Callable[[torch.dtype], list[torch.Tensor]]:
    """Return the factory of a list of tensors of small numbers: gradients in half precision begin at a rounded one."""
    return lambda dtype: [(torch.randn(*size) * 0.3).to(dtype) for size in sizes]


def histogram(x: torch.Tensor) -> torch.Tensor:
    """Return how often each whole number is there; on the CPU by floats, as it has no histogram of whole numbers."""
    return torch.histc(x.float() if x.device.type == "cpu" else x.int(), 5, 0, 4)


QKV = [small((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8))]
TOKENS = [small((5, 4, 8), (7, 2, 8), (7, 2, 8))]
SQUARE = [small((2, 4, 6, 8), (2, 4, 6, 8), (2, 4, 6, 8))]
MASK = torch.tensor([[(i * 7 + j * 3) % 5 == 1 and j > 0 for j in range(7)] for i in range(5)])


def sdpa(**options: Any) -> Callable[..., torch.Tensor]:
    """Return torch's own attention with some options."""
    return lambda qkv: F.scaled_dot_product_attention(*qkv, **options)


def masked_sdpa(qkv: list[torch.Tensor], mask: torch.Tensor) -> torch.Tensor:
    """Return torch's own attention with a mask."""
    return F.scaled_dot_product_attention(*qkv, attn_mask=mask, enable_gqa=True)


def added_rms_norm(first: torch.Tensor, second: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the rms norm of a sum."""
    return F.rms_norm(first + second, (6,), weight, 1e-6).detach()  # torch_npu has no gradient


def fused_gelu(mode: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return gelu with a mode, by torch_npu's own operator on the NPU."""

    def either(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x, approximate=mode) if x.device.type == "cpu" else torch.ops.npu.npu_gelu(x, approximate=mode)

    return either


def fused_geglu(left: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return geglu with one of its halves activated."""

    def either(x: torch.Tensor) -> torch.Tensor:
        if x.device.type != "cpu":
            return torch.ops.npu.npu_geglu(x, -1, 1, left)[0]
        a, b = x.chunk(2, -1)
        return F.gelu(a if left else b, approximate="tanh") * (b if left else a)

    return either


def permuted_tokens(x: torch.Tensor, experts: torch.Tensor, weights: torch.Tensor) -> list[torch.Tensor]:
    """Return tokens sorted by expert, and the weighted sum of a function of their copies back in their places."""
    if x.device.type != "cpu":
        tokens, place = torch.ops.npu.npu_moe_token_permute(x, experts.int())
        return [tokens, torch.ops.npu.npu_moe_token_unpermute(tokens * 2, place, weights)]
    order = experts.flatten().argsort(stable=True)
    copies = x.repeat_interleave(experts.shape[1], 0)
    return [
        copies[order],
        (copies * 2).float().view(*experts.shape, -1).mul(weights[..., None].float()).sum(1).to(x.dtype),
    ]


def grouped_products(first: list[torch.Tensor], second: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the product of each pair of matrices."""
    if first[0].device.type == "cpu":
        return [(a.float() @ b.float()).detach() for a, b in zip(first, second)]  # torch_npu has no gradient
    return list(torch.ops.npu.npu_grouped_matmul(first, second, group_type=-1))


def grouped_rows(given: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return products of groups of rows, each with a matrix of its own."""
    x, weights = given
    if x.device.type == "cpu":
        return [torch.cat([a.float() @ w.float() for a, w in zip(x.split([2, 4, 3]), weights)]).detach()]
    ends = torch.tensor([2, 6, 9]).npu()
    options = {"group_list": ends, "split_item": 3, "group_type": 0, "group_list_type": 0}
    lengths = {**options, "group_list": torch.tensor([2, 4, 3]).npu(), "group_list_type": 1}
    first, second = (torch.ops.npu.npu_grouped_matmul([x], [weights], **how)[0] for how in (options, lengths))
    assert torch.equal(first, second)
    return [first]


def grouped_inner(given: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the product of each group of columns with its group of rows: the gradient of the matrices of groups."""
    x, y = given
    if x.device.type == "cpu":
        pairs = zip(x.split([2, 4, 3], 1), y.split([2, 4, 3]))
        return [torch.stack([a.float() @ b.float() for a, b in pairs]).detach()]
    options = {"split_item": 3, "group_type": 2, "group_list_type": 0}
    turned = x.t().contiguous().t()  # as gradients call it
    ends = torch.tensor([2, 6, 9]).npu()
    first, second = (torch.ops.npu.npu_grouped_matmul([a], [y], group_list=ends, **options)[0] for a in (x, turned))
    assert torch.equal(first, second)
    return [first]


CASES: list[tuple[str, Callable[..., Any], list[Any]]] = [
    ("foreach adam", lambda p, g: adam(p, g, foreach=True), [normal(7, 5), normal(7, 5)]),
    ("fused adam", lambda p, g: adam(p, g, fused=True), [normal(7, 5), normal(7, 5)]),
    ("fused adam amsgrad", lambda p, g: adam(p, g, fused=True, amsgrad=True), [normal(7, 5), normal(7, 5)]),
    ("embedding", lambda w, i: F.embedding(i, w), [normal(11, 4), numbers(11, 3, 5)]),
    ("cross entropy", F.cross_entropy, [normal(6, 9), numbers(9, 6)]),
    ("cross entropy 2d", F.cross_entropy, [normal(2, 9, 4, 4), numbers(9, 2, 4, 4)]),
    ("masked index", lambda x: x[x > 0], [normal(4, 5)]),
    ("addmm of two types", sum_of_two_types, [normal(4, 6), normal(4, 5), normal(5, 6)]),
    ("coalesced sparse tensor", coalesced, [numbers(3, 2, 9), normal(9)]),
    ("coalesced sparse tensor of rows", coalesced, [numbers(3, 2, 9), normal(9, 4)]),
    ("gradient of a sparse embedding", of_sparse_embedding, [normal(11, 4), numbers(11, 3, 5)]),
    (
        "index put",
        lambda x, i, v: x.clone().index_put((i,), v, accumulate=True),
        [normal(6, 3), numbers(6, 4), normal(4, 3)],
    ),
    ("batch norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [normal(4, 3, 5, 5), normal(3), normal(3)]),
    ("layer norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), [normal(4, 6), normal(6), normal(6)]),
    ("group norm", lambda x, w, b: F.group_norm(x, 2, w, b), [normal(4, 6, 5), normal(6), normal(6)]),
    ("unscale", unscaled, [normal(3, 4), normal(5)]),
    ("update of the scale", updated_scale, [lambda dtype: torch.zeros(1)]),
    ("update of the scale after inf", updated_scale, [lambda dtype: torch.ones(1)]),
    ("max pool 2d", lambda x: F.max_pool2d(x, 3, 2, 1), [normal(2, 3, 8, 8)]),
    ("relu in place", inplace(lambda x: torch.relu_(x)), [normal(3, 4)]),
    ("leaky relu in place", inplace(lambda x: F.leaky_relu_(x, 0.2)), [normal(3, 4)]),
    ("hardtanh in place", inplace(lambda x: F.hardtanh_(x)), [normal(3, 4)]),
    ("hardswish in place", inplace(lambda x: F.hardswish(x, inplace=True)), [normal(3, 4)]),
    ("celu in place", inplace(lambda x: F.celu(x, 1.2, inplace=True)), [normal(3, 4)]),
    ("elu in place", inplace(lambda x: F.elu(x, 1.2, inplace=True)), [normal(3, 4)]),
    ("split", lambda x: [part * 2 for part in torch.split_with_sizes_copy(x, [1, 3])], [normal(4, 5)]),
    ("rms norm", lambda x, w: F.rms_norm(x, (6,), w), [normal(4, 6), normal(6)]),
    *((f"foreach {name}", foreach(name), TWO) for name in UNARY),
    *((f"foreach {name}", foreach(name), [*TWO, *TWO]) for name in BINARY),
    *((f"foreach {name} with a number", foreach(name, 1.5), TWO) for name in BINARY),
    *((f"foreach {name} with numbers", foreach(name, [1.5, 2.5]), TWO) for name in BINARY),
    ("foreach addcmul", foreach("addcmul", 0.5), [*TWO, *TWO, *TWO]),
    ("foreach addcdiv", foreach("addcdiv", 0.5), [*TWO, *TWO, *TWO]),
    ("foreach lerp", foreach("lerp", 0.3), [*TWO, *TWO]),
    ("foreach lerp with tensors", foreach("lerp"), [*TWO, *TWO, *TWO]),
    ("foreach norm", foreach("norm"), TWO),
    ("foreach zero", inplace(lambda x, y: torch.ops.aten._foreach_zero_([x, y])), TWO),
    ("foreach copy", inplace(lambda x, y: torch.ops.aten._foreach_copy_([x], [y])), [normal(3, 4), normal(3, 4)]),
    *(
        (f"{name} with a number in place", inplace(lambda x, name=name: getattr(x, f"{name}_")(1.5)), [normal(3, 4)])
        for name in [
            "add",
            "sub",
            "mul",
            "div",
            "floor_divide",
            "fmod",
            "remainder",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "xlogy",
            "fill",
            "clamp_max",
        ]
    ),
    *(
        (f"{name} with a number", lambda x, name=name: getattr(x, name)(3), [numbers(9, 3, 4)])
        for name in [
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "floor_divide",
            "fmod",
            "clamp_max",
            "bitwise_left_shift",
        ]
    ),
    *(
        (f"{name} with a number in place", inplace(lambda x, name=name: getattr(x, f"{name}_")(3)), [numbers(9, 3, 4)])
        for name in ["bitwise_and", "bitwise_xor"]
    ),
    ("xlogy of a number", lambda x: torch.xlogy(2.0, x), [positive(3, 4)]),
    ("xlogy with a number", lambda x: torch.xlogy(x, 2.0), [positive(3, 4)]),
    ("remainder of a number", lambda x: torch.remainder(7, x), [positive(3, 4)]),
    (
        "rounded quotients",
        lambda x: [torch.div(x, 0.3, rounding_mode=how) for how in ("floor", "trunc")],
        [normal(3, 4)],
    ),
    ("rounded quotients in place", inplace(lambda x: x.div_(0.3, rounding_mode="floor")), [normal(3, 4)]),
    ("isin", lambda x: [torch.isin(x, 3), torch.isin(3, x)], [numbers(5, 3, 4)]),
    ("searchsorted", lambda x: torch.searchsorted(x.sort().values, 0.2), [floats(7)]),
    (
        "bucketize",
        lambda x, y: torch.bucketize(x, y.sort().values),
        [floats(7), floats(5)],
    ),
    ("repeat", lambda x, n: torch.repeat_interleave(x, n), [normal(4), numbers(3, 4)]),
    ("index fill", lambda x: x.index_fill(0, torch.tensor([0, 2], device=x.device), 1.5), [normal(4, 3)]),
    ("scatter a number in place", inplace(lambda x, i: x.scatter_(0, i, 1.5)), [normal(4, 3), numbers(4, 2, 3)]),
    ("depthwise convolution", lambda x, w: F.conv2d(x, w, groups=4), [normal(2, 4, 6, 6), normal(4, 1, 3, 3)]),
    ("upsample nearest", lambda x: F.interpolate(x, scale_factor=2.0), [normal(2, 3, 4, 4)]),
    ("upsample bilinear", lambda x: F.interpolate(x, size=(7, 9), mode="bilinear"), [normal(2, 3, 4, 4)]),
    ("normal numbers", drawn(many("normal_", 1.0, 2.0), 1.0, 2.0), ONE),
    ("uniform numbers", drawn(many("uniform_", 0.0, 1.0), 0.5, 12**-0.5), ONE),
    ("whole numbers", drawn(many("random_", 0, 2), 0.5, 0.5), ONE),
    ("coins", drawn(many("bernoulli_", 0.3), 0.3, 0.21**0.5), ONE),
    ("coins by a tensor", drawn(lambda d: torch.bernoulli(torch.full((20000,), 0.3, device=d)), 0.3, 0.21**0.5), ONE),
    ("choices", drawn(lambda d: torch.multinomial(torch.ones(2, device=d), 20000, True), 0.5, 0.5), ONE),
    ("dropout", dropped, ONE),
    ("permutation", permuted, ONE),
    ("npu rms norm", fused("npu_rms_norm", lambda x, w: F.rms_norm(x, (6,), w, 1e-6)), [normal(4, 6), normal(6)]),
    ("npu swiglu", fused("npu_swiglu", swiglu), [normal(4, 6)]),
    (
        "npu rotary",
        fused("npu_rotary_mul", turned),
        [normal(2, 3, 4, 8), normal(1, 1, 4, 8), normal(1, 1, 4, 8)],
    ),
    ("range", lambda x: x + torch.range(0, 3, device=x.device), [normal(4)]),
    *((f"attention {layout}", attention(layout), QKV) for layout in ("BSH", "SBH", "BSND", "BNSD")),
    *((f"attention with a mask, mode {mode}", attention("BSH", mode, MASK), QKV) for mode in (0, 1)),
    ("attention within limits", attention("BNSD", 0, MASK, before=2, after=3), QKV),
    *((f"attention, mode {mode}", attention("BNSD", mode, CAUSAL, before=2, after=1), QKV) for mode in (3, 4)),
    ("attention, mode 2", attention("SBH", 2, CAUSAL), SQUARE),
    ("attention with positions", attention("BNSD"), [*QKV, normal(2, 4, 5, 7)]),
    ("attention v2", attention("BSND", 3, CAUSAL, "_v2"), QKV),
    *((f"attention of sequences, mode {mode}", of_sequences(mode), TOKENS) for mode in (0, 2, 3)),
    ("attention of sequences v2", of_sequences(3, "_v2"), TOKENS),
    ("attention with dropout", attention_with_dropout, ONE),
    ("sdpa", sdpa(enable_gqa=True), QKV),
    ("sdpa, causal", sdpa(is_causal=True, scale=0.3), SQUARE),
    ("sdpa with a mask", masked_sdpa, [*QKV, lambda dtype: ~MASK]),
    ("sdpa with a mask that is added", masked_sdpa, [*QKV, normal(5, 7)]),
    ("npu add rms norm", fused("npu_add_rms_norm", added_rms_norm), [normal(4, 6), normal(4, 6), normal(6)]),
    *((f"npu gelu {mode}", fused_gelu(mode), [normal(4, 6)]) for mode in ("none", "tanh")),
    *((f"npu geglu {left}", fused_geglu(left), [normal(4, 6)]) for left in (False, True)),
    ("moe permute", permuted_tokens, [normal(6, 8), numbers(4, 6, 2), positive(6, 2)]),
    ("moe permute with one expert", permuted_tokens, [normal(6, 8), numbers(4, 6, 1), positive(6, 1)]),
    ("grouped products", grouped_products, [small((4, 8), (3, 8)), small((8, 5), (8, 2))]),
    ("grouped products of columns", grouped_inner, [small((5, 9), (9, 8))]),
    ("grouped products of rows", grouped_rows, [small((9, 8), (3, 8, 5))]),
    ("reflection pad 2d", lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), [normal(2, 3, 5, 5)]),
    ("a number minus", lambda x: 1 - x, [normal(3, 4)]),
    ("a tensor minus", lambda x, y: torch.rsub(x, y, alpha=2), [normal(3, 4), normal(3, 4)]),
    *(
        (f"upsample {how}", lambda x, how=how: F.interpolate(x, scale_factor=2.0, mode=how), [normal(2, 3, 4, 4)])
        for how in ("nearest-exact", "bicubic")
    ),
    *(
        (f"upsample 3d {how}", lambda x, how=how: F.interpolate(x, scale_factor=2.0, mode=how), [normal(2, 3, 4, 4, 2)])
        for how in ("nearest", "nearest-exact")
    ),
    (
        "downsample bicubic",
        lambda x: F.interpolate(x, size=(4, 3), mode="bicubic", antialias=True),
        [floats(2, 3, 9, 9)],
    ),
    *(
        (f"pad 3d {how}", lambda x, how=how: F.pad(x, (1, 2, 2, 1, 1, 1), mode=how), [normal(2, 3, 4, 4, 4)])
        for how in ("reflect", "replicate")
    ),
    ("format", formatted, [normal(2, 16, 5, 5)]),
    ("npu dtype cast", old("npu_dtype_cast", lambda x, dtype: x.to(dtype)), [normal(3, 4), lambda dtype: torch.half]),
    ("npu transpose", old("npu_transpose", torch.permute), [normal(2, 3, 4), lambda dtype: (1, 0, 2)]),
    ("npu silu", old("npu_silu", F.silu, True), [normal(3, 4)]),
    ("npu mish", old("npu_mish", F.mish, True), [normal(3, 4)]),
    ("npu fast gelu", old("fast_gelu", lambda x: x * torch.sigmoid(1.702 * x), True), [normal(3, 4)]),
    ("npu bmm", old("npu_bmmV2", lambda x, y, sizes: x @ y), [normal(2, 3, 4), normal(2, 4, 5), lambda dtype: []]),
    ("npu max", old("npu_max", lambda x, dim: torch.max(x, dim)[0]), [normal(2, 3, 4), lambda dtype: 1]),
    ("npu min", old("npu_min", lambda x, dim: torch.min(x, dim)[0]), [normal(2, 3, 4), lambda dtype: 1]),
    ("npu pad", old("npu_pad", padded), [floats(3, 4), lambda dtype: [1, 0, 2, 1]]),
    ("npu broadcast", old("npu_broadcast", lambda x, sizes: x.expand(sizes)), [normal(3, 1), lambda dtype: (3, 4)]),
    ("npu slice", old("npu_slice", sliced), [normal(4, 5), lambda dtype: [1, 2], lambda dtype: [2, 3]]),
    *(
        (
            f"npu confusion transpose {first}",
            old("npu_confusion_transpose", confused),
            [normal(2, 6, 4), *(lambda dtype, value=value: value for value in ((1, 0, 2), sizes, first))],
        )
        for first, sizes in ((True, (12, 4)), (False, (6, 2, 4)))
    ),
    *(
        (f"jit {name}", compiled(function), given)
        for name, function, given in (
            ("add", torch.add, [normal(3, 4), normal(4)]),
            ("add scaled", lambda x, y: torch.add(x, y, alpha=2.0), [normal(3, 4), normal(3, 4)]),
            ("sub", torch.sub, [normal(3, 4), normal(4)]),
            ("mul", torch.mul, [normal(3, 4), normal(4)]),
            ("div", torch.div, [normal(3, 4), positive(3, 4)]),
            ("pow", torch.pow, [positive(3, 4), positive(3, 4)]),
            ("gt", torch.gt, [normal(3, 4), normal(3, 4)]),
            ("sigmoid", torch.sigmoid, [normal(3, 4)]),
            ("softplus", F.softplus, [normal(3, 4)]),
            ("softmax", lambda x: F.softmax(x, 1), [normal(3, 4)]),
            ("leaky relu", F.leaky_relu, [normal(3, 4)]),
            ("sum", lambda x: x.sum(1), [normal(3, 4)]),
            ("index select", lambda x, places: x.index_select(0, places), [normal(5, 4), numbers(5, 3)]),
            ("ones", torch.ones_like, [normal(3, 4)]),
            ("zeros", torch.zeros_like, [normal(3, 4)]),
            ("fill", lambda x: torch.full_like(x, 3.0), [normal(3, 4)]),
            ("masked select", lambda x: x.masked_select(x > 0), [normal(3, 4)]),
            ("slice", lambda x: x[:, 1:3] + 0, [normal(3, 4)]),
            ("cast", lambda x: x.half(), [normal(3, 4)]),
            ("permute", lambda x: x.permute(1, 0).contiguous(), [normal(3, 4)]),
        )
    ),
    ("multilabel margin loss", F.multilabel_margin_loss, [floats(3, 4), numbers(4, 3, 4)]),
    ("bags of an embedding", bags, [floats(6, 4), numbers(6, 9)]),
    ("steps", lambda x: x + torch.linspace(0, 1, 4, device=x.device), [normal(4)]),
    ("steps of powers", lambda x: x + torch.logspace(0, 1, 4, device=x.device), [floats(4)]),
    ("histogram of whole numbers", histogram, [numbers(5, 30)]),
]
