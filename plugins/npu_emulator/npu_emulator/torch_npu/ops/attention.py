"""Fused attention, and the fused softmax that it replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor
from torch.nn import functional

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.ops.precision import accumulated
from npu_emulator.torch_npu.ops.registry import operator

__all__ = ["npu_fusion_attention", "npu_scaled_masked_softmax"]

#: How npu_fusion_attention says "no limit" in pre_tockens and next_tockens.
_UNLIMITED = 2147483647
#: Statistics of the softmax are repeated this often in a last dimension, as the device's vector unit reads them.
_STATISTICS_WIDTH = 8
#: Side of the compressed mask that stands for a causal or banded mask of any size.
_COMPRESSED_MASK = 2048
#: The value that npu_scaled_masked_softmax writes over masked logits.
_MASKED_LOGIT = -10000.0


class _Attended(NamedTuple):
    """Attention of one batch.

    Args:
        output: shape (b, n, s_q, d_v).
        maximum: per row of the softmax, shape (b, n, s_q).
        total: sum of the exponentials, likewise.
    """

    output: Tensor
    maximum: Tensor
    total: Tensor


class _Sparsity(NamedTuple):
    """Masks of pairs of query and key, for ``sparse_mode`` and the arguments that belong to it."""

    mode: int
    mask: Optional[Tensor]
    before: int
    after: int


@operator(
    "npu_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, Tensor? pse=None,"
    " Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1.,"
    " int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, int[]? prefix=None,"
    " int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True,"
    ' bool sync=False, str softmax_layout="", Tensor? sink=None, Tensor? dropout_mask=None, int seed=0, int offset=0)'
    " -> (Tensor, Tensor, Tensor, Tensor, int, int, int)",
    differentiable=(0,),
    tags=[torch.Tag.nondeterministic_seeded],
)
def npu_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Optional[Tensor] = None,
    padding_mask: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = _UNLIMITED,
    next_tockens: int = _UNLIMITED,
    inner_precise: int = 0,
    prefix: Optional[Sequence[int]] = None,
    actual_seq_qlen: Optional[Sequence[int]] = None,
    actual_seq_kvlen: Optional[Sequence[int]] = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: Optional[Tensor] = None,
    dropout_mask: Optional[Tensor] = None,
    seed: int = 0,
    offset: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    """Return ``dropout(softmax(mask(scale * (query @ key.T + pse)))) @ value``.

    A row whose every key is masked yields zeros, as the device does with ``inner_precise=2`` and where it notices by
    itself; otherwise it documents the values of such a row as inaccurate.

    Args:
        query: in ``input_layout``: BNSD, BSND, BSH, SBH or TND, of batch, heads, sequence, size of a head, and
            H = heads * size, T = the sequences of all batches one after the other.
        key: likewise; its heads, of which there may be fewer, divide those of the query (grouped-query attention).
        value: likewise, with the heads of the key.
        head_num: heads of the query.
        input_layout: see ``query``.
        pse: position encoding, shape (b or 1, n, s_q or 1, s_kv).
        padding_mask: ``None``; the device takes nothing else either.
        atten_mask: bool or uint8, 1 for pairs that do not count, shape (b or 1, n or 1, s_q, s_kv) or (s_q, s_kv); for
            ``sparse_mode`` 2, 3 and 4 the triangle ``torch.triu(torch.ones(2048, 2048), diagonal=1)``. ``None`` counts
            every pair, whatever ``sparse_mode`` and the limits are.
        scale: see the formula.
        keep_prob: probability that dropout keeps an element, in (0, 1].
        pre_tockens: with ``sparse_mode`` 0 and 4, how many keys before its own position a query sees.
        next_tockens: likewise, after.
        inner_precise: without effect.
        prefix: for ``sparse_mode`` 5 and 6 only.
        actual_seq_qlen: for TND, where the sequences of the query end in T: sums of their lengths.
        actual_seq_kvlen: likewise, of the key.
        sparse_mode: 0, the mask and the limits; 1, the mask; 2, causal from the first query and key; 3, causal from
            the last ones; 4, a band between the limits, counted from the last ones.
        gen_mask_parallel: without effect.
        sync: without effect.
        softmax_layout: for TND, how the statistics are ordered: ``"TND"`` by token and head, ``""`` by head and token.
        sink: ``None``.
        dropout_mask: ``None``.
        seed: 0.
        offset: 0.

    Returns:
        The attention; maximum and sum of each row of the softmax, shape (b, n, s_q, 8) or (t, n, 8), eight times the
        same, float32 for 16-bit types; an empty tensor; and seed, offset and length of the dropout mask, which are
        zero: the mask is drawn from the generator of the device and not drawn again.

    Raises:
        NotEmulated: ``sparse_mode`` 5 to 8, ``pse`` of TND or compressed to 1,024 rows, or one of the last four
            arguments is given.
        ValueError: the arguments do not fit together.
    """
    if padding_mask is not None:
        raise NotEmulated("npu_fusion_attention: padding_mask is not supported by the device either; use atten_mask")
    if sink is not None or dropout_mask is not None or seed or offset:
        raise NotEmulated("npu_fusion_attention: sink, dropout_mask, seed and offset are not emulated; leave them out")
    if not 0 < keep_prob <= 1:
        raise ValueError(f"npu_fusion_attention: expected keep_prob in (0, 1], found {keep_prob}")
    sparsity = _Sparsity(sparse_mode, atten_mask, pre_tockens, next_tockens)
    _check_sparsity(sparsity)

    if input_layout == "TND":
        output, maximum, total = _attend_sequences(
            query, key, value, pse, scale, keep_prob, sparsity, actual_seq_qlen, actual_seq_kvlen
        )
        if softmax_layout != "TND":
            maximum, total = (
                statistic.transpose(0, 1).contiguous().view_as(statistic) for statistic in (maximum, total)
            )
    else:
        q, k, v = _heads_first(query, key, value, head_num, input_layout)
        attended = _attend(q, k, v, pse, scale, keep_prob, sparsity)
        output, maximum, total = _heads_back(attended.output, input_layout), attended.maximum, attended.total
    statistics = (_repeated(maximum), _repeated(total))
    return (output.to(query.dtype), *statistics, query.new_empty(0), 0, 0, 0)


@operator("npu_scaled_masked_softmax(Tensor x, Tensor mask, Scalar scale=1, bool fixed_triu_mask=False) -> Tensor")
def npu_scaled_masked_softmax(
    x: Tensor, mask: Tensor, scale: Union[int, float] = 1, fixed_triu_mask: bool = False
) -> Tensor:
    """Return the softmax over the last dimension of ``scale * x``, with -10000 in place of masked elements.

    Args:
        x: logits.
        mask: bool, ``True`` for masked elements, of a shape that broadcasts to that of ``x``.
        scale: see above.
        fixed_triu_mask: ``False``; the device has no other.

    Raises:
        NotEmulated: ``fixed_triu_mask``.
    """
    if fixed_triu_mask:
        raise NotEmulated("npu_scaled_masked_softmax: fixed_triu_mask=True is not implemented on the device; pass mask")
    logits = (accumulated(x) * scale).masked_fill(mask.bool(), _MASKED_LOGIT)
    return torch.softmax(logits, dim=-1).to(x.dtype)


def _heads_first(query: Tensor, key: Tensor, value: Tensor, head_num: int, layout: str) -> tuple[Tensor, ...]:
    """Return query, key and value with the dimensions (b, n, s, d)."""
    if layout == "BNSD":
        heads_first: tuple[Tensor, ...] = (query, key, value)
    elif layout == "BSND":
        heads_first = tuple(tensor.transpose(1, 2) for tensor in (query, key, value))
    elif layout in ("BSH", "SBH"):
        if query.shape[-1] % head_num:
            raise ValueError(
                f"npu_fusion_attention: expected a size H of query that head_num divides, found {query.shape[-1]} and "
                f"head_num={head_num}"
            )
        # Queries and keys have heads of one size; the value has as many heads as the key.
        size = query.shape[-1] // head_num
        kv_heads = key.shape[-1] // size
        batch_first = [tensor.transpose(0, 1) if layout == "SBH" else tensor for tensor in (query, key, value)]
        counts = (head_num, kv_heads, kv_heads)
        heads_first = tuple(
            tensor.unflatten(-1, (heads, -1)).transpose(1, 2) for tensor, heads in zip(batch_first, counts)
        )
    else:
        raise ValueError(f"npu_fusion_attention: expected input_layout BNSD, BSND, BSH, SBH or TND, found {layout!r}")
    if heads_first[0].shape[1] != head_num:
        raise ValueError(
            f"npu_fusion_attention: expected query of head_num={head_num} heads in layout {layout}, "
            f"found shape {tuple(query.shape)}"
        )
    return heads_first


def _heads_back(output: Tensor, layout: str) -> Tensor:
    """Return a result of the dimensions (b, n, s, d) in a layout."""
    if layout == "BNSD":
        return output
    by_position = output.transpose(1, 2)
    if layout == "BSND":
        return by_position.contiguous()
    together = by_position.flatten(2)
    return together.transpose(0, 1).contiguous() if layout == "SBH" else together


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    pse: Optional[Tensor],
    scale: float,
    keep_prob: float,
    sparsity: _Sparsity,
) -> _Attended:
    """Attend with query, key and value of the dimensions (b, n, s, d)."""
    heads, kv_heads = query.shape[1], key.shape[1]
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError(
            f"npu_fusion_attention: expected the heads of key to divide the {heads} of query, found {kv_heads}"
        )
    q, k, v = (accumulated(tensor) for tensor in (query, key, value))
    k, v = (tensor.repeat_interleave(heads // kv_heads, dim=1) for tensor in (k, v))

    logits = q @ k.transpose(-2, -1)
    if pse is not None:
        if pse.shape[-2] not in (1, query.shape[-2]):
            raise NotEmulated(
                f"npu_fusion_attention: pse compressed to {pse.shape[-2]} of {query.shape[-2]} rows is not emulated; "
                "pass every row"
            )
        logits = logits + accumulated(pse)
    logits = logits * scale

    masked = _masked_pairs(sparsity, query.shape[-2], key.shape[-2], query.device)
    lowest = torch.finfo(logits.dtype).min
    if masked is not None:
        logits = logits.masked_fill(masked, lowest)
    maximum = logits.detach().amax(dim=-1, keepdim=True)
    exponentials = torch.exp(logits - maximum)
    if masked is not None:
        exponentials = exponentials.masked_fill(masked, 0)
    total = exponentials.sum(dim=-1, keepdim=True)
    # A row that is masked as a whole has a sum of zero: dividing zeros by one keeps it, and its gradients, at zero.
    probabilities = exponentials / torch.where(total == 0, 1, total)
    if keep_prob < 1:
        probabilities = functional.dropout(probabilities, 1 - keep_prob)
    return _Attended(probabilities @ v, maximum.squeeze(-1), total.squeeze(-1))


def _attend_sequences(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    pse: Optional[Tensor],
    scale: float,
    keep_prob: float,
    sparsity: _Sparsity,
    query_ends: Optional[Sequence[int]],
    key_ends: Optional[Sequence[int]],
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend sequence by sequence, with query, key and value of the dimensions (t, n, d).

    Returns:
        The attention, shape (t, n, d_v), and maximum and sum per token and head, shape (t, n).
    """
    if query_ends is None or key_ends is None or len(query_ends) != len(key_ends):
        raise ValueError(
            "npu_fusion_attention: expected actual_seq_qlen and actual_seq_kvlen, of one length, with layout TND; "
            f"found {query_ends} and {key_ends}"
        )
    if pse is not None:
        raise NotEmulated(
            "npu_fusion_attention: pse with layout TND is not emulated; call it for each sequence in layout BNSD"
        )
    dtype = accumulated(query).dtype
    outputs, maxima, totals = [], [], []
    query_start = key_start = 0
    for query_end, key_end in zip(query_ends, key_ends):
        # Ends of zero after the last sequence stand for sequences that take no part.
        if query_end < query_start or key_end < key_start:
            break
        queries, keys = query[query_start:query_end], key[key_start:key_end]
        values = value[key_start:key_end]
        query_start, key_start = query_end, key_end
        if queries.shape[0] == 0:
            continue
        if keys.shape[0] == 0:
            raise ValueError("npu_fusion_attention: expected keys for every sequence that has queries, found none")
        one, others, theirs = (part.transpose(0, 1).unsqueeze(0) for part in (queries, keys, values))
        attended = _attend(one, others, theirs, None, scale, keep_prob, sparsity)
        outputs.append(attended.output[0].transpose(0, 1))
        maxima.append(attended.maximum[0].transpose(0, 1))
        totals.append(attended.total[0].transpose(0, 1))
    unused = query.shape[0] - query_start
    padding = query.new_zeros((unused, query.shape[1]), dtype=dtype)
    outputs.append(query.new_zeros((unused, query.shape[1], value.shape[2]), dtype=dtype))
    return torch.cat(outputs), torch.cat([*maxima, padding]), torch.cat([*totals, padding])


