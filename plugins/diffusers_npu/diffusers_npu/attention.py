"""Attention of diffusers on ``npu_fusion_attention``, where torch_npu's scaled_dot_product_attention does not use it.

torch_npu 2.13 runs ``scaled_dot_product_attention`` on this kernel by itself if there is no mask or a mask of truth
values. Two things are left:

- A mask of numbers, which is added (UNet2DCondition, PixArt, Sana, LTX, ...): torch_npu computes the scores of all
  pairs, one operator after the other. The kernel adds the mask as ``pse``: softmax(scale * q k + pse) v.
- The layout. diffusers has the heads behind the tokens (BSND). ``scaled_dot_product_attention`` wants them before
  (BNSD), so the result is copied back, and CANN copies the three inputs. The kernel takes BSND as it is.

Everything else is left to the original: masks of truth values, ``is_causal``, dropout, other dtypes, sizes and devices.
Limits are those of CANN's page of aclnnFlashAttentionScoreV2 (CANN 8.5): 1 to 256 heads, 1 to 1 Mi tokens, head
dimensions 1 to 768, of which torch_npu 2.13 itself sends those up to 512 to the kernel.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, Optional

import patchcore as pc
from diffusers_npu.declared import LEGACY_NAMES, TOLERANCES, UP_TO
from diffusers_npu.derivatives import once

__all__ = ["DISPATCHER", "MASK_ROWS", "MODULES", "can_dispatch", "can_fuse", "dispatched", "fused", "with_every_row"]

_MOST_HEADS, _MOST_TOKENS, _LARGEST_HEAD = 256, 1024 * 1024, 512


def can_fuse(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> bool:
    """Return True if the kernel computes this call exactly and better than torch_npu would by itself.

    Args:
        query: the arguments of ``torch.nn.functional.scaled_dot_product_attention``, heads before tokens (BNSD).
        key: see ``query``.
        value: see ``query``.
        attn_mask: see ``query``.
        dropout_p: see ``query``.
        is_causal: see ``query``.
        scale: see ``query``.
        enable_gqa: see ``query``.
    """
    if query.device.type != "npu" or query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        return False
    if is_causal or dropout_p or not _fits(query, key, value, enable_gqa):
        return False
    if attn_mask is None:
        return _lie_by_token(query, key, value) and query.shape[1] > 1
    return _is_added(attn_mask, query, key)


def fused(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Any:
    """Do ``scaled_dot_product_attention`` for calls that :func:`can_fuse` accepts; its arguments and result."""
    if _lie_by_token(query, key, value):
        return _attend(_turned(query, key, value), attn_mask, scale, "BSND", _NAMES).transpose(1, 2)
    return _attend((query, key, value), attn_mask, scale, "BNSD", _NAMES)


def can_dispatch(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    _parallel_config: Any = None,
) -> bool:
    """Return True if :func:`can_fuse` accepts a call of diffusers' default back end, tokens before heads (BSND)."""
    if return_lse or _parallel_config is not None or query.device.type != "npu":
        return False
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        return False
    mask = _with_all_dimensions(attn_mask, query, key)
    return can_fuse(*_turned(query, key, value), mask, dropout_p, is_causal, scale, enable_gqa)


def dispatched(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    _parallel_config: Any = None,
) -> Any:
    """Do ``_native_attention`` of diffusers for calls that :func:`can_dispatch` accepts; its arguments and result."""
    mask = _with_all_dimensions(attn_mask, query, key)
    return _attend((query, key, value), mask, scale, "BSND", "diffusers.attention.dispatcher")


