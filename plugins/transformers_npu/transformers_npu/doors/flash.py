"""Sliding windows of ``attn_implementation="flash_attention_2"`` on an NPU.

transformers passes a window only to flash attention functions with a parameter ``window_size``
(``_lazy_define_process_function``, ``modeling_flash_attention_utils.py``; until 4.53 the constant
``_flash_supports_window_size``, from its import on). Its functions for the NPU have none, so Mistral and Gemma see the
whole sequence there, without a message. The functions here have the parameter: a window is
the band of ``npu_fusion_attention`` (``sparse_mode`` 4), which counts from the last position.
"""

from __future__ import annotations

import math
from typing import Any, Optional

from transformers_npu.doors.attention import LEFT_UP_CAUSAL, causal_mask

BAND = 4
UNLIMITED = (-1, -1)
ALL_TOKENS = 2147483647


def npu_flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: tuple[int, int] = UNLIMITED,
    **kwargs: Any,
) -> Any:
    """Replace transformers' ``npu_flash_attn_func``: attention of batch, positions, heads and size, with a window.

    Args:
        q: queries.
        k: keys, with as many heads or fewer.
        v: values.
        dropout_p: the probability of dropping a weight.
        softmax_scale: the factor of the scores; default ``1 / sqrt(size)``.
        causal: no position sees later ones.
        window_size: how many positions to the left and to the right count, as in ``flash_attn``; -1 for all.
        kwargs: not used.
    """
    import torch_npu

    options = _options(q, k, softmax_scale, dropout_p, causal, window_size)
    return torch_npu.npu_fusion_attention(q, k, v, q.shape[2], "BSND", **options)[0]


def npu_flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: tuple[int, int] = UNLIMITED,
    **kwargs: Any,
) -> Any:
    """Replace transformers' ``npu_flash_attn_varlen_func``: sequences one after the other, with a window.

    Args:
        q: tokens, heads, size.
        k: as the queries, with as many heads or fewer.
        v: as the keys.
        cu_seqlens_q: the sums of the lengths of sequences, from 0.
        cu_seqlens_k: those of the keys.
        max_seqlen_q: not used.
        max_seqlen_k: not used.
        dropout_p: as above.
        softmax_scale: as above.
        causal: as above.
        window_size: as above.
        kwargs: not used.
    """
    import torch_npu

    options = _options(q, k, softmax_scale, dropout_p, causal, window_size)
    ends = {"actual_seq_qlen": cu_seqlens_q[1:].tolist(), "actual_seq_kvlen": cu_seqlens_k[1:].tolist()}
    return torch_npu.npu_fusion_attention(q, k, v, q.shape[1], "TND", **options, **ends)[0]


def _options(
    q: Any, k: Any, scale: Optional[float], dropout: float, causal: bool, window: tuple[int, int]
) -> dict[str, Any]:
    from transformers.integrations.npu_flash_attention import SPARSE_MODE

    options: dict[str, Any] = {
        "scale": 1 / math.sqrt(q.shape[-1]) if scale is None else scale,
        "keep_prob": 1 - dropout,
    }
    before, after = (ALL_TOKENS if limit < 0 else limit for limit in window)
    if before == after == ALL_TOKENS:
        if causal:
            options.update(atten_mask=causal_mask(q.device), sparse_mode=SPARSE_MODE)
        return options
    if SPARSE_MODE == LEFT_UP_CAUSAL and q.shape[1 - (q.dim() == 3)] != k.shape[1 - (k.dim() == 3)]:
        raise ValueError(
            "NPU_FA2_SPARSE_MODE=2 counts positions from the first one, and the windows of npu_fusion_attention from "
            "the last; unset NPU_FA2_SPARSE_MODE, or use attn_implementation='sdpa'"
        )
    options.update(
        atten_mask=causal_mask(q.device), sparse_mode=BAND, pre_tockens=before, next_tockens=0 if causal else after
    )
    return options