def _check_sparsity(sparsity: _Sparsity) -> None:
    """Raise unless this is a sparsity that is emulated, with the mask that belongs to it."""
    if sparsity.mode not in range(5):
        raise NotEmulated(
            f"npu_fusion_attention: sparse_mode={sparsity.mode} is not emulated; 0 to 4 are. Mode 1 takes any full mask"
        )
    compressed = (_COMPRESSED_MASK, _COMPRESSED_MASK)
    mask = sparsity.mask
    if mask is not None and sparsity.mode >= 2 and tuple(mask.shape[-2:]) != compressed:
        raise ValueError(
            f"npu_fusion_attention: expected, for sparse_mode={sparsity.mode}, the compressed atten_mask "
            f"torch.triu(torch.ones(2048, 2048), diagonal=1).bool(), found shape {tuple(mask.shape)}; pass a mask in "
            f"full with sparse_mode=1"
        )


def _masked_pairs(sparsity: _Sparsity, queries: int, keys: int, device: torch.device) -> Optional[Tensor]:
    """Return which pairs do not count, of a shape that broadcasts to (b, n, queries, keys); ``None`` for none."""
    if sparsity.mask is None:
        return None
    # Where a key lies relative to the position of each query, counted from the first or from the last ones.
    ahead = torch.arange(keys, device=device) - torch.arange(queries, device=device).unsqueeze(-1)
    ahead_of_last = ahead - (keys - queries)
    if sparsity.mode == 2:
        return ahead > 0
    if sparsity.mode == 3:
        return ahead_of_last > 0
    if sparsity.mode == 4:
        return (ahead_of_last > sparsity.after) | (ahead_of_last < -sparsity.before)
    given = sparsity.mask[..., :queries, :keys].bool()
    if sparsity.mode == 1:
        return given
    return given | (ahead > sparsity.after) | (ahead < -sparsity.before)


def _repeated(statistic: Tensor) -> Tensor:
    return statistic.detach().unsqueeze(-1).expand(*statistic.shape, _STATISTICS_WIDTH).contiguous()
