"""Cases of fused attention: masks by prefix, divided sequences, and the operators of inference with lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch
import torch_npu

from fake_cann.comparing.layer_cases import constant, detached, on_npu
from fake_cann.comparing.more_cases import CAUSAL, QKV, TOKENS, attended, laid_out, normal

__all__ = ["CASES"]

#: The compressed mask of sparse mode 6: a triangle, and below it a rectangle whose right half is hidden.
PREFIX = torch.cat([CAUSAL, torch.cat([torch.zeros(1024, 1024), torch.ones(1024, 1024)], 1).bool()])


def behind_prefix(queries: int, keys: int, prefix: int) -> torch.Tensor:
    """Return the hidden pairs: the last query sees all keys, each before it one less, and all see the first ones."""
    hidden = torch.ones(queries, keys, dtype=torch.bool).triu(1 + keys - queries)
    hidden[:, :prefix] = False
    return hidden


def with_prefix(mode: int, layout: str, version: str = "") -> Callable[[list[torch.Tensor]], torch.Tensor]:
    """Return fused attention in which every query sees the first keys: 3 in one sequence, 5 in the other."""
    lengths = [3, 5]

    def either(qkv: list[torch.Tensor]) -> torch.Tensor:
        q, k, v = qkv
        hidden = torch.stack([behind_prefix(q.shape[2], k.shape[2], length) for length in lengths])[:, None]
        if q.device.type == "cpu":
            return laid_out(attended(q, k, v, hidden, None), layout)
        mask = hidden if mode == 5 else PREFIX
        call = getattr(torch.ops.npu, f"npu_fusion_attention{version}")
        options = {"scale": 0.5, "sparse_mode": mode, "prefix": lengths, "atten_mask": mask.npu()}
        return call(*(laid_out(x, layout) for x in qkv), q.shape[1], layout, **options)[0]

    return either


def sequence_mask(mode: int, which: int, queries: int, keys: int) -> torch.Tensor:
    """Return the hidden pairs of the first or the second of two sequences, for sparse modes of the layout TND."""
    if mode == 6:
        return behind_prefix(queries, keys, [2, 3][which])
    # Mode 7 is a mode 3 whose last sequence is divided among devices, mode 8 a mode 2 whose first one is.
    if which == (1 if mode == 7 else 0):
        return torch.ones(queries, keys, dtype=torch.bool).triu((0 if mode == 7 else 2) + keys - queries)
    return torch.ones(queries, keys, dtype=torch.bool).triu(1 + (keys - queries if mode == 7 else 0))


def of_sequences(mode: int, version: str = "") -> Callable[[list[torch.Tensor]], torch.Tensor]:
    """Return fused attention over sequences of 3 and 2 queries, 4 and 3 keys, in the layout TND."""

    def either(qkv: list[torch.Tensor]) -> torch.Tensor:
        if qkv[0].device.type == "cpu":
            parts = []
            for which, sizes in enumerate(zip(*(x.split(part) for x, part in zip(qkv, ([3, 2], [4, 3], [4, 3]))))):
                q, k, v = (x.transpose(0, 1)[None] for x in sizes)
                hidden = sequence_mask(mode, which, q.shape[2], k.shape[2])
                parts.append(attended(q, k, v, hidden, None)[0].transpose(0, 1))
            return torch.cat(parts)
        options: dict[str, Any] = {"prefix": [2, 3]} if mode == 6 else {}
        tokens = ("pre_tokens", "next_tokens") if version else ("pre_tockens", "next_tockens")
        if mode > 6:
            options.update(zip(tokens, (99, -1 if mode == 7 else 1)))
        mask = PREFIX if mode == 6 else CAUSAL
        call = getattr(torch.ops.npu, f"npu_fusion_attention{version}")
        options.update(actual_seq_qlen=[3, 5], actual_seq_kvlen=[4, 7], scale=0.5, sparse_mode=mode)
        return call(*qkv, qkv[0].shape[1], "TND", atten_mask=mask.npu(), **options)[0]

    return either


def with_sink(layout: str, hidden: Optional[torch.Tensor] = None, version: str = "") -> Callable[..., torch.Tensor]:
    """Return fused attention with a sink for each head: a logit that takes part in the softmax and has no value.

    In the layout TND there are two sequences, of 3 and 2 queries, 4 and 3 keys.
    """

    def definition(qkv: Sequence[torch.Tensor], sink: torch.Tensor) -> torch.Tensor:
        q, k, v = qkv
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1).float() for x in (k, v))
        scores = q.float() @ k.transpose(-2, -1) * 0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        sinks = sink.float().view(-1, 1, 1).expand(*scores.shape[:3], 1)
        return (torch.cat([scores, sinks], -1).softmax(-1)[..., :-1] @ v).to(q.dtype)

    def either(qkv: list[torch.Tensor], sink: torch.Tensor) -> torch.Tensor:
        heads = qkv[0].shape[1]
        if qkv[0].device.type == "cpu":
            if layout != "TND":
                return laid_out(definition(qkv, sink), layout)
            of_each = zip(*(x.split(part) for x, part in zip(qkv, ([3, 2], [4, 3], [4, 3]))))
            parts = ([x.transpose(0, 1)[None] for x in one] for one in of_each)
            return torch.cat([definition(one, sink)[0].transpose(0, 1) for one in parts])
        options: dict[str, Any] = {"scale": 0.5, "sink": sink.float()}
        if hidden is not None:
            options["atten_mask"] = hidden.npu()
        call = getattr(torch.ops.npu, f"npu_fusion_attention{version}")
        if layout == "TND":
            return call(*qkv, heads, layout, actual_seq_qlen=[3, 5], actual_seq_kvlen=[4, 7], **options)[0]
        return call(*(laid_out(x, layout) for x in qkv), heads, layout, **options)[0]

    return either


def inferred(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    hidden: Optional[torch.Tensor],
    lengths: Sequence[tuple[int, int]],
    mode: int = 1,
) -> list[torch.Tensor]:
    """Return attention of BNSD tensors and the logarithms of its sums, with lengths of queries and keys.

    Args:
        q: queries. What is behind the length of a sequence is zero.
        k: keys.
        v: values.
        hidden: pairs that do not count, of 4 dimensions, for sparse mode 1.
        lengths: of queries and keys in each sequence.
        mode: with 3 the last query of a sequence sees all its keys, and each before it one less.
    """
    out, logs = torch.zeros(q.shape), torch.zeros(*q.shape[:3], 1)
    for which, (queries, keys) in enumerate(lengths):
        one = q[which : which + 1, :, :queries].float()
        rest = (x[which : which + 1, :, :keys].repeat_interleave(q.shape[1] // k.shape[1], 1).float() for x in (k, v))
        key, value = rest
        scores = one @ key.transpose(-2, -1) * 0.5
        if mode == 3:
            scores = scores.masked_fill(torch.ones(queries, keys).triu(1 + keys - queries).bool(), -math.inf)
        elif hidden is not None:
            scores = scores.masked_fill(hidden.expand(len(q), -1, -1, -1)[which, :, :queries, :keys], -math.inf)
        out[which, :, :queries] = (scores.softmax(-1) @ value)[0]
        logs[which, :, :queries] = scores.logsumexp(-1, True)[0]
    return [out.to(q.dtype), logs]


def laid_as(x: torch.Tensor, layout: str) -> torch.Tensor:
    """Return a BNSD tensor in a layout of inference."""
    return x.transpose(0, 1) if layout == "NBSD" else laid_out(x, layout)


def called(
    name: str, layout: str, mode: int, lengths: Optional[Sequence[tuple[int, int]]], sums: bool, *qkv: torch.Tensor
) -> list[torch.Tensor]:
    """Return the results of an operator of inference: the attention, and the logarithms of the sums if it has them."""
    mask: Optional[torch.Tensor]
    q, k, v, mask = qkv if len(qkv) == 4 else (*qkv, None)
    heads, key_heads = q.shape[1], k.shape[1]
    of_queries, of_keys = zip(*lengths) if lengths else (None, None)
    options: dict[str, Any] = {"num_key_value_heads": key_heads, "input_layout": layout, "atten_mask": mask}
    if name == "npu_fused_infer_attention_score_v2":
        options.update(num_query_heads=heads, softmax_scale=0.5, return_softmax_lse=sums)
        options.update(actual_seq_qlen=of_queries, actual_seq_kvlen=of_keys, sparse_mode=mode)
    elif name == "npu_fused_infer_attention_score":
        options.update(num_heads=heads, scale=0.5, softmax_lse_flag=sums, sparse_mode=mode)
        options.update(actual_seq_lengths=of_queries, actual_seq_lengths_kv=of_keys)
    elif name == "npu_prompt_flash_attention":
        options.update(num_heads=heads, scale_value=0.5, sparse_mode=mode)
        options.update(actual_seq_lengths=of_queries, actual_seq_lengths_kv=of_keys)
    else:
        options.update(num_heads=heads, scale_value=0.5, actual_seq_lengths=of_keys)
    given = layout.partition("_")[0]
    found = getattr(torch_npu, name)(*(laid_as(x, given).contiguous() for x in (q, k, v)), **options)
    return list(found) if sums else [found if isinstance(found, torch.Tensor) else found[0]]


def inference(
    name: str,
    layout: str = "BNSD",
    mode: int = 1,
    lengths: Optional[Sequence[tuple[int, int]]] = None,
    sums: bool = False,
) -> Callable[..., Any]:
    """Return attention of inference on the NPU, its definition on the CPU; both get BNSD tensors and perhaps a mask."""

    def definition(*given: torch.Tensor) -> list[torch.Tensor]:
        q, k, v = given[:3]
        hidden = given[3] if len(given) == 4 else None
        if hidden is not None and hidden.dim() < 4:  # a row for each sequence, or one mask for all
            hidden = hidden[:, None, None] if hidden.dim() == 2 else hidden[:, None]
        all_of = [(q.shape[2], k.shape[2])] * len(q)
        out, logs = inferred(q, k, v, hidden, lengths or all_of, mode)
        out = laid_as(out, layout.rpartition("_")[2])
        return [out, logs] if sums else [out]

    return detached(on_npu(lambda *given: called(name, layout, mode, lengths, sums, *given), definition))


def of_tokens(name: str, layout: str, mode: int) -> Callable[..., Any]:
    """Return attention of inference over sequences of 3 and 2 queries, 4 and 3 keys, and the logarithms of its sums."""

    def call(*qkv: torch.Tensor) -> list[torch.Tensor]:
        new = name.endswith("v2")
        options: dict[str, Any] = {"num_key_value_heads": 2, "input_layout": layout, "sparse_mode": mode}
        options.update({("num_query_heads" if new else "num_heads"): 4, ("softmax_scale" if new else "scale"): 0.5})
        options["return_softmax_lse" if new else "softmax_lse_flag"] = True
        names = ("actual_seq_qlen", "actual_seq_kvlen") if new else ("actual_seq_lengths", "actual_seq_lengths_kv")
        options.update(zip(names, ([3, 5], [4, 7])))
        return list(getattr(torch_npu, name)(*qkv, atten_mask=CAUSAL.npu() if mode == 3 else None, **options))

    def definition(*qkv: torch.Tensor) -> list[torch.Tensor]:
        parts = []
        for sizes in zip(*(x.split(part) for x, part in zip(qkv, ([3, 2], [4, 3], [4, 3])))):
            q, k, v = (x.transpose(0, 1)[None] for x in sizes)
            parts.append([x[0].transpose(0, 1) for x in inferred(q, k, v, None, [(q.shape[2], k.shape[2])], mode)])
        out, logs = (torch.cat(found) for found in zip(*parts))
        return [out.transpose(0, 1) if layout == "TND_NTD" else out, logs]

    return detached(on_npu(call, definition))


def random_mask(*sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of a mask that leaves every query its first key."""

    def make(dtype: torch.dtype) -> torch.Tensor:
        mask = torch.rand(sizes) > 0.6
        mask[..., 0] = False
        return mask

    return make


