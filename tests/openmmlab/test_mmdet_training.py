"""mmdet's RetinaNet with deformable convolution, trained on the emulated NPU by the runners of mmcv 1.x or of mmengine.

What it is compared with is the same program without patches, on the CPU, in a process that has no NPU. The two differ
by the order of summation in the deformable kernels. That grows: to 2.3e-5 of the loss within six steps with the cross
entropy, while the focal loss stayed within 1e-7 (torch 2.13.0).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest import mock

import detection_training
import pytest
import torch
from detection_training import RUNNERS, STEPS, Training

import patchcore as pc
from patchcore.builtin.call.snapshot import Snapshot
from patchcore.report import FAILED

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = {1: ("mmcv", "mmdet"), 2: ("mmcv", "mmengine", "mmdet")}

#: Largest difference of a loss, as a share of the loss.
LOSS_TOLERANCE = 1e-4
#: Of a weight or running statistic: absolute, and on top of it as a share of its value.
WEIGHT_TOLERANCE = 1e-4

# Of ResNet-50 with deformable convolution in its last two stages, below a frozen stem; and of the two branches of the
# head on four levels.
BLOCKS, DCN_BLOCKS, LEVELS = 3 + 4 + 6 + 3, 6 + 3, 4
KERNELS = {
    "npu_max_pool2d": 1,
    "npu_add_relu": BLOCKS,
    "npu_add_relu_backward": BLOCKS,
    "deform_conv2d": DCN_BLOCKS,
    "deform_conv2d_backward": DCN_BLOCKS,
    "modulated_deform_conv2d": 2 * LEVELS,
    "modulated_deform_conv2d_backward": 2 * LEVELS,
}
FOCAL_LOSS_KERNELS = {"sigmoid_focal_loss": LEVELS, "sigmoid_focal_loss_backward": LEVELS}

BY_EPOCH, BY_ITERATION = 0, 1

#: What both major versions of mmcv ask for without patches, and what torch_npu has not had for long.
NO_OPERATOR = "npu_deformable_conv2d(bk)? is deprecated and gone"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the data are, once the unpatched trainings have run."""
    return tmp_path_factory.mktemp("detection")


@pytest.fixture(scope="module")
def unpatched(folder: Path, major: int) -> dict[tuple[str, str], Training]:
    """What comes of the trainings on the CPU without patches, by runner and loss."""
    results = folder / "unpatched.pt"
    command = [sys.executable, detection_training.__file__, str(major), str(folder / "data"), str(results)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return {key: Training(*values) for key, values in torch.load(results).items()}


def train(runner: str, loss: str, folder: Path) -> Training:
    return detection_training.train(runner, loss, folder / "data", folder / f"patched-{runner}-{loss}")


def assert_agree(patched: Training, unpatched: Training) -> None:
    assert (patched.device, unpatched.device) == ("npu", "cpu")
    assert len(unpatched.losses) == STEPS
    assert patched.losses == pytest.approx(unpatched.losses, rel=LOSS_TOLERANCE)
    assert patched.weights.keys() == unpatched.weights.keys()
    for name, expected in unpatched.weights.items():
        torch.testing.assert_close(
            patched.weights[name],
            expected,
            rtol=WEIGHT_TOLERANCE,
            atol=WEIGHT_TOLERANCE,
            msg=lambda m, n=name: f"{n}: {m}",
        )


def per_step(kernels: dict[str, int]) -> dict[str, int]:
    return {name: STEPS * count for name, count in kernels.items()}


class TestDefaultSet:
    @pytest.mark.parametrize("kind", [BY_EPOCH, BY_ITERATION], ids=["by epoch", "by iteration"])
    def test_training_on_the_npu_matches_the_cpu(
        self, kind: int, major: int, folder: Path, unpatched: dict[tuple[str, str], Training], calls: Counter[str]
    ) -> None:
        key = (RUNNERS[major][kind], "cross_entropy")
        with pc.apply() as patcher:
            patched = train(*key, folder)
            report = patcher.report()
        assert report.with_status(FAILED) == ()
        assert calls == per_step(KERNELS)
        assert_agree(patched, unpatched[key])

    def test_it_trains(self, folder: Path, major: int, unpatched: dict[tuple[str, str], Training]) -> None:
        start = torch.load(folder / "data" / detection_training.START)["state_dict"]
        training = unpatched[RUNNERS[major][BY_EPOCH], "cross_entropy"]
        moved = {name for name in start if not torch.allclose(training.weights[name], start[name], atol=1e-3)}
        assert any("conv_offset" in name for name in moved)
        assert any(name.startswith("bbox_head") for name in moved)

    def test_a_kernel_that_is_wrong_by_a_thousandth_shows(
        self, major: int, folder: Path, unpatched: dict[tuple[str, str], Training]
    ) -> None:
        import mx_driving

        key = (RUNNERS[major][BY_ITERATION], "cross_entropy")
        right = mx_driving.npu_add_relu
        with mock.patch.object(mx_driving, "npu_add_relu", lambda x, y: right(x, y) * 1.001), pc.apply():
            patched = train(*key, folder)
        with pytest.raises(AssertionError):
            assert_agree(patched, unpatched[key])

    def test_revert_leaves_the_libraries_as_they_were(self, major: int, folder: Path, unpatched: object) -> None:
        before = [Snapshot(library) for library in LIBRARIES[major]]
        with pc.apply():
            assert any(edit for snapshot in before for edit in snapshot.edits())
        assert [str(edit.slot.name) for snapshot in before for edit in snapshot.edits()] == []

    def test_without_patches_mmcv_has_no_operator_for_the_device(
        self, major: int, folder: Path, unpatched: object, calls: Counter[str]
    ) -> None:
        with pytest.raises(RuntimeError, match=NO_OPERATOR):
            train(RUNNERS[major][BY_EPOCH], "cross_entropy", folder)
        assert not calls


class TestFocalLoss:
    """The patch of the focal loss is not a default one: a build of mmcv for NPUs has a kernel of its own."""

    def test_stock_model_with_the_patch_enabled(
        self, major: int, folder: Path, unpatched: dict[tuple[str, str], Training], calls: Counter[str]
    ) -> None:
        key = (RUNNERS[major][BY_EPOCH], "focal")
        with pc.apply(enable="mmcv.sigmoid_focal_loss") as patcher:
            patched = train(*key, folder)
            assert patcher.report()["mmcv.sigmoid_focal_loss"].status == "applied"
        assert calls == per_step({**KERNELS, **FOCAL_LOSS_KERNELS})
        assert_agree(patched, unpatched[key])
