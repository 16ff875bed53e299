"""The model: pillars, mmdet's ResNet, a head from the registry."""

import torch
import torch.nn.functional as F

from projects.pillars.models.encoder import PillarEncoder, pillar_index
from projects.pillars.ops.boxes import points_in_boxes

try:
    from mmdet.registry import MODELS
    from mmengine.model import BaseModel
except ImportError:  # mmdet 2
    from mmcv.runner import BaseModule
    from mmdet.models.builder import MODELS

    class BaseModel(BaseModule):
        """What the runner of mmcv 1 asks of a model."""

        def train_step(self, data, optimizer, **kwargs):
            """Return the loss of a batch."""
            return {"loss": self(**data, mode="loss")["loss"], "num_samples": len(data["points"])}


@MODELS.register_module()
class PillarNet(BaseModel):
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

    def forward(self, points, boxes=None, mode="tensor"):
        """Return the logits of the cells, shape (n, cells * cells); with mode "loss" the loss."""
        points = points.float()
        logits = self.head(self.backbone(self.encoder(points))[-1])
        if mode != "loss":
            return logits
        return {"loss": F.binary_cross_entropy_with_logits(logits, self.targets(points, boxes.float()))}

    def targets(self, points, boxes):
        """Return how many points of objects are in each cell, at most one, shape (n, cells * cells)."""
        inside = points_in_boxes(points[..., :3], boxes).any(-1)
        index = pillar_index(points, self.cells)[inside]
        target = torch.zeros(len(points) * self.cells**2, device=points.device)
        target[index] = 1
        return target.view(len(points), -1)
