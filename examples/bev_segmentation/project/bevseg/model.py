"""Lift, splat, segment.

In structure that of Philion and Fidler, "Lift, Splat, Shoot" (ECCV 2020, arXiv:2008.05711), small and written anew:
each pixel gets a distribution over depths, its features are spread along its ray, and summed up in the cells of a grid.
"""

import torch
from camgeo import pool_cells, unproject
from mmcv.ops import ModulatedDeformConv2dPack
from torch import nn

from bevseg.data import CELL, CELLS, HEIGHT, WIDTH

STRIDE = 4
DEPTHS = (2.0, 5.0, 8.0, 11.0, 14.0, 17.0)  # metres


class BEVSegmenter(nn.Module):
    """Says which cells of the ground are occupied.

    Args:
        channels: of what is summed up in the cells.
    """

    def __init__(self, channels=16):
        super().__init__()
        self.channels = channels
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 64, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            ModulatedDeformConv2dPack(64, 64, 3, stride=2, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, len(DEPTHS) + channels, 1),
        )
        self.head = nn.Sequential(
            nn.Conv2d(channels, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, 1, 1),
        )
        y = (torch.arange(HEIGHT // STRIDE) + 0.5) * STRIDE
        x = (torch.arange(WIDTH // STRIDE) + 0.5) * STRIDE
        depth, row, column = torch.meshgrid(torch.tensor(DEPTHS), y, x, indexing="ij")
        self.register_buffer("pixels", torch.stack([column, row], dim=-1).flatten(0, 2), persistent=False)
        self.register_buffer("depths", depth.flatten(), persistent=False)

    def forward(self, images, intrinsics, poses):
        """Return the logit of each cell, (batch, CELLS, CELLS).

        Args:
            images: (batch, cameras, 3, HEIGHT, WIDTH).
            intrinsics: (cameras, 3, 3).
            poses: from the cameras' frames to the car's, (cameras, 4, 4).
        """
        batch = len(images)
        encoded = self.encoder(images.flatten(0, 1)).float()
        depth, features = encoded.split([len(DEPTHS), self.channels], dim=1)
        lifted = depth.softmax(1).unsqueeze(2) * features.unsqueeze(1)
        lifted = lifted.permute(0, 1, 3, 4, 2).reshape(batch, -1, self.channels)

        points = unproject(self.pixels, self.depths, intrinsics, poses).flatten(0, 1)
        cells = (points[:, :2] / CELL + CELLS / 2).floor().long()
        inside = ((cells >= 0) & (cells < CELLS)).all(-1)
        index = (cells[:, 0] * CELLS + cells[:, 1])[inside]
        index = (index + CELLS**2 * torch.arange(batch, device=images.device)[:, None]).flatten()
        grid = pool_cells(lifted[:, inside].flatten(0, 1), index, batch * CELLS**2)
        grid = grid.view(batch, CELLS, CELLS, self.channels).permute(0, 3, 1, 2)
        return self.head(grid).squeeze(1)
