"""Attention in one kernel, ``torch_npu.npu_fusion_attention``, for calls that transformers sends through its interface.

The limits of the kernel are those of its public page (op-plugin, ``docs/context/torch_npu-npu_fusion_attention.md``):
float16, bfloat16 and float32, one data type for all inputs, keys and values of one shape, up to 256 heads, which the
heads of the keys divide, heads of up to 768 numbers, masks of bool with ``True`` where a pair does not count. Values
that are narrower than keys, as in DeepSeek's attention, get zeros behind them. A call that is outside of the limits
goes to the function that was registered before.

Nothing here imports torch when the plugin is listed.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Optional

from transformers_npu.kernels.calls import computed_in, is_traced, once
from transformers_npu.kernels.fusion_attention import WITH_MASKED_ROWS, shapes_fit

#: The side of the causal mask that the kernel expects for ``sparse_mode`` 2, whatever the lengths are.
COMPRESSED = 2048
LEFT_UP_CAUSAL = 2
#: What ``sdpa_attention_forward`` reads from its keyword arguments without a parameter of that name.
READ_BY_SDPA = frozenset({"head_mask", "output_attentions", "softcap"})
#: Sinks are no argument of sdpa; a model that passes them computes its own attention.
SINKS = "s_aux"

_causal_masks: dict[Any, Any] = {}


def fits(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    is_causal: Optional[bool] = None,
    position_bias: Any = None,
    **kwargs: Any,
) -> bool:
    """Return whether the kernel computes exactly the attention that sdpa's function of transformers is defined to.

    Args:
        module: the attention layer.
        query: batch, heads, positions, size of a head.
        key: as the query, with as many heads or fewer.
        value: of the shape of the key; its heads may have fewer numbers.
        attention_mask: ``None``, bool with ``True`` where a pair counts, or numbers that are added to the scores.
        dropout: the probability of dropping a weight, from 0 to 1.
        scaling: the factor of the scores; default ``1 / sqrt(size of a head)``.
        is_causal: as in ``sdpa_attention_forward``.
        position_bias: numbers that are added to the scores (transformers 5.20 and later).
        kwargs: what else the model passes. Where sdpa reads it, the call is left to sdpa.
    """
    import torch

    tensors = (query, key, value)
    if not all(type(tensor) is torch.Tensor and tensor.device.type == "npu" for tensor in tensors):
        return False
    if is_traced():
        return False
    if any(given is not None and given is not False and _matters(name) for name, given in kwargs.items()):
        return False
    # transformers 4 passes True on to torch, which lets the only query see one key
    if is_causal and query.shape[2] == 1 < key.shape[2] and _release() < (5,):
        return False
    kinds = {torch.float16, torch.bfloat16, torch.float32}
    dtype = computed_in(query)
    if dtype not in kinds or any(tensor.dtype not in kinds for tensor in tensors):
        return False
    if any(computed_in(tensor) != dtype or tensor.device != query.device for tensor in tensors):
        return False
    return (
        shapes_fit(module, query, key, value)
        and 0 <= dropout < 1
        and _mask_fits(attention_mask, query, key, dtype)
        and _bias_fits(position_bias, query, key, dtype)
    )


def fusion_attention_forward(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    is_causal: Optional[bool] = None,
    position_bias: Any = None,
    **kwargs: Any,
) -> tuple[Any, None]:
    """Compute attention in one kernel; for a call that :func:`fits`.

    Keys and values keep their own number of heads. Numbers that are added to the scores are added as they are:
    ``sdpa_attention_forward`` of transformers turns them into bools on an NPU, which is another result unless all of
    them are 0 or the lowest number.

    Args:
        module: see :func:`fits`, as for all arguments.
        query: as above.
        key: as above.
        value: as above.
        attention_mask: as above.
        dropout: as above.
        scaling: as above.
        is_causal: as above.
        position_bias: as above.
        kwargs: not used.

    Returns:
        The result, of batch, positions, heads and size of a head; and ``None`` in the place of the weights.
    """
    import torch
    import torch_npu

    dtype = computed_in(query)
    query, key, value = (tensor.to(dtype) for tensor in (query, key, value))
    size, width = key.shape[3], value.shape[3]
    if width < size:  # the latent attention of DeepSeek: zeros behind each value are zeros behind each result
        value = torch.nn.functional.pad(value, (0, size - width))
    positions, keys = query.shape[2], key.shape[2]
    causal = is_causal if is_causal is not None else not reads_is_causal() or getattr(module, "is_causal", True)
    causal = bool(causal) and positions > 1 and attention_mask is None
    if causal and keys > positions:  # an empty static cache: the rest of it is behind every position
        key, value = key[:, :, :positions], value[:, :, :positions]
        position_bias = None if position_bias is None else position_bias[..., :positions]
    options: dict[str, Any] = {"scale": 1 / math.sqrt(query.shape[-1]) if scaling is None else scaling}
    if causal:
        options.update(atten_mask=causal_mask(query.device), sparse_mode=LEFT_UP_CAUSAL)
    elif attention_mask is not None and attention_mask.dtype == torch.bool:
        options.update(atten_mask=_excluded(attention_mask, query.shape), inner_precise=WITH_MASKED_ROWS)
    added = position_bias
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        added = attention_mask if added is None else added + attention_mask
    if dropout:
        options["keep_prob"] = 1 - dropout
    heads = query.shape[1]
    if added is None:
        result = torch_npu.npu_fusion_attention(query, key, value, heads, "BNSD", **options)[0]
    else:
        # pse_type 0 adds behind the scale; the kernel's page allows one batch for all, and needs every head. A row of
        # minus infinities would have no maximum to subtract.
        shape = (added.shape[0], heads, positions, key.shape[2])
        added = added.to(dtype).clamp(min=torch.finfo(dtype).min).expand(shape).contiguous()
        options.update(pse=added, pse_type=0)
        result = torch_npu.npu_fusion_attention_v2(query, key, value, heads, "BNSD", **options)[0]
    return once(result[..., :width].transpose(1, 2).contiguous(), "transformers.attention"), None


def npu_fusion_attention_forward(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, **kwargs: Any
) -> tuple[Any, Any]:
    """Compute attention for ``attn_implementation="npu_fusion"``: in one kernel if it fits, else as sdpa does.

    Args:
        module: the attention layer.
        query: see :func:`fits`, as for all other arguments.
        key: as above.
        value: as above.
        attention_mask: as above.
        kwargs: as above.

    Raises:
        ValueError: the model adds sinks to its scores (``s_aux``), which neither of the two computes.
    """
    if kwargs.get(SINKS) is not None:
        raise ValueError(
            f"{type(module).__name__} has attention sinks (s_aux), and attn_implementation='npu_fusion' has none; use "
            "attn_implementation='eager'"
        )
    if fits(module, query, key, value, attention_mask, **kwargs):
        return fusion_attention_forward(module, query, key, value, attention_mask, **kwargs)
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    result: tuple[Any, Any] = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    return result


def _matters(name: str) -> bool:
    """Return whether sdpa's function of the installed transformers reads the keyword argument ``name``."""
    return name == SINKS or name in READ_BY_SDPA or name in _parameters_of_sdpa()