PROMPT, INCREMENT = "npu_prompt_flash_attention", "npu_incre_flash_attention"
FUSED, FUSED_2 = "npu_fused_infer_attention_score", "npu_fused_infer_attention_score_v2"
LENGTHS = [(5, 7), (2, 4)]


def given(queries: int = 5, keys: int = 7, key_heads: int = 2) -> list[Callable[[torch.dtype], torch.Tensor]]:
    """Return the factories of queries, keys and values."""
    return [normal(2, 4, queries, 16), normal(2, key_heads, keys, 16), normal(2, key_heads, keys, 16)]


#: Cases: (title, function, factories of its arguments).
CASES: list[tuple[str, Callable[..., Any], list[Any]]] = [
    *((f"attention with a prefix, {layout}", with_prefix(5, layout), QKV) for layout in ("BNSD", "SBH")),
    *((f"attention with a prefix, mode 6{version}", with_prefix(6, "BSND", version), QKV) for version in ("", "_v2")),
    *(
        (f"attention of sequences, mode {mode}{version}", of_sequences(mode, version), TOKENS)
        for mode in (6, 7, 8)
        for version in ("", "_v2")
    ),
    *(
        (f"attention with a sink, {layout}{version}", with_sink(layout, version=version), [*QKV, normal(4)])
        for layout, version in (("BNSD", ""), ("SBH", ""), ("BSND", "_v2"))
    ),
    ("attention with a sink and a mask", with_sink("BSH", torch.ones(5, 7).triu(2).bool()), [*QKV, normal(4)]),
    *(
        (f"attention of sequences with a sink{version}", with_sink("TND", version=version), [*TOKENS, normal(4)])
        for version in ("", "_v2")
    ),
    *(
        (f"{name}, lengths of queries, mode {mode}", inference(name, "BNSD", mode, LENGTHS), [*given(), mask])
        for name in (PROMPT, FUSED, FUSED_2)
        for mode, mask in ((1, random_mask(2, 1, 5, 7)), (1, random_mask(1, 5, 7)), (3, constant(CAUSAL)))
    ),
    *(
        (f"{name}, a row of the mask for each sequence", inference(name), [*given(1), random_mask(*sizes)])
        for name in (INCREMENT, FUSED, FUSED_2)
        for sizes in ((2, 7), (2, 1, 1, 7))
    ),
    *(
        (f"{name}, sums, {keys} heads of keys", inference(name, "BSND", sums=True), given(key_heads=keys))
        for name in (FUSED, FUSED_2)
        for keys in (2, 4)
    ),
    *(
        (f"{FUSED_2}, {layout}", inference(FUSED_2, layout, lengths=LENGTHS, sums=True), given())
        for layout in ("BSH", "BNSD_BSND", "BNSD_NBSD", "BSH_BNSD", "BSND_NBSD")
    ),
    *(
        (f"{name}, {layout}, mode {mode}", of_tokens(name, layout, mode), [normal(5, 4, 16), *[normal(7, 2, 16)] * 2])
        for name, layout, mode in (
            (FUSED, "TND", 3),
            (FUSED_2, "TND", 0),
            (FUSED_2, "TND", 3),
            (FUSED_2, "TND_NTD", 3),
        )
    ),
]
