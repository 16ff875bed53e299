"""Sparse tensors (mx-driving 26.2, ``mx_driving/modules/sparse_structure.py``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from npu_emulator.mx_driving._rulebook import Rulebook


class IndiceData(NamedTuple):
    """The result of a layer under its ``indice_key``, for the layers after it.

    Args:
        origin_spatial_shape: spatial shape of the layer's input.
        origin_indices: indices of the layer's input.
        kernel_size: of the layer.
        rulebook: of the layer.
        is_subm: whether the layer was a submanifold convolution.
    """

    origin_spatial_shape: Sequence[int]
    origin_indices: Tensor
    kernel_size: Sequence[int]
    rulebook: Rulebook
    is_subm: bool


class SparseConvTensor:
    """Features at some places of a grid; everywhere else is zero.

    Args:
        features: shape (n, c).
        indices: (image, and position along three axes) of each feature, int32 of shape (n, 4). Other dtypes are kept,
            as in mx_driving, and refused by the convolutions.
        spatial_shape: size of the grid along the three axes.
        batch_size: number of images.
        grid: kept, not used, as in mx_driving.

    Attributes:
        indice_dict: the data that layers with an ``indice_key`` have stored, by key.
    """

    def __init__(
        self,
        features: Tensor,
        indices: Tensor,
        spatial_shape: Sequence[int],
        batch_size: int,
        grid: Optional[Tensor] = None,
    ) -> None:
        self.features = features
        self.indices = indices
        self.spatial_shape = spatial_shape
        self.batch_size = batch_size
        self.indice_dict: dict[str, Any] = {}
        self.grid = grid

    @property
    def spatial_size(self) -> int:
        """Number of places in the grid of one image."""
        return math.prod(self.spatial_shape)

    @property
    def sparity(self) -> float:
        """Share of the places that have a feature. Spelt as in mx_driving and mmcv."""
        return self.indices.shape[0] / self.spatial_size / self.batch_size

    def find_indice_pair(self, key: Optional[str]) -> Optional[IndiceData]:
        """Return the data that a layer has stored under a key, or ``None``."""
        return None if key is None else self.indice_dict.get(key)

    def dense(self, channels_first: bool = True) -> Tensor:
        """Return the features on the whole grid.

        Args:
            channels_first: shape (batch, c, x, y, z), else (batch, x, y, z, c), for a grid of three axes.
        """
        shape = (self.batch_size, *self.spatial_shape, self.features.shape[1])
        places = tuple(self.indices.long().unbind(dim=1))
        grid = torch.zeros(shape, dtype=self.features.dtype, device=self.features.device)
        grid = grid.index_put(places, self.features)
        return grid.movedim(-1, 1).contiguous() if channels_first else grid
