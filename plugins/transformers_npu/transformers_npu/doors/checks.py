"""Random calls of the functions that stand in the interfaces of transformers, beside their definitions."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any, Optional

import patchcore as pc
from transformers_npu.doors.attention import reads_is_causal

MASKS = ("none", "causal", "pairs", "pairs of each head", "added", "bias")


def sdpa(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw an attention of the default name, of every kind that :func:`transformers_npu.doors.attention.fits`."""
    return _attention(rng, size, "sdpa")


def named_attention(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw an attention of this plugin's name."""
    return _attention(rng, size, "npu_fusion")


def grouped_mm(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw experts of the default name: with or without gate and bias, in both layouts of their matrices."""
    return _experts(rng, size, "grouped_mm")


def named_experts(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw experts of this plugin's name."""
    return _experts(rng, size, "npu_grouped")


def flash(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a flash attention with and without a window, of a batch or of sequences one after the other."""
    import torch

    causal, packed, window = rng.random() < 0.7, rng.random() < 0.5, rng.choice((None, 1, 3))
    batch, heads, groups = rng.randint(1, 3), rng.randint(1, 2), rng.choice((1, 2))
    positions = size.draw(rng, small=(2, 12), typical=(128, 256))
    width = size.draw(rng, small=(1, 24), typical=(64, 128))
    query, key, value = (
        _normal(rng, (batch, positions, count, width)).requires_grad_() for count in (heads * groups, heads, heads)
    )
    options: dict[str, Any] = {"causal": causal}
    if window is not None:
        options["window_size"] = (window, window)

    def call(query: Any, key: Any, value: Any) -> Any:
        from transformers.integrations import npu_flash_attention as module

        if not packed:
            return module.npu_flash_attn_func(query, key, value, **options)
        ends = torch.arange(0, batch * positions + 1, positions, dtype=torch.int32, device=query.device)
        tokens = (tensor.flatten(0, 1) for tensor in (query, key, value))
        return module.npu_flash_attn_varlen_func(*tokens, ends, ends, **options).view(query.shape)

    def reference(query: Any, key: Any, value: Any) -> Any:
        counts = None
        if window is not None:
            ahead = torch.arange(positions) - torch.arange(positions)[:, None]
            counts = ahead.abs() <= window
        heads_first = (tensor.transpose(1, 2) for tensor in (query, key, value))
        return attention_by_definition(*heads_first, scale=1 / math.sqrt(width), counts=counts, causal=causal)

    return pc.Case(call, [query, key, value], reference=reference)


def attention_by_definition(
    query: Any,
    key: Any,
    value: Any,
    *,
    scale: float,
    counts: Any = None,
    added: Any = None,
    causal: bool = False,
) -> Any:
    """Return attention computed in float32 by its definition: batch, positions, heads, size.

    Args:
        query: batch, heads, positions, size.
        key: with as many heads or fewer.
        value: as the key.
        scale: the factor of the scores.
        counts: bool, ``True`` where a pair counts. A position of which no key counts has zeros.
        added: numbers that are added to the scores.
        causal: no position sees keys behind its own number.
    """
    import torch

    key, value = (tensor.repeat_interleave(query.shape[1] // tensor.shape[1], 1).float() for tensor in (key, value))
    scores = query.float() @ key.transpose(-2, -1) * scale
    if added is not None:
        scores = scores + added.float()
    kept = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
    kept = kept.tril() if causal else kept
    kept = kept if counts is None else kept & counts
    weights = scores.masked_fill(~kept, -torch.inf).softmax(-1).masked_fill(~kept, 0)
    return (weights @ value).to(query.dtype).transpose(1, 2).contiguous()


def _attention(rng: random.Random, size: pc.Size, name: str) -> pc.Case:

    kind = rng.choice(MASKS)
    groups, heads = rng.choice((1, 2, 3)), rng.randint(1, 3)
    batch, width = rng.randint(1, 3), size.draw(rng, small=(1, 24), typical=(64, 128))
    positions = size.draw(rng, small=(2, 12), typical=(128, 256))  # of one key the gradients are zero
    keys = positions + (rng.randint(0, 5) if kind != "causal" else 0)
    shape = (batch, heads * groups, positions, keys)
    narrow = width if rng.random() < 0.7 else rng.randint(1, width)  # of the values, as in DeepSeek's attention
    query, key, value = (
        _normal(rng, given).requires_grad_()
        for given in ((*shape[:3], width), (batch, heads, keys, width), (batch, heads, keys, narrow))
    )
    scale = rng.choice((None, 0.5))
    module = SimpleNamespace(is_causal=kind == "causal", num_key_value_groups=groups)
    causal = kind == "causal" or (kind in ("none", "bias") and not reads_is_causal())
    counts: Any = None
    added: Any = None
    if kind == "pairs":
        counts = _bools(rng, (batch, 1, positions, keys))
    elif kind == "pairs of each head":
        counts = _bools(rng, shape)
    elif kind in ("added", "bias"):
        added = _normal(rng, shape if kind == "added" else (1, *shape[1:]))

    def call(query: Any, key: Any, value: Any, counts: Any, added: Any) -> Any:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        options: dict[str, Any] = {} if kind != "bias" else {"position_bias": added}
        mask = added if kind == "added" else counts
        return ALL_ATTENTION_FUNCTIONS[name](module, query, key, value, mask, scaling=scale, **options)[0]

    def reference(query: Any, key: Any, value: Any, counts: Any, added: Any) -> Any:
        return attention_by_definition(
            query,
            key,
            value,
            scale=1 / math.sqrt(width) if scale is None else scale,
            counts=counts,
            added=added,
            causal=causal,
        )

    return pc.Case(call, [query, key, value, counts, added], reference=reference)


def _experts(rng: random.Random, size: pc.Size, name: str) -> pc.Case:
    import torch

    gated, biased, transposed = (rng.random() < 0.5 for _ in range(3))
    experts = rng.randint(2, 6)
    chosen = rng.randint(1, experts)
    tokens, width, inner = (
        size.draw(rng, small=small, typical=typical)
        for small, typical in (((1, 12), (64, 256)), ((1, 16), (64, 128)), ((1, 16), (64, 128)))
    )
    outer = 2 * inner if gated else inner
    first, second = (experts, outer, width), (experts, width, inner)
    if transposed:
        first, second = (experts, width, outer), (experts, inner, width)
    index = torch.stack([torch.randperm(experts, generator=_generator(rng))[:chosen] for _ in range(tokens)])
    weights = torch.rand(tokens, chosen, generator=_generator(rng))
    given = [_normal(rng, (tokens, width)), weights, _normal(rng, first), _normal(rng, second)]
    given += [_normal(rng, (experts, outer)), _normal(rng, (experts, width))] if biased else []

    def layer(up: Any, down: Any, biases: tuple[Any, ...]) -> Any:
        made = SimpleNamespace(
            num_experts=experts,
            has_gate=gated,
            has_bias=biased,
            has_post_expert_norm=False,
            is_transposed=transposed,
            is_concatenated=True,
            _is_expert_parallel=False,
            act_fn=torch.nn.functional.silu,
            down_proj=down,
            _apply_gate=lambda rows: torch.nn.functional.silu(rows.chunk(2, -1)[0]) * rows.chunk(2, -1)[1],
        )
        setattr(made, "gate_up_proj" if gated else "up_proj", up)
        if biased:
            setattr(made, "gate_up_proj_bias" if gated else "up_proj_bias", biases[0])
            made.down_proj_bias = biases[1]
        return made

    def call(index: Any, hidden: Any, weights: Any, up: Any, down: Any, *biases: Any) -> Any:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

        return ALL_EXPERTS_FUNCTIONS[name](layer(up, down, biases), hidden, index, weights)

    def reference(index: Any, hidden: Any, weights: Any, up: Any, down: Any, *biases: Any) -> Any:
        return experts_by_definition(layer(up, down, biases), hidden, index, weights)

    return pc.Case(call, [index, *(tensor.requires_grad_() for tensor in given)], reference=reference)


def experts_by_definition(module: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
    """Return the weighted sum of each token's experts, computed in float32 one expert after the other.

    Args:
        module: the experts, as transformers decorates them.
        hidden_states: tokens, size.
        top_k_index: tokens, chosen experts.
        top_k_weights: the weight of each choice.
    """
    import torch

    gated = module.has_gate
    result = torch.zeros(hidden_states.shape, device=hidden_states.device)
    for expert in range(module.num_experts):
        token, choice = torch.where(top_k_index == expert)
        rows = _linear(hidden_states[token], module, "gate_up_proj" if gated else "up_proj", expert)
        rows = module._apply_gate(rows) if gated else module.act_fn(rows)
        rows = _linear(rows, module, "down_proj", expert)
        result = result.index_add(0, token, rows * top_k_weights[token, choice, None].float())
    return result.to(hidden_states.dtype)


def _linear(rows: Any, module: Any, name: str, expert: int) -> Any:
    matrix = getattr(module, name)[expert].float()
    product = rows.float() @ (matrix if module.is_transposed else matrix.t())
    return product + getattr(module, f"{name}_bias")[expert].float() if module.has_bias else product


def _bools(rng: random.Random, shape: tuple[int, ...]) -> Any:
    import torch

    counts = torch.rand(shape, generator=_generator(rng)) < 0.6
    counts[..., 0, :] = True  # the largest value is then not zero
    return counts


def _normal(rng: random.Random, shape: tuple[int, ...]) -> Any:
    import torch

    return torch.randn(shape, generator=_generator(rng)) * 0.5


def _generator(rng: random.Random) -> Optional[Any]:
    import torch

    return torch.Generator().manual_seed(rng.randrange(2**31))
