"""The model: cameras to feature maps, feature maps to a BEV, the BEV to a map of objects."""

from __future__ import annotations

from typing import Any, Optional

import torch
from mmdet.models.backbones.resnet import Bottleneck, ResNet
from torch import Tensor, nn
from torch.nn import functional

from bevformer.encoder import Encoder


class BEVFormer(nn.Module):
    """Finds objects around a vehicle in the images of its cameras, with memory of the frame before.

    The backbone is mmdet's ResNet-50, thin, with deformable convolution in its third stage and a frozen stem.

    Args:
        classes: number of classes.
        grid: rows and columns of the BEV.
        reach: the BEV spans from ``-reach`` to ``reach`` metres in x and y.
        channels: of the BEV.
        heads: of the attentions.
    """

    def __init__(self, classes: int, grid: tuple[int, int], reach: float, channels: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.grid = grid
        self.backbone = ResNet(
            depth=50,
            base_channels=16,
            num_stages=3,
            strides=(1, 2, 2),
            dilations=(1, 1, 1),
            out_indices=(1, 2),
            frozen_stages=0,
            dcn={"type": "DCN", "deform_groups": 1, "fallback_on_stride": False},
            stage_with_dcn=(False, False, True),
        )
        _initialise(self.backbone)
        self.laterals = nn.ModuleList(nn.Conv2d(inputs, channels, 1) for inputs in (128, 256))
        self.encoder = Encoder(
            grid, reach, heights=(0.5, 1.5), layers=2, channels=channels, heads=heads, levels=2, points=4
        )
        self.head = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(), nn.Conv2d(channels, classes + 2, 1)
        )

    def encode(self, images: Tensor, projections: Tensor, before: Optional[Tensor], motion: Tensor) -> Tensor:
        """Return the BEV of one frame, (batch, cells, channels).

        Args:
            images: (batch, cameras, 3, height, width).
            projections, before, motion: see :meth:`bevformer.encoder.Encoder.forward`.
        """
        maps = self.backbone(images.flatten(0, 1))
        maps = [lateral(level).unflatten(0, images.shape[:2]) for lateral, level in zip(self.laterals, maps)]
        return self.encoder(maps, projections, tuple(images.shape[-2:]), before, motion)

    def forward(self, images: Tensor, projections: Tensor, motion: Tensor) -> tuple[Tensor, Tensor]:
        """Return the objects of the second of two frames.

        Args:
            images: (batch, 2, cameras, 3, height, width).
            projections: (batch, 2, cameras, 4, 4).
            motion: how far the vehicle has moved between the frames, (batch, 2) in metres.

        Returns:
            For each cell the scores of the classes, (batch, classes, rows, columns), and where in the cell the object
            is, (batch, 2, rows, columns), from -0.5 to 0.5 in x and y.
        """
        with torch.no_grad():  # the past is given, as in the paper
            before = self.encode(images[:, 0], projections[:, 0], None, torch.zeros_like(motion))
        bev = self.encode(images[:, 1], projections[:, 1], before, motion)
        found = self.head(bev.transpose(1, 2).unflatten(2, self.grid))
        return found[:, :-2], found[:, -2:]

    def loss(self, batch: dict[str, Any]) -> Tensor:
        """Return the loss of a batch of :class:`bevformer.scenes.Scenes`."""
        scores, offsets = self(batch["images"], batch["projections"], batch["motion"])
        classification = functional.binary_cross_entropy_with_logits(
            scores, batch["objects"], pos_weight=scores.new_tensor(10.0)
        )
        occupied = batch["objects"].amax(1).flatten() > 0
        expected = batch["offsets"].permute(0, 2, 3, 1).reshape(-1, 2)[occupied]
        return classification + functional.l1_loss(offsets.permute(0, 2, 3, 1).reshape(-1, 2)[occupied], expected)


def _initialise(backbone: ResNet) -> None:
    """Do what ``backbone.init_weights()`` does, without its log of every parameter: residual branches start at zero."""
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, Bottleneck):
            nn.init.zeros_(module.norm3.weight)
