"""The function that mmdet reads panoptic masks with."""

from __future__ import annotations

from typing import Any


def rgb2id(color: Any) -> Any:
    """Return the id of each pixel: red + 256 * green + 65536 * blue."""
    color = color.astype("int32")
    return color[..., 0] + 256 * color[..., 1] + 65536 * color[..., 2]
