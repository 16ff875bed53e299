"""The model: mmdet's ResNet with deformable convolution, attention of the ground to the images, a head."""

import torch
import torch.nn.functional as F
from mmcv.ops import MultiScaleDeformableAttention
from torch import nn

from projects.occupancy.attention import CameraAttention, FlashMHA

try:
    from mmdet.registry import MODELS
except ImportError:  # mmdet 2
    from mmdet.models.builder import MODELS


@MODELS.register_module()
class OccupancyNet(nn.Module):
    """Which cells of the ground are occupied.

    Args:
        backbone: configuration of the backbone; its last feature map is used.
        channels: of that map.
        grid: cells in both directions.
        dims: channels of cells, a multiple of 8 * heads.
        heads: of attention.
    """

    def __init__(self, backbone, channels, grid=(8, 8), dims=32, heads=4):
        super().__init__()
        self.backbone = MODELS.build(backbone)
        self.reduce = nn.Conv2d(channels, dims, 1)
        self.queries = nn.Embedding(grid[0] * grid[1], dims)
        self.among_all = FlashMHA(dims, heads)
        self.among_near = MultiScaleDeformableAttention(
            dims, heads, num_levels=1, num_points=4, dropout=0.0, batch_first=True
        )
        self.among_near.init_weights()
        self.to_cameras = CameraAttention(dims, heads, points=4)
        self.norms = nn.ModuleList(nn.LayerNorm(dims) for _ in range(3))
        self.head = nn.Linear(dims, 2)
        self.grid = grid

    def cells(self, device):
        """Return the centres of the cells (x, y, 1), from -0.5 to 0.5, shape (cells, 3)."""
        y, x = (torch.arange(size, device=device) / size + 0.5 / size - 0.5 for size in self.grid)
        y, x = torch.meshgrid(y, x, indexing="ij")
        return torch.stack((x, y, torch.ones_like(x)), dim=-1).flatten(0, 1)

    def forward(self, images, projection):
        """Return the logits of the cells, shape (n, cells, 2)."""
        n, cameras = images.shape[:2]
        features = self.reduce(self.backbone(images.float().flatten(0, 1))[-1]).unflatten(0, (n, cameras))
        cells = self.cells(images.device)
        queries = self.queries.weight.expand(n, -1, -1)
        queries = self.norms[0](queries + self.among_all(queries))
        queries = self.norms[1](self.among_near(queries, **self._near(cells, n)))
        queries = self.norms[2](queries + self.to_cameras(queries, features, cells, projection.float()))
        return self.head(queries)

    def loss(self, images, projection, occupied):
        """Return the loss of a batch."""
        logits = self(images, projection)
        return F.cross_entropy(logits.flatten(0, 1), occupied.flatten())

    def train_step(self, data, optim_wrapper=None, **kwargs):
        """Make a step with mmengine, which hands the optimizer over; return the loss to the runner of mmcv 1."""
        device = next(self.parameters()).device
        loss = self.loss(**{name: tensor.to(device) for name, tensor in data.items()})
        if hasattr(optim_wrapper, "update_params"):
            optim_wrapper.update_params(loss)
        return {"loss": loss, "num_samples": len(data["images"])}

    def _near(self, cells, n):
        return {
            "reference_points": (cells[:, :2] + 0.5).view(1, -1, 1, 2).expand(n, -1, -1, -1),
            "spatial_shapes": torch.tensor([self.grid], device=cells.device),
            "level_start_index": torch.tensor([0], device=cells.device),
        }
