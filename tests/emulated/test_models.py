"""A model with the parts of a detector: convolutions, a pyramid, anchors, matching and losses."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

STRIDES = (4, 8)
CLASSES = 3


class Detector(nn.Module):
    """A dense one-stage detector of a few thousand parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.ReLU(inplace=True)) for _ in STRIDES
        )
        self.lateral = nn.ModuleList(nn.Conv2d(8, 8, 1) for _ in STRIDES)
        self.classify = nn.Conv2d(8, CLASSES, 3, padding=1)
        self.regress = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits ``(N, A, CLASSES)``, boxes ``(N, A, 4)`` and centres ``(A, 2)`` in pixels."""
        features = [self.stem(images)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        top = self.lateral[1](features[2])
        levels = [self.lateral[0](features[1]) + F.interpolate(top, features[1].shape[-2:], mode="nearest"), top]
        logits = [self.classify(level).flatten(2).transpose(1, 2) for level in levels]
        centres = [self.centres(level, stride) for level, stride in zip(levels, STRIDES)]
        sizes = [self.regress(level).flatten(2).transpose(1, 2).exp() * s for level, s in zip(levels, STRIDES)]
        boxes = [torch.cat([c - s[..., :2], c + s[..., 2:]], -1) for c, s in zip(centres, sizes)]
        return torch.cat(logits, 1), torch.cat(boxes, 1), torch.cat(centres)

    @staticmethod
    def centres(level: Tensor, stride: int) -> Tensor:
        """Return where the cells of a level are, ``(cells, 2)`` in pixels."""
        rows, columns = (torch.arange(length, device=level.device) for length in level.shape[-2:])
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        return (torch.stack([x, y], -1).reshape(-1, 2) + 0.5) * stride


def overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Return the intersection over union of boxes ``(N, 4)`` and ``(M, 4)``."""
    size = (torch.minimum(a[:, None, 2:], b[:, 2:]) - torch.maximum(a[:, None, :2], b[:, :2])).clamp(min=0)
    intersection = size.prod(-1)
    area_a, area_b = (boxes[:, 2:] - boxes[:, :2] for boxes in (a, b))
    return intersection / (area_a.prod(1)[:, None] + area_b.prod(1) - intersection)


def losses(model: nn.Module, images: Tensor, truth: list[Tensor], labels: list[Tensor]) -> Tensor:
    """Return the sum of a focal loss and an overlap loss."""
    logits, boxes, centres = model(images)
    total = logits.new_zeros(())
    for image, (wanted, label) in enumerate(zip(truth, labels)):
        inside = ((centres[:, None] > wanted[:, :2]) & (centres[:, None] < wanted[:, 2:])).all(-1)
        matched, which = inside.max(1)
        target = torch.zeros_like(logits[image])
        target[matched.nonzero().squeeze(1), label[which[matched]]] = 1
        probability = logits[image].sigmoid()
        weight = torch.where(target > 0, 1 - probability, probability).square()
        total = total + F.binary_cross_entropy_with_logits(logits[image], target, weight.detach(), reduction="sum")
        if matched.any():
            total = total + (1 - overlaps(boxes[image][matched], wanted).gather(1, which[matched][:, None])).sum()
    return total / images.shape[0]


class TestDetector:
    @pytest.fixture
    def data(self) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        torch.manual_seed(0)
        boxes = [torch.tensor([[2.0, 3, 20, 25], [10, 8, 30, 30]]), torch.tensor([[5.0, 5, 15, 28]])]
        return torch.randn(2, 3, 32, 32), boxes, [torch.tensor([0, 2]), torch.tensor([1])]

    def test_it_trains_as_on_the_cpu(self, data: tuple[Tensor, list[Tensor], list[Tensor]]) -> None:
        images, boxes, labels = data
        ours = Detector()
        theirs = copy.deepcopy(ours).npu()
        histories = []
        for model, device in ((ours, "cpu"), (theirs, "npu")):
            batch = images.to(device), [b.to(device) for b in boxes], [one.to(device) for one in labels]
            optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
            history = []
            for _ in range(5):
                optimizer.zero_grad()
                loss = losses(model, *batch)
                loss.backward()
                history.append((float(loss), float(nn.utils.clip_grad_norm_(model.parameters(), 10))))
                optimizer.step()
            histories.append(history)
        for ours_, theirs_ in zip(*histories):
            assert theirs_ == pytest.approx(ours_, rel=1e-4)
        assert histories[0][-1][0] < histories[0][0][0]
