"""Attention with sinks, ``torch_npu.npu_fusion_attention``: each head has a learned score that no value belongs to.

``weights = softmax([scale * q k + mask, sink])`` without the last column. Models that have sinks compute this in a
function of their modules. Their mask has numbers, which are 0 or the lowest one; the kernel gets truth values.

The kernel does not return the weights. So a layer whose forward is hooked or replaced, as transformers does where a
program asks for ``output_attentions``, goes to the original.
"""

from __future__ import annotations

import functools
from typing import Any

from transformers_npu.kernels.calls import alike, computed_in, once
from transformers_npu.kernels.fusion_attention import WITH_MASKED_ROWS, shapes_fit

__all__ = ["attention_with_sinks", "takes_attention_with_sinks"]

#: By mask: its version, and where it hides a pair; None for a mask with other numbers. All layers get the same masks.
_hidden_pairs: Any = None


def attention_with_sinks(
    module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, dropout: float
) -> tuple[Any, None]:
    """Return the result, (batch, positions, heads, size), and ``None`` in the place of the weights.

    Args:
        module: the layer, with ``sinks``, one number for each head.
        query: (batch, heads, positions, size).
        key: (batch, heads of keys, keys, size).
        value: of the shape of the key.
        mask: (batch or 1, 1, positions, keys), 0 or the lowest number; ``None`` for none.
        scaling: the factor of the scores.
        dropout: 0 in training.
    """
    import torch_npu

    options: dict[str, Any] = {"scale": scaling, "sink": module.sinks.float()}
    if mask is not None:
        hidden = _hidden(mask).expand(mask.shape[0], 1, query.shape[2], key.shape[2]).contiguous()
        options.update(atten_mask=hidden, inner_precise=WITH_MASKED_ROWS)
    inputs = [each.to(computed_in(each)).contiguous() for each in (query, key, value)]
    result = torch_npu.npu_fusion_attention(*inputs, query.shape[1], "BNSD", **options)[0]
    return once(result.transpose(1, 2).contiguous(), "transformers.sinks"), None


def takes_attention_with_sinks(
    module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: Any, dropout: Any
) -> bool:
    """Return True for a call that :func:`attention_with_sinks` computes; the same arguments."""
    if not _fit(query, key, value, module.sinks) or not _has_sinks():
        return False
    if getattr(module, "_forward_hooks", None) or "forward" in vars(module) or (dropout and module.training):
        return False
    return bool(
        type(scaling) is float
        and shapes_fit(module, query, key, value)
        and key.shape == value.shape
        and module.sinks.shape == (query.shape[1],)
        and (mask is None or _mask_fits(mask, query, key))
    )


def _fit(first: Any, *others: Any) -> bool:
    """Return :func:`alike`; under autocast types may differ: rotated queries are float32, and matmul casts them."""
    import torch

    if not torch.is_autocast_enabled("npu"):
        return alike(first, *others)
    one_device = all(each.device == first.device for each in others)
    half = computed_in(first) in (torch.float16, torch.bfloat16)
    return one_device and half and all(alike(each) for each in (first, *others))


@functools.lru_cache(maxsize=1)
def _has_sinks() -> bool:
    """Return whether the kernel of the installed torch_npu has the argument."""
    import torch

    operator = getattr(torch.ops.npu, "npu_fusion_attention", None)
    return operator is not None and any(each.name == "sink" for each in operator.default._schema.arguments)


def _mask_fits(mask: Any, query: Any, key: Any) -> bool:
    return bool(
        _fit(query, mask)
        and not mask.requires_grad
        and mask.dim() == 4
        and mask.shape[0] in (1, query.shape[0])
        and mask.shape[1:] == (1, query.shape[2], key.shape[2])
        and _hidden(mask) is not None
    )


def _hidden(mask: Any) -> Any:
    """Return where a mask hides a pair, ``None`` if it has numbers other than 0 and the lowest one.

    Reading whether it has waits for the device, once for a mask that all layers share.
    """
    global _hidden_pairs
    from torch.utils.weak import WeakTensorKeyDictionary

    if mask.is_inference():
        return _read(mask)
    if _hidden_pairs is None:
        _hidden_pairs = WeakTensorKeyDictionary()
    found = _hidden_pairs.get(mask)
    if found is None or found[0] != mask._version:
        found = _hidden_pairs[mask] = (mask._version, _read(mask))
    return found[1]


def _read(mask: Any) -> Any:
    import torch

    hidden = mask <= torch.finfo(mask.dtype).min
    return hidden if bool((hidden | (mask == 0)).all()) else None