def _turned(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """Return the three with heads and tokens exchanged."""
    return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


def _lie_by_token(query: Any, key: Any, value: Any) -> bool:
    """Return True if tensors with heads before tokens lie in memory with tokens before heads."""
    return all(each.is_contiguous() for each in _turned(query, key, value))


def _with_all_dimensions(mask: Any, query: Any, key: Any) -> Any:
    # As _native_attention reads a mask of two dimensions.
    if mask is None or mask.ndim != 2 or mask.shape != (query.shape[0], key.shape[1]) or not _has_a_row_for_each():
        return mask
    return mask.unsqueeze(1).unsqueeze(1)


@functools.cache
def _has_a_row_for_each() -> bool:
    """Return whether a mask of two dimensions has a row for each of the batch: from diffusers 0.37 on.

    Before, torch reads it: a row for each query.
    """
    import diffusers

    return tuple(int(part) for part in diffusers.__version__.split(".")[:2]) >= (0, 37)


def _fits(query: Any, key: Any, value: Any, enable_gqa: bool) -> bool:
    import torch

    if any(type(each) not in (torch.Tensor, torch.nn.Parameter) for each in (query, key, value)):
        return False
    if query.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return False
    if any(each.dtype != query.dtype or each.device != query.device for each in (key, value)):
        return False
    if query.dtype == torch.float32 and torch.is_autocast_enabled("npu"):
        return False  # autocast converts the arguments of scaled_dot_product_attention, but not those of the kernel
    batch, heads, tokens, size = query.shape
    shared = key.shape[1]
    if key.shape != value.shape or key.shape[0] != batch or key.shape[3] != size:
        return False
    if shared != heads and (not enable_gqa or shared == 0 or heads % shared):
        return False
    return (
        batch > 0
        and 0 < heads <= _MOST_HEADS
        and 0 < tokens <= _MOST_TOKENS
        and 0 < key.shape[2] <= _MOST_TOKENS
        and 0 < size <= _LARGEST_HEAD
    )


def _is_added(mask: Any, query: Any, key: Any) -> bool:
    import torch

    if type(mask) is not torch.Tensor or mask.dtype != query.dtype or mask.device != query.device or mask.requires_grad:
        return False
    full = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    padded = (1,) * (4 - mask.dim()) + tuple(mask.shape)
    return len(padded) == 4 and all(have in (1, want) for have, want in zip(padded, full)) and padded[3] == full[3]


def _attend(inputs: tuple[Any, Any, Any], mask: Any, scale: Optional[float], layout: str, patch: str) -> Any:
    import torch_npu

    query, key, value = inputs
    first, second = (1, 2) if layout == "BNSD" else (2, 1)
    heads, tokens = query.shape[first], query.shape[second]
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    if mask is None:
        result = torch_npu.npu_fusion_attention(query, key, value, heads, layout, scale=scale)[0]
        return once(result, patch, "; without a mask torch_npu itself calls such a kernel")
    padded = mask[(None,) * (4 - mask.dim())]
    # A block of keys whose numbers are all -inf has no maximum. So such pairs are masked, and what is added is finite.
    hidden = padded == -math.inf
    added = padded.masked_fill(hidden, 0).expand(query.shape[0], heads, -1, -1).contiguous()
    hidden = hidden.expand(query.shape[0], -1, tokens, -1).contiguous()
    result = torch_npu.npu_fusion_attention_v2(
        query,
        key,
        value,
        heads,
        layout,
        pse=added,
        pse_type=0,  # scale first, then add
        atten_mask=hidden,
        scale=scale,
        inner_precise=2,  # precise for rows in which all pairs are masked, says CANN's page
    )[0]
    return once(result, patch)


def with_every_row(
    original: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Any:
    """Call ``scaled_dot_product_attention`` with a row of the mask for each query, where the mask has one row for all.

    torch reads both in the same way. CANN's kernel wants every row: torch_npu 2.13 expands the mask itself, older
    releases do not. A mask that is added keeps its one row where the kernel takes it, see :func:`fused`.

    Args:
        original: the function that is called.
        query: the arguments of ``scaled_dot_product_attention``, as all that follow.
        key: see ``query``.
        value: see ``query``.
        attn_mask: see ``query``.
        dropout_p: see ``query``.
        is_causal: see ``query``.
        scale: see ``query``.
        enable_gqa: see ``query``.
    """
    one_row = attn_mask is not None and attn_mask.dim() == 4 and attn_mask.shape[2] == 1
    if (
        one_row
        and query.device.type == "npu"
        and not can_fuse(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    ):
        attn_mask = attn_mask.expand(-1, -1, query.shape[2], -1)
    return original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


_REQUIRES = [f"diffusers>=0.35,<{UP_TO}", "torch>=2.4"]

DISPATCHER = pc.Patch(
    "diffusers.attention.dispatcher",
    pc.Replace(
        "diffusers.models.attention_dispatch:_native_attention",
        "diffusers_npu.attention:dispatched",
        when_call=can_dispatch,
    ),
    summary="The default back end of the attention dispatcher: added masks fused, no copies for the layout",
    requires=_REQUIRES,
    needs=["torch_npu"],
    legacy_names=LEGACY_NAMES,
    checks=pc.Check("diffusers_npu.checks:dispatched", dtypes=TOLERANCES),
)


def _in_module(name: str) -> pc.Patch:
    module = f"diffusers.models.{name}"
    last = name.rpartition(".")[2]
    return pc.Patch(
        f"diffusers.attention.{last}",
        pc.Replace(
            f"{module}:F.scaled_dot_product_attention",
            "diffusers_npu.attention:fused",
            when_call=can_fuse,
            only_in=module,
        ),
        summary=f"Attention in {last}.py: added masks fused, no copies for the layout",
        requires=_REQUIRES,
        needs=["torch_npu", module],
        legacy_names=LEGACY_NAMES,
        checks=pc.Check(f"diffusers_npu.checks:{last}", dtypes=TOLERANCES),
    )


#: A patch for each module of diffusers that calls scaled_dot_product_attention itself and has calls that can be fused.
MODULES = tuple(
    _in_module(module)
    for module in (
        "attention_processor",
        "transformers.sana_transformer",
        "transformers.transformer_cogview4",
        "transformers.transformer_hidream_image",
        "transformers.transformer_lumina2",
    )
)
#: All that may have called :func:`fused`.
_NAMES = ",".join(patch.name for patch in MODULES)

MASK_ROWS = pc.Patch(
    "diffusers.attention.mask_rows",
    pc.Wrap(
        "diffusers.models.attention_processor:F.scaled_dot_product_attention",
        with_every_row,
        only_in="diffusers.models.attention_processor",
    ),
    summary="Attention in attention_processor.py: a mask with one row for all queries gets a row for each",
    requires=_REQUIRES,
    needs=["torch_npu"],
    after=["diffusers.attention.attention_processor"],
    legacy_names=["AttnProcessor2_0", "attn_processor_2_0", *LEGACY_NAMES],
    checks=pc.Check("diffusers_npu.checks:masked_by_truth_values", dtypes=TOLERANCES),
)
