"""Random calls of the non-maximum suppression of rotated boxes."""

from __future__ import annotations

import math
import random
from typing import Any

import patchcore as pc
from mmcv_npu.checks import drawing


def called(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a call: pairs of boxes that overlap nearly or hardly, so that rounding decides nothing."""
    import torch
    from mmcv.ops import nms_rotated

    pairs = size.draw(rng, small=(1, 5), typical=(300, 900))
    places = 100 * torch.stack([torch.arange(pairs), torch.arange(pairs)], dim=1)
    extents = torch.tensor([20.0, 10.0]).expand(pairs, 2)
    first = torch.cat([places, extents, drawing.uniform(rng, -math.pi, math.pi, pairs, 1)], dim=1)
    moved = drawing.integers(rng, 0, 1, pairs, 1) * torch.tensor([[15.0, 15.0, 0, 0, 0]])
    boxes = torch.cat([first, first + moved + drawing.uniform(rng, 0.0, 0.01, pairs, 5)])
    scores = drawing.uniform(rng, 0.1, 1.0, 2 * pairs)
    clockwise = rng.choice((True, False))

    def call(boxes: Any, scores: Any) -> tuple[Any, ...]:
        return (*nms_rotated(boxes, scores, 0.5, clockwise=clockwise), boxes)

    return pc.Case(call, [boxes, scores])
