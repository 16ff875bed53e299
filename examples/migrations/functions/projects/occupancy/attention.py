"""Attention: among the cells of the grid by FlashAttention, and from these to the images of the cameras."""

import torch
from flash_attn.flash_attn_interface import flash_attn_func
from torch import nn

from projects.occupancy.ops.deformable_aggregation import aggregate


class FlashAttention(nn.Module):
    """Scaled dot products of heads; queries, keys and values of shape (n, length, heads, channels)."""

    def forward(self, query, key, value):
        if query.is_cuda:
            return flash_attn_func(query.half(), key.half(), value.half()).to(query.dtype)
        scores = torch.einsum("nqhc,nkhc->nhqk", query, key) * query.shape[-1] ** -0.5
        return torch.einsum("nhqk,nkhc->nqhc", scores.softmax(-1), value)


class FlashMHA(nn.Module):
    """Multi-head self-attention.

    Args:
        dims: channels, a multiple of ``heads``.
        heads: of attention.
    """

    def __init__(self, dims, heads):
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(dims, 3 * dims)
        self.inner_attention = FlashAttention()
        self.out_proj = nn.Linear(dims, dims)

    def forward(self, x):
        heads = (part.unflatten(-1, (self.heads, -1)) for part in self.in_proj(x).chunk(3, dim=-1))
        return self.out_proj(self.inner_attention(*heads).flatten(-2))


class CameraAttention(nn.Module):
    """Attention of cells to the places of the images that they are seen at, mean of the cameras that see them.

    Args:
        dims: channels, a multiple of ``heads``.
        heads: of attention.
        points: sampled around each place.
    """

    def __init__(self, dims, heads, points):
        super().__init__()
        self.heads, self.points = heads, points
        self.offsets = nn.Linear(dims, heads * points * 2)
        self.weights = nn.Linear(dims, heads * points)
        self.out_proj = nn.Linear(dims, dims)

    def forward(self, queries, features, cells, projection):
        """Return what the queries, shape (n, cells, dims), see in the features, shape (n, cameras, dims, h, w)."""
        shape = features.shape[-2:]
        seen_at, visible = self.project(cells, projection)
        offsets = self.offsets(queries).unflatten(-1, (self.heads, self.points, 2)) / 8
        weights = self.weights(queries).unflatten(-1, (self.heads, self.points)).softmax(-1)
        collected = torch.zeros_like(queries)
        for camera in range(features.shape[1]):
            value = features[:, camera].flatten(2).transpose(1, 2).unflatten(-1, (self.heads, -1))
            places = seen_at[:, camera, :, None, None] + offsets
            mask = visible[:, camera]
            collected[mask] += aggregate(value, tuple(shape), places, weights)[mask]
        return self.out_proj(collected / visible.sum(1).clamp(min=1).unsqueeze(-1))

    @staticmethod
    def project(cells, projection):
        """Return where the cells, shape (cells, 3), are in the images, and whether they are there."""
        places = torch.matmul(projection[:, :, None], cells[None, None, :, :, None]).squeeze(-1)[..., :2]
        return places, ((places > 0) & (places < 1)).all(-1)
