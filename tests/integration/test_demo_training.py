"""The demo's training: its data set, that it repeats itself exactly, what of the libraries it goes through."""

from __future__ import annotations

import contextlib
import functools
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Callable
from unittest import mock

import pytest

from examples.mmdet_training.dataset import ANNOTATION_FILE, CLASSES, IMAGE_DIR, make_dataset
from examples.mmdet_training.detectors import DETECTORS
from examples.mmdet_training.training import train

pytest.importorskip("mmcv._ext", reason="the training needs mmcv with its compiled operators")
pytest.importorskip("mmdet")

ROOT = Path(__file__).resolve().parents[2]
SIZE = (96, 128)
MODELS = list(DETECTORS)
SEED = 1


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shapes")
    make_dataset(root, images=8, size=SIZE, seed=0)
    return root


@pytest.fixture(scope="module")
def losses_of(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[float]]:
    """Return a function that returns the losses of the first twenty iterations of a model, trained once."""

    @functools.cache
    def losses_of(model: str) -> list[float]:
        return train(tmp_path_factory.mktemp(model), data_root, 20, seed=SEED, model=model)

    return losses_of


class TestDataset:
    def test_annotations_are_valid_coco(self, data_root: Path) -> None:
        from pycocotools.coco import COCO

        coco = COCO(str(data_root / ANNOTATION_FILE))
        assert [category["name"] for category in coco.loadCats(coco.getCatIds())] == list(CLASSES)
        assert len(coco.getImgIds()) == 8
        height, width = SIZE
        for annotation in coco.loadAnns(coco.getAnnIds()):
            x, y, box_width, box_height = annotation["bbox"]
            assert 0 <= x < x + box_width <= width
            assert 0 <= y < y + box_height <= height
            mask = coco.annToMask(annotation)
            assert mask.shape == SIZE
            # The mask has whole pixels, the area is the polygon's: they differ by no more than a rim one pixel wide.
            assert abs(int(mask.sum()) - annotation["area"]) <= 2 * (box_width + box_height)

    def test_same_seed_gives_the_same_bytes(self, tmp_path: Path) -> None:
        def written(root: Path) -> dict[str, bytes]:
            return {
                str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()
            }

        for name, seed in (("first", 3), ("second", 3), ("other", 4)):
            make_dataset(tmp_path / name, images=2, size=(48, 64), seed=seed)
        first = written(tmp_path / "first")
        assert sorted(first) == [ANNOTATION_FILE, f"{IMAGE_DIR}/000001.png", f"{IMAGE_DIR}/000002.png"]
        assert written(tmp_path / "second") == first
        assert all(content != first[name] for name, content in written(tmp_path / "other").items())


class TestReproducible:
    @pytest.mark.parametrize("model", MODELS)
    def test_losses_fall_and_repeat_in_the_process(
        self, tmp_path: Path, data_root: Path, losses_of: Callable[[str], list[float]], model: str
    ) -> None:
        losses = losses_of(model)
        assert len(losses) == 20
        assert all(math.isfinite(loss) for loss in losses)
        assert sum(losses[-5:]) < 0.8 * sum(losses[:5])

        other = next(name for name in MODELS if name != model)
        train(tmp_path, data_root, 2, seed=5, model=other)
        assert train(tmp_path, data_root, 5, seed=SEED, model=model) == losses[:5]


class TestInterface:
    def test_command_line(self) -> None:
        command = [sys.executable, "-m", "examples.mmdet_training.training", "--iterations", "2"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=True)
        first, *steps = done.stdout.splitlines()
        assert first.startswith("retinanet: importing")
        assert [line.split()[:3] for line in steps] == [["retinanet", "1/2", "loss"], ["retinanet", "2/2", "loss"]]

    def test_missing_data_set_names_the_line_that_makes_it(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"make_dataset\(Path\("):
            train(tmp_path / "work", tmp_path / "nowhere", 1, seed=0)


@contextlib.contextmanager
def counted() -> Iterator[dict[str, mock.Mock]]:
    """Count the calls of what a migration patches, and let them through."""
    import mmcv.ops
    import torch
    from mmcv.ops.deform_conv import DeformConv2dFunction
    from mmcv.ops.modulated_deform_conv import ModulatedDeformConv2dFunction
    from mmdet.models.backbones.resnet import BasicBlock, Bottleneck, ResNet

    # Where the layers look these functions up when they are called; mmcv.ops only re-exports them.
    functions = {
        "deform_conv2d": mmcv.ops.deform_conv,
        "modulated_deform_conv2d": mmcv.ops.modulated_deform_conv,
        "multi_scale_deformable_attn_pytorch": mmcv.ops.multi_scale_deform_attn,
    }
    methods = {
        "DeformConv2dFunction.backward": DeformConv2dFunction,
        "ModulatedDeformConv2dFunction.backward": ModulatedDeformConv2dFunction,
        "MultiScaleDeformableAttnFunction.forward": mmcv.ops.multi_scale_deform_attn.MultiScaleDeformableAttnFunction,
        "BasicBlock.forward": BasicBlock,
        "Bottleneck.forward": Bottleneck,
        "ResNet.forward": ResNet,
        "MaxPool2d.forward": torch.nn.MaxPool2d,
    }
    with contextlib.ExitStack() as stack:
        counters = {}
        for name, module in functions.items():
            counters[name] = stack.enter_context(mock.patch.object(module, name, wraps=getattr(module, name)))
        for name, owner in methods.items():
            attribute = name.partition(".")[2]
            original = getattr(owner, attribute)
            counters[name] = stack.enter_context(
                mock.patch.object(owner, attribute, autospec=True, side_effect=original)
            )
        yield counters


class TestRunsWhatIsPatched:
    @pytest.mark.parametrize(
        ("model", "calls_per_iteration"),
        [
            (
                "retinanet",
                {
                    "deform_conv2d": 9,  # 6 + 3 blocks of the last two stages of ResNet-50
                    "DeformConv2dFunction.backward": 9,
                    "modulated_deform_conv2d": 8,  # classification and regression on four levels
                    "ModulatedDeformConv2dFunction.backward": 8,
                    "Bottleneck.forward": 16,
                    "ResNet.forward": 1,
                    "MaxPool2d.forward": 1,
                },
            ),
            (
                "deformable_detr",
                {
                    "multi_scale_deformable_attn_pytorch": 3,  # one encoder layer, two decoder layers
                    "BasicBlock.forward": 8,
                    "ResNet.forward": 1,
                    "MaxPool2d.forward": 1,
                },
            ),
        ],
    )
    def test_calls(
        self,
        tmp_path: Path,
        data_root: Path,
        losses_of: Callable[[str], list[float]],
        model: str,
        calls_per_iteration: dict[str, int],
    ) -> None:
        with counted() as counters:
            losses = train(tmp_path, data_root, 2, seed=SEED, model=model)
        calls = {name: counter.call_count for name, counter in counters.items() if counter.called}
        assert calls == {name: count * 2 for name, count in calls_per_iteration.items()}
        assert losses == losses_of(model)[:2]
