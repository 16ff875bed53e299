"""PointPillars of mmdet3d trains on the emulated NPU as on the CPU, with the patches that are applied by default.

The CPU's side is trained in a process of its own, in which there is no NPU and nothing is patched. Losses, weights and
predictions agree within ``TOLERANCE`` of the largest value: the kernels sum in another order.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from lidar_training import BATCH_SIZE, NMS_ON_CPU, SAMPLES, STEPS, VOXELS_ON_CPU, Training, train
from mmdet3d_libraries import MMCV_MAJOR
from nuscenes_sample import CLASSES

import patchcore as pc
from mmdet3d_npu import nuscenes_boxes

PROGRAM = Path(__file__).with_name("lidar_training.py")
TOLERANCE = 1e-5  # the largest ratio found is 2.3e-6
CONVERSION = {1: "mmdet3d.nuscenes_dataset", 2: "mmdet3d.nuscenes_metric"}[MMCV_MAJOR]
#: The voxelization that the detector uses with this mmcv.
VOXELIZATION = {1: "mmcv.voxelization", 2: "mmdet3d.voxelization"}[MMCV_MAJOR]


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nuscenes")


@pytest.fixture(scope="module")
def on_cpu(data_root: Path) -> dict[str, Training]:
    """The trainings on the CPU by loss, in a process without an NPU and without patches."""
    results = data_root / "on-cpu.pt"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(MMCV_MAJOR), str(data_root), str(results)],
        env={**os.environ, "PATCHCORE_PLUGINS": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    trainings = {loss: Training(*training) for loss, training in torch.load(results, weights_only=False).items()}
    assert {training.device for training in trainings.values()} == {"cpu"}
    return trainings


@contextmanager
def conversions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yield a list that grows by the number of boxes whenever the patch converts some."""
    converted: list[int] = []
    build = nuscenes_boxes._build

    def counting(*arguments: Any) -> list[Any]:
        boxes = build(*arguments)
        converted.append(len(boxes))
        return boxes

    with monkeypatch.context() as context:
        context.setattr(nuscenes_boxes, "_build", counting)
        yield converted


def assert_close(actual: Any, expected: Any, what: str) -> None:
    actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
    assert actual.shape == expected.shape, what
    if not expected.is_floating_point():
        assert torch.equal(actual, expected), what
    elif expected.numel():
        difference = (actual - expected).abs().max().item()
        assert difference <= TOLERANCE * max(expected.abs().max().item(), 1e-3), f"{what}: {difference:.2e}"


def assert_same_training(actual: Training, expected: Training) -> None:
    assert len(actual.losses) == len(expected.losses) == STEPS
    for step, (ours, theirs) in enumerate(zip(actual.losses, expected.losses)):
        assert ours.keys() == theirs.keys()
        for name, loss in theirs.items():
            assert_close(ours[name], loss, f"step {step}, {name}")
    assert actual.losses[-1]["loss"] < actual.losses[0]["loss"]
    assert actual.weights.keys() == expected.weights.keys()
    for name, weight in expected.weights.items():
        assert_close(actual.weights[name], weight, name)
    assert len(actual.predictions) == len(expected.predictions) == SAMPLES
    for sample, (ours, theirs) in enumerate(zip(actual.predictions, expected.predictions)):
        assert len(theirs[0]) > 0, "nothing is predicted"
        for what, one, other in zip(("boxes", "scores", "labels"), ours, theirs):
            assert_close(one, other, f"{what} of sample {sample}")


def assert_same_submission(actual: Training, expected: Training) -> None:
    assert actual.submission.keys() == expected.submission.keys()
    assert len(actual.submission) == SAMPLES
    for token, boxes in expected.submission.items():
        assert len(actual.submission[token]) == len(boxes) > 0
        for ours, theirs in zip(actual.submission[token], boxes):
            for name, value in theirs.items():
                if isinstance(value, str):
                    assert ours[name] == value
                else:
                    assert_close(ours[name], value, f"{name} of a box of {token}")
            assert theirs["detection_name"] in CLASSES


class TestDefaultPatches:
    def test_same_training_and_the_same_boxes(
        self,
        on_cpu: dict[str, Training],
        data_root: Path,
        tmp_path: Path,
        calls: Counter[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        stand_ins = pc.Patcher([NMS_ON_CPU[MMCV_MAJOR], VOXELS_ON_CPU[MMCV_MAJOR]], strict=True)
        with stand_ins, pc.apply(strict=True) as patcher, conversions(monkeypatch) as converted:
            assert patcher.report()[CONVERSION].status == "applied"
            training = train(MMCV_MAJOR, "cross_entropy", data_root, tmp_path)
        assert training.device == "npu"
        assert calls["deform_conv2d"] == 2 * (STEPS + SAMPLES)
        assert calls["hard_voxelize"] == 0
        assert converted == [len(boxes) for boxes, _, _ in training.predictions]
        assert_same_training(training, on_cpu["cross_entropy"])
        assert_same_submission(training, on_cpu["cross_entropy"])


class TestAllKernels:
    def test_same_training_with_voxelization_and_focal_loss_on_the_npu(
        self, on_cpu: dict[str, Training], data_root: Path, tmp_path: Path, calls: Counter[str]
    ) -> None:
        patcher = pc.Patcher.discover(enable=[VOXELIZATION, "mmcv.sigmoid_focal_loss"], strict=True)
        with pc.Patcher([NMS_ON_CPU[MMCV_MAJOR]], strict=True), patcher:
            training = train(MMCV_MAJOR, "focal", data_root, tmp_path)
        assert training.device == "npu"
        assert calls["hard_voxelize"] == BATCH_SIZE * STEPS + SAMPLES
        assert_same_training(training, on_cpu["focal"])
        assert_same_submission(training, on_cpu["focal"])
