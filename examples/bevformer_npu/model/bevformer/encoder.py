"""The encoder of BEVFormer: queries on a grid around the vehicle, which attend to time and to the cameras."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from bevformer.attention import SpatialCrossAttention, TemporalSelfAttention, cell_centres


class EncoderLayer(nn.Module):
    """Temporal self-attention, spatial cross-attention, and a feed-forward network, each with a norm after it.

    Args:
        channels, heads, levels, points: see :class:`bevformer.attention.CameraAttention`.
    """

    def __init__(self, channels: int, heads: int, levels: int, points: int) -> None:
        super().__init__()
        self.temporal = TemporalSelfAttention(channels, heads, points)
        self.spatial = SpatialCrossAttention(channels, heads, levels, points)
        self.feed_forward = nn.Sequential(
            nn.Linear(channels, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, channels)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))


class Encoder(nn.Module):
    """Turns the feature maps of the cameras into a BEV.

    Args:
        grid: rows and columns of the BEV.
        reach: the BEV spans from ``-reach`` to ``reach`` metres in x and y.
        heights: of the points on the pillar above each cell that are looked at, in metres.
        layers: number of layers.
        channels, heads, levels, points: see :class:`bevformer.attention.CameraAttention`.
    """

    def __init__(
        self,
        grid: tuple[int, int],
        reach: float,
        heights: tuple[float, ...],
        layers: int,
        channels: int,
        heads: int,
        levels: int,
        points: int,
    ) -> None:
        super().__init__()
        self.reach, self.heights = reach, heights
        self.layers = nn.ModuleList(EncoderLayer(channels, heads, levels, points) for _ in range(layers))
        self.query = nn.Parameter(0.1 * torch.randn(grid[0] * grid[1], channels))
        self.position = nn.Parameter(0.1 * torch.randn(grid[0] * grid[1], channels))
        self.register_buffer("grid", torch.tensor([grid]))

    def forward(
        self,
        maps: list[Tensor],
        projections: Tensor,
        size: tuple[int, int],
        before: Optional[Tensor],
        motion: Tensor,
    ) -> Tensor:
        """Return the BEV, (batch, cells, channels).

        Args:
            maps: for each level, (batch, cameras, channels, height, width).
            projections: from metres around the vehicle to pixels, (batch, cameras, 4, 4).
            size: height and width of the images in pixels.
            before: the BEV of the frame before, if any.
            motion: how far the vehicle has moved since, x and y in metres, (batch, 2).
        """
        features = torch.cat([level.flatten(3).transpose(2, 3) for level in maps], 2)
        spatial_shapes = torch.tensor([level.shape[3:] for level in maps], device=features.device)
        sizes = spatial_shapes.prod(1)
        level_start_index = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)[:-1]])
        references, visible = self.project(projections, size)
        shift = motion / (2 * self.reach)

        bev = self.query.expand(len(projections), -1, -1)
        for layer in self.layers:
            bev = layer.norms[0](layer.temporal(bev, self.position, before, shift, self.grid))
            bev = layer.spatial(bev, features, references, visible, spatial_shapes, level_start_index)
            bev = layer.norms[1](bev)
            bev = layer.norms[2](bev + layer.feed_forward(bev))
        return bev

    def project(self, projections: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Find where the pillars of the cells are in the images, and whether they are.

        Args:
            projections, size: see :meth:`forward`.

        Returns:
            x and y as fractions of the image, (batch, cameras, cells, heights, 2), and a boolean without the last axis.
        """
        ground = (2 * cell_centres(self.grid) - 1) * self.reach
        heights = torch.tensor(self.heights)
        cells, levels = len(ground), len(heights)
        pillars = torch.cat(
            [
                ground.view(cells, 1, 2).expand(-1, levels, -1),
                heights.view(1, levels, 1).expand(cells, -1, -1),
                torch.ones(cells, levels, 1),
            ],
            -1,
        )
        pixels = torch.einsum("bcij,qhj->bcqhi", projections, pillars.to(projections))
        depth = pixels[..., 2:3]
        height, width = size
        references = pixels[..., :2] / depth.clamp(min=1e-5) / pixels.new_tensor([width, height])
        inside = ((references > 0) & (references < 1)).all(-1)
        return references, inside & (depth.squeeze(-1) > 0.1)
