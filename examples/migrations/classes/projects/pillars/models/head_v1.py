"""The first head."""

from torch import nn

from projects.pillars.models.attention import FlashMHA
from projects.pillars.models.net import MODELS


@MODELS.register_module()
class PillarHeadV1(nn.Module):
    """A logit for each place of a map, which have attended to each other.

    Args:
        channels: of the map.
        heads: of attention.
    """

    def __init__(self, channels, heads=2):
        super().__init__()
        self.attention = FlashMHA(channels, heads)
        self.norm = nn.LayerNorm(channels)
        self.logit = nn.Linear(channels, 1)

    def forward(self, features):
        places = features.flatten(2).transpose(1, 2)
        return self.logit(self.norm(places + self.attention(places))).squeeze(-1)
