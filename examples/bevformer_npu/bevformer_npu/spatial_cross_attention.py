"""The cross-attention of BEVFormer without loops over samples and cameras.

A camera sees a part of the queries only. The model looks up which with ``nonzero`` for each camera of each sample, and
copies them to and fro in Python: every ``nonzero`` makes the host wait for the device, every copy is a kernel launch.
Here the same batches are made for all cameras at once, and the host waits once, for the length of the longest.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc


def on_npu(self: Any, query: Any, *arguments: Any, **keywords: Any) -> bool:
    """Tell whether the queries are on an NPU: elsewhere the model's own loop stays."""
    return query.device.type == "npu"


def forward(
    self: Any,
    query: Any,
    features: Any,
    references: Any,
    visible: Any,
    spatial_shapes: Any,
    level_start_index: Any,
) -> Any:
    """Replace ``SpatialCrossAttention.forward``: the queries with what the cameras see added.

    Args:
        self: the module.
        query: (batch, queries, channels).
        features: the feature maps of all levels, flattened, (batch, cameras, keys, channels).
        references: the queries' pillars in each image, (batch, cameras, queries, heights, 2).
        visible: which of these points lie in the image, boolean of shape (batch, cameras, queries, heights).
        spatial_shapes: height and width of each level, (levels, 2).
        level_start_index: index of each level's first key, (levels,).

    Returns:
        (batch, queries, channels).
    """
    batch, cameras, queries, heights, _ = references.shape
    channels = query.shape[-1]
    seen = visible.any(-1)
    index, taken = compact(seen)
    longest = index.shape[-1]

    of_camera = query.unsqueeze(1).expand(-1, cameras, -1, -1).gather(2, _widened(index, channels))
    points = references.flatten(3).gather(2, _widened(index, 2 * heights))
    found = self.camera_attention(
        (of_camera * taken.unsqueeze(-1)).flatten(0, 1),
        features.flatten(0, 1),
        (points * taken.unsqueeze(-1)).view(batch * cameras, longest, heights, 2),
        spatial_shapes,
        level_start_index,
    )
    found = found.view(batch, cameras * longest, channels) * taken.view(batch, -1, 1)
    total = query.new_zeros(batch, queries, channels)
    total = total.scatter_add(1, _widened(index.flatten(1), channels), found)
    cameras_per_query = seen.sum(1).clamp(min=1)
    return query + self.output(total / cameras_per_query.unsqueeze(-1))


def compact(chosen: Any) -> tuple[Any, Any]:
    """Return where the true entries are along the last axis, in order, padded to the length of the longest.

    Args:
        chosen: boolean of shape (..., n).

    Returns:
        Indices of shape (..., longest), 0 where there are no more, and whether an index is of a true entry, boolean of
        the same shape; ``longest`` is 1 at least. This is the one place where the host waits for the device.
    """
    import torch

    count = chosen.sum(-1, keepdim=True)
    longest = max(1, int(count.max()))
    # Entry by entry, its place among the chosen ones; those that are not chosen go to one place behind the last.
    place = (chosen.cumsum(-1) - 1).masked_fill(~chosen, longest)
    order = torch.arange(chosen.shape[-1], device=chosen.device).expand_as(place)
    index = order.new_zeros(*chosen.shape[:-1], longest + 1).scatter(-1, place, order)[..., :longest]
    return index, torch.arange(longest, device=chosen.device) < count


def _widened(index: Any, channels: int) -> Any:
    return index.unsqueeze(-1).expand(*index.shape, channels)


SPATIAL_CROSS_ATTENTION = pc.Patch(
    "bevformer.spatial_cross_attention",
    [pc.Replace("bevformer.attention:SpatialCrossAttention.forward", forward, when_call=on_npu)],
    summary="the queries of all cameras batched at once, with one wait for the device",
    requires=["torch>=1.8"],
    # without it, torch has no device to choose by
    needs=["torch_npu"],
    checks=[
        pc.Check("bevformer_npu.checks:spatial_cross_attention", dtypes={"float32": 1e-5}),
        pc.Check("bevformer_npu.checks:nothing_visible", dtypes={"float32": 1e-5}),
    ],
)
