"""The model, as it was before."""

import torch
from mmcv.ops import ModulatedDeformConv2dPack


class Block(torch.nn.Module):
    """A deformable convolution with a shortcut."""

    def __init__(self):
        super().__init__()
        self.conv = ModulatedDeformConv2dPack(64, 64, kernel_size=3, padding=1)

    def forward(self, x):
        """Take and return (batch, 64, height, width)."""
        return torch.relu(self.conv(x) + x)
