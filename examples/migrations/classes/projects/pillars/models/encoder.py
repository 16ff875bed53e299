"""From points to a map of pillars."""

import keypoint_ext
import torch
from torch import nn
from torch_scatter import scatter_max, scatter_mean


def pillar_index(points, size):
    """Return the number of each point's pillar, shape (n, points), among those of all sweeps."""
    cells = ((points[..., :2] + 1) / 2 * size).long().clamp(0, size - 1)
    sweep = torch.arange(len(points), device=points.device)
    return (sweep[:, None] * size + cells[..., 1]) * size + cells[..., 0]


def normalize(features):
    """Return the features with mean 0 and deviation 1 over all points."""
    return (features - features.mean((0, 1))) / (features.std((0, 1)) + 1e-3)


class PillarEncoder(nn.Module):
    """Mean and maximum of what a layer makes of the points of each pillar.

    Args:
        size: pillars in both directions.
        channels: of the layer.
        keypoints: that the distance of each point is told to.
    """

    def __init__(self, size, channels=16, keypoints=8):
        super().__init__()
        self.size, self.keypoints = size, keypoints
        self.layer = nn.Sequential(nn.Linear(5, channels), nn.ReLU())

    def forward(self, points):
        """Return a map of shape (n, 2 * channels, size, size) for points of shape (n, points, 4)."""
        xyz = points[..., :3].contiguous()
        chosen = keypoint_ext.sample(xyz, self.keypoints).long()
        keypoints = xyz.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 3))
        nearest = torch.cdist(xyz, keypoints).min(-1, keepdim=True).values
        features = self.layer(normalize(torch.cat((points, nearest), dim=-1))).flatten(0, 1)
        index = pillar_index(points, self.size).flatten()
        pillars = len(points) * self.size**2
        mean = scatter_mean(features, index, dim=0, dim_size=pillars)
        largest, _ = scatter_max(features, index, dim=0, dim_size=pillars)
        pillars = torch.cat((mean, largest), dim=-1).view(len(points), self.size, self.size, -1)
        return pillars.permute(0, 3, 1, 2).contiguous()
