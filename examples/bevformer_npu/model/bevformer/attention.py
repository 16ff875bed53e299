"""The two attentions of BEVFormer: to the cameras, and to the BEV of the frame before (paper, sections 3.3 and 3.4)."""

from __future__ import annotations

import math
from typing import Optional

import torch
from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction, multi_scale_deformable_attn_pytorch
from torch import Tensor, nn

from bevformer.deformable import deformable_attention


def spread_offsets(heads: int, others: int, points: int) -> Tensor:
    """Return sampling offsets to start from: each head looks in a direction of its own, each point further away.

    Args:
        heads: directions, spread around the circle and none of them along an axis: there, samples would lie on the
            borders between pixels, where the derivative of the interpolation jumps.
        others: how often to repeat them, for levels or frames.
        points: samples of each, 0.6 pixels apart.

    Returns:
        x and y in pixels, flattened from (heads, others, points, 2).
    """
    angles = 2 * math.pi * (torch.arange(heads) + 0.3) / heads
    directions = torch.stack([angles.cos(), angles.sin()], -1).view(heads, 1, 1, 2)
    distances = 0.6 * torch.arange(1, points + 1).view(1, 1, points, 1)
    return (directions * distances).expand(heads, others, points, 2).reshape(-1)


class CameraAttention(nn.Module):
    """Deformable attention of the queries that a camera sees to the feature maps of that camera.

    Args:
        channels: of queries and feature maps.
        heads: into which the channels are divided.
        levels: feature maps of each image.
        points: samples of each head and level; a multiple of the number of heights.
    """

    def __init__(self, channels: int, heads: int, levels: int, points: int) -> None:
        super().__init__()
        self.heads, self.levels, self.points = heads, levels, points
        self.offsets = nn.Linear(channels, heads * levels * points * 2)
        self.weights = nn.Linear(channels, heads * levels * points)
        self.value = nn.Linear(channels, channels)
        nn.init.zeros_(self.offsets.weight)
        self.offsets.bias.data = spread_offsets(heads, levels, points)

    def forward(
        self, query: Tensor, keys: Tensor, references: Tensor, spatial_shapes: Tensor, level_start_index: Tensor
    ) -> Tensor:
        """Return what each query finds around its reference points.

        Args:
            query: (batch, queries, channels).
            keys: the feature maps of all levels, flattened, (batch, keys, channels).
            references: x and y of the query's pillar at some heights, as fractions of the image,
                (batch, queries, heights, 2).
            spatial_shapes: height and width of each level, (levels, 2).
            level_start_index: index of each level's first key, (levels,).

        Returns:
            (batch, queries, channels).
        """
        batch, queries, _ = query.shape
        heights = references.shape[2]
        shape = (batch, queries, self.heads, self.levels, self.points)
        value = self.value(keys).view(batch, keys.shape[1], self.heads, -1)
        weights = self.weights(query).view(*shape[:3], -1).softmax(-1).view(shape)
        offsets = self.offsets(query).view(*shape[:4], self.points // heights, heights, 2)
        offsets = offsets / spatial_shapes.flip(-1).view(1, 1, 1, self.levels, 1, 1, 2)
        locations = (references.view(batch, queries, 1, 1, 1, heights, 2) + offsets).view(*shape, 2)
        return deformable_attention(value, spatial_shapes, level_start_index, locations, weights)


class SpatialCrossAttention(nn.Module):
    """Attention of BEV queries to the cameras that see them.

    Args:
        channels, heads, levels, points: see :class:`CameraAttention`.
    """

    def __init__(self, channels: int, heads: int, levels: int, points: int) -> None:
        super().__init__()
        self.camera_attention = CameraAttention(channels, heads, levels, points)
        self.output = nn.Linear(channels, channels)

    def forward(
        self,
        query: Tensor,
        features: Tensor,
        references: Tensor,
        visible: Tensor,
        spatial_shapes: Tensor,
        level_start_index: Tensor,
    ) -> Tensor:
        """Return the queries with what the cameras see added: the mean over the cameras that see a query.

        A camera sees a part of the queries only, so each gets a batch of those that it sees, as long as the longest.

        Args:
            query: (batch, queries, channels).
            features: the feature maps of all levels, flattened, (batch, cameras, keys, channels).
            references: the queries' pillars in each image, (batch, cameras, queries, heights, 2).
            visible: which of these points lie in the image, boolean of shape (batch, cameras, queries, heights).
            spatial_shapes: height and width of each level, (levels, 2).
            level_start_index: index of each level's first key, (levels,).

        Returns:
            (batch, queries, channels).
        """
        batch, cameras, keys, channels = features.shape
        heights = references.shape[3]
        seen = [[of_camera.any(-1).nonzero().squeeze(-1) for of_camera in of_sample] for of_sample in visible]
        longest = max(1, max(len(index) for of_sample in seen for index in of_sample))

        queries = query.new_zeros(batch, cameras, longest, channels)
        points = references.new_zeros(batch, cameras, longest, heights, 2)
        for sample in range(batch):
            for camera, index in enumerate(seen[sample]):
                queries[sample, camera, : len(index)] = query[sample, index]
                points[sample, camera, : len(index)] = references[sample, camera, index]

        found = self.camera_attention(
            queries.view(batch * cameras, longest, channels),
            features.reshape(batch * cameras, keys, channels),
            points.view(batch * cameras, longest, heights, 2),
            spatial_shapes,
            level_start_index,
        ).view(batch, cameras, longest, channels)

        total = torch.zeros_like(query)
        for sample in range(batch):
            for camera, index in enumerate(seen[sample]):
                total[sample, index] += found[sample, camera, : len(index)]
        cameras_per_query = visible.any(-1).sum(1).clamp(min=1)
        return query + self.output(total / cameras_per_query.unsqueeze(-1))


class TemporalSelfAttention(nn.Module):
    """Deformable attention of BEV queries to the BEV of the frame before and to each other.

    Args:
        channels: of the queries.
        heads: into which the channels are divided.
        points: samples of each head and frame.
    """

    FRAMES = 2

    def __init__(self, channels: int, heads: int, points: int) -> None:
        super().__init__()
        self.heads, self.points = heads, points
        self.offsets = nn.Linear(self.FRAMES * channels, heads * self.FRAMES * points * 2)
        self.weights = nn.Linear(self.FRAMES * channels, heads * self.FRAMES * points)
        self.value = nn.Linear(channels, channels)
        self.output = nn.Linear(channels, channels)
        nn.init.zeros_(self.offsets.weight)
        self.offsets.bias.data = spread_offsets(heads, self.FRAMES, points)

    def forward(self, query: Tensor, position: Tensor, before: Optional[Tensor], shift: Tensor, grid: Tensor) -> Tensor:
        """Return the queries with what is found in the two frames added.

        Args:
            query: (batch, queries, channels), one for each cell of the grid, row by row.
            position: embedding of the cells' positions, (queries, channels).
            before: the BEV of the frame before, of the query's shape; without one, the queries take its place.
            shift: by which fraction of the grid the frame before is displaced in x and y, (batch, 2).
            grid: number of rows and columns, integers of shape (1, 2).

        Returns:
            (batch, queries, channels).
        """
        batch, queries, _ = query.shape
        if before is None:
            before, shift = query, torch.zeros_like(shift)
        references = cell_centres(grid).to(query) + shift.view(batch, 1, 2)
        references = torch.stack([references, references - shift.view(batch, 1, 2)], 1)

        frames = (batch, queries, self.heads, self.FRAMES, self.points)
        both = torch.cat([before, query + position], -1)
        offsets = self.offsets(both).view(*frames, 2) / grid.flip(-1)
        weights = self.weights(both).view(frames).softmax(-1)
        value = self.value(torch.stack([before, query], 1)).view(batch * self.FRAMES, queries, self.heads, -1)
        locations = references.view(batch, self.FRAMES, queries, 1, 1, 2) + offsets.permute(0, 3, 1, 2, 4, 5)
        locations = locations.flatten(0, 1).unsqueeze(3)
        weights = weights.permute(0, 3, 1, 2, 4).flatten(0, 1).unsqueeze(3)
        start = grid.new_zeros(1)
        if torch.cuda.is_available() and value.is_cuda:
            found = MultiScaleDeformableAttnFunction.apply(value, grid, start, locations, weights.contiguous(), 64)
        else:
            found = multi_scale_deformable_attn_pytorch(value, grid, locations, weights)
        return query + self.output(found.view(batch, self.FRAMES, queries, -1).mean(1))


def cell_centres(grid: Tensor) -> Tensor:
    """Return the centres of the cells of a grid, row by row, as fractions of its width and height: (cells, 2).

    Args:
        grid: number of rows and columns, (1, 2).
    """
    rows, columns = grid[0].tolist()
    y, x = torch.meshgrid(torch.arange(rows) + 0.5, torch.arange(columns) + 0.5, indexing="ij")
    return torch.stack([x.flatten() / columns, y.flatten() / rows], -1)
