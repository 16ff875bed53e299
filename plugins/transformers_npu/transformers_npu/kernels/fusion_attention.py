"""The limits of ``torch_npu.npu_fusion_attention`` (op-plugin, ``docs/context/torch_npu-npu_fusion_attention.md``)."""

from __future__ import annotations

from typing import Any

__all__ = ["WITH_MASKED_ROWS", "shapes_fit"]

#: Of ``inner_precise``: also computes rows of which every key is masked, as in a batch that is padded on the left.
WITH_MASKED_ROWS = 2
LONGEST_HEAD = 768
MOST_HEADS = 256
LONGEST_SEQUENCE = 1 << 20


def shapes_fit(module: Any, query: Any, key: Any, value: Any) -> bool:
    """Return whether the kernel takes tensors of these shapes.

    Args:
        module: the attention layer; its ``num_key_value_groups``, default 1, is the number of queries' heads for each
            head of the keys.
        query: batch, heads, positions, size of a head.
        key: as the query, with as many heads or fewer.
        value: of the shape of the key; its heads may have fewer numbers, where zeros are put behind them.
    """
    if not (query.dim() == key.dim() == value.dim() == 4 and key.shape[:3] == value.shape[:3]):
        return False
    batch, heads, positions, size = query.shape
    groups = getattr(module, "num_key_value_groups", 1)
    return bool(
        query.numel()
        and key.numel()
        and key.shape[0] == batch
        and key.shape[3] == size <= LONGEST_HEAD
        and 0 < value.shape[3] <= size
        and key.shape[1] * groups == heads <= MOST_HEADS
        and max(positions, key.shape[2]) <= LONGEST_SEQUENCE
    )
