"""The model: pillars, mmdet's ResNet, a head from the registry."""

import torch
import torch.nn.functional as F
from torch import nn

from projects.pillars.models.encoder import PillarEncoder, pillar_index
from projects.pillars.ops.boxes import points_in_boxes

try:
    from mmdet.registry import MODELS
except ImportError:  # mmdet 2
    from mmdet.models.builder import MODELS


@MODELS.register_module()
class PillarNet(nn.Module):
    """Which cells of the ground an object stands on.

    Args:
        backbone: configuration of the backbone, for maps of 32 channels.
        head: configuration of the head.
        size: pillars in both directions.
        cells: cells in both directions.
    """

    def __init__(self, backbone, head, size=32, cells=8):
        super().__init__()
        self.encoder = PillarEncoder(size)
        self.backbone = MODELS.build(backbone)
        self.head = MODELS.build(head)
        self.cells = cells

    def forward(self, points):
        """Return the logits of the cells, shape (n, cells * cells)."""
        return self.head(self.backbone(self.encoder(points))[-1])

    def targets(self, points, boxes):
        """Return how many points of objects are in each cell, at most one, shape (n, cells * cells)."""
        inside = points_in_boxes(points[..., :3], boxes).any(-1)
        index = pillar_index(points, self.cells)[inside]
        target = torch.zeros(len(points) * self.cells**2, device=points.device)
        target[index] = 1
        return target.view(len(points), -1)

    def train_step(self, data, optim_wrapper=None, **kwargs):
        """Make a step with mmengine, which hands the optimizer over; return the loss to the runner of mmcv 1."""
        device = next(self.parameters()).device
        points, boxes = (data[name].to(device).float() for name in ("points", "boxes"))
        loss = F.binary_cross_entropy_with_logits(self(points), self.targets(points, boxes))
        if hasattr(optim_wrapper, "update_params"):
            optim_wrapper.update_params(loss)
        return {"loss": loss, "num_samples": len(points)}