@functools.cache
def _parameters_of_sdpa() -> frozenset[str]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    code = sdpa_attention_forward.__code__
    return frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def reads_is_causal() -> bool:
    """Return whether sdpa of this transformers reads ``is_causal`` of the layer if the call has none: from 4.53 on."""
    return _release() >= (4, 53)


@functools.cache
def _release() -> tuple[int, ...]:
    """Return the major and minor version of transformers."""
    import transformers

    return tuple(int(part) for part in transformers.__version__.split(".")[:2])


def _mask_fits(mask: Any, query: Any, key: Any, dtype: Any) -> bool:
    import torch

    if mask is None:
        return True
    if type(mask) is not torch.Tensor or mask.device != query.device or mask.requires_grad:
        return False
    return (mask.dtype == torch.bool or computed_in(mask) == dtype) and _spans(mask, query, key)


def _bias_fits(bias: Any, query: Any, key: Any, dtype: Any) -> bool:
    """Return whether the kernel can add ``bias``; it has no gradient for it."""
    import torch

    if bias is None:
        return True
    if type(bias) is not torch.Tensor or bias.device != query.device or computed_in(bias) != dtype:
        return False
    return _spans(bias, query, key) and not (bias.requires_grad and torch.is_grad_enabled())


def _spans(mask: Any, query: Any, key: Any) -> bool:
    batch, heads, positions, _ = query.shape
    return bool(
        mask.dim() == 4
        and mask.shape[0] in (1, batch)
        and mask.shape[1] in (1, heads)
        and mask.shape[2] in (1, positions)
        and mask.shape[3] == key.shape[2]
    )


def _excluded(mask: Any, shape: Any) -> Any:
    """Return the mask of the kernel: ``True`` where a pair does not count, in one of its shapes BNSS, B1SS and 11SS."""
    batch, _heads, positions, _ = shape
    rows = (mask.shape[0] if mask.shape[1] == 1 else batch, mask.shape[1], positions, mask.shape[3])
    return mask.logical_not().expand(rows).contiguous()


def causal_mask(device: Any) -> Any:
    """Return the compressed causal mask on ``device``, made once: also outside of inference, whichever comes first."""
    import torch

    if device not in _causal_masks:
        with torch.inference_mode(False):
            ones = torch.ones(COMPRESSED, COMPRESSED, dtype=torch.bool, device=device)
            _causal_masks[device] = ones.triu(1)
    return _causal_masks[device]
