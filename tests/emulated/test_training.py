"""Models of mmdet train on the emulated NPU as on the CPU."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest
import torch
from checks import check
from torch import Tensor, nn

pytest.importorskip("mmdet", reason="the models are those of mmdet")
pytest.importorskip("mmcv._ext", reason="mmdet needs mmcv with its compiled operators")

STEPS = 3
BACKBONE = {"type": "ResNet", "depth": 18, "base_channels": 16, "norm_cfg": {"type": "BN"}, "norm_eval": False}
RETINANET = {
    "type": "RetinaNet",
    "backbone": BACKBONE,
    "neck": {
        "type": "FPN",
        "in_channels": [16, 32, 64, 128],
        "out_channels": 16,
        "start_level": 1,
        "add_extra_convs": "on_input",
        # The coarsest level is computed from 2 x 2 cells: from one cell, torch's bfloat16 convolution on the CPU (2.13)
        # computes the gradient of its weights from uninitialised memory.
        "num_outs": 4,
    },
    "bbox_head": {
        "type": "RetinaHead",
        "num_classes": 3,
        "in_channels": 16,
        "stacked_convs": 1,
        "feat_channels": 16,
        "anchor_generator": {
            "type": "AnchorGenerator",
            "octave_base_scale": 4,
            "scales_per_octave": 3,
            "ratios": [0.5, 1.0, 2.0],
            "strides": [8, 16, 32, 64],
        },
        "bbox_coder": {"type": "DeltaXYWHBBoxCoder"},
        "loss_cls": {"type": "FocalLoss", "use_sigmoid": True, "gamma": 2.0, "alpha": 0.25, "loss_weight": 1.0},
        "loss_bbox": {"type": "L1Loss", "loss_weight": 1.0},
    },
    "train_cfg": {
        "assigner": {"type": "MaxIoUAssigner", "pos_iou_thr": 0.5, "neg_iou_thr": 0.4, "min_pos_iou": 0},
        "sampler": {"type": "PseudoSampler"},
        "allowed_border": -1,
        "pos_weight": -1,
    },
    "test_cfg": {"nms_pre": 100, "score_thr": 0.05, "nms": {"type": "nms", "iou_threshold": 0.5}, "max_per_img": 10},
}

Loss = Callable[[nn.Module, str], Tensor]


@pytest.fixture(scope="module")
def build() -> Callable[[dict[str, Any]], nn.Module]:
    """Builds a model of mmdet from its config, with the same weights every time."""
    from mmdet.registry import MODELS
    from mmdet.utils import register_all_modules

    register_all_modules(init_default_scope=True)

    def make(config: dict[str, Any]) -> nn.Module:
        torch.manual_seed(0)
        model = MODELS.build(copy.deepcopy(config))
        model.init_weights()
        model.train()
        return model

    return make


def images(device: str) -> Tensor:
    """Return two images of 64 x 64 pixels."""
    return torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1)).to(device)


def backbone_loss(model: nn.Module, device: str) -> Tensor:
    """Return a loss over all stages of a backbone."""
    return sum(level.square().mean() for level in model(images(device)))


def detector_loss(model: nn.Module, device: str) -> Tensor:
    """Return the loss of a detector for two objects in one image and one in the other."""
    from mmdet.structures import DetDataSample
    from mmengine.structures import InstanceData

    samples = []
    boxes = [[[4.0, 6, 40, 44], [20, 16, 60, 60]], [[10.0, 10, 50, 30]]]
    for corners, labels in zip(boxes, ([0, 2], [1])):
        sample = DetDataSample(metainfo={"img_shape": (64, 64), "pad_shape": (64, 64), "scale_factor": (1.0, 1.0)})
        sample.gt_instances = InstanceData(bboxes=torch.tensor(corners), labels=torch.tensor(labels))
        sample.ignored_instances = InstanceData(bboxes=torch.zeros(0, 4))
        samples.append(sample.to(device))
    found = model.loss(images(device), samples)
    return sum(sum(value) if isinstance(value, list) else value for name, value in found.items() if "loss" in name)


def train(model: nn.Module, loss_of: Loss, device: str) -> list[float]:
    """Return losses and norms of gradients of a few steps."""
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    history = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, device)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 35)
        optimizer.step()
        history += [float(loss.detach()), float(norm)]
    return history


@check("a detector-like model")
@pytest.mark.parametrize(
    ("config", "loss_of"), [(BACKBONE, backbone_loss), (RETINANET, detector_loss)], ids=["ResNet", "RetinaNet"]
)
def test_losses_gradients_and_weights_equal_those_on_the_cpu(
    build: Callable[[dict[str, Any]], nn.Module], config: dict[str, Any], loss_of: Loss
) -> None:
    ours, theirs = build(config), build(config)
    expected = train(ours, loss_of, "cpu")
    assert train(theirs, loss_of, "npu") == pytest.approx(expected, rel=1e-4)
    assert expected[-2] < expected[0]
    for (name, weights), others in zip(ours.state_dict().items(), theirs.state_dict().values()):
        assert others.is_npu
        torch.testing.assert_close(others.cpu(), weights, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@check("autocast bfloat16")
def test_a_detector_trains_in_mixed_precision(build: Callable[[dict[str, Any]], nn.Module]) -> None:
    model = build(RETINANET).npu()
    full = float(detector_loss(model, "npu").detach())
    with torch.autocast("npu", torch.bfloat16):
        loss = detector_loss(model, "npu")
    loss.backward()
    assert float(loss.detach()) == pytest.approx(full, rel=0.05)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert [name for name, gradient in gradients.items() if gradient is None] == []
    assert [name for name, gradient in gradients.items() if not gradient.isfinite().all()] == []
