"""The demo's training: its data set, that it repeats itself exactly, what of the libraries it goes through."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import logging
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, NamedTuple
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

Numbers = tuple[float, float, float]


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


#: Prints the losses of every model, and runs the command.
PROGRAM = """
import json, runpy, sys
from pathlib import Path
from examples.mmdet_training.detectors import DETECTORS
from examples.mmdet_training.training import train

work_dir, data_root, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
print(json.dumps([train(work_dir, data_root, 3, seed=seed, model=model) for model in DETECTORS]), flush=True)
del sys.modules["examples.mmdet_training.training"]  # of which runpy would warn
sys.argv[1:] = ["--iterations", "2"]
runpy.run_module("examples.mmdet_training.training", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def another_process(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Train in a process that orders sets otherwise, and run the command there."""
    return run_python(PROGRAM, str(tmp_path_factory.mktemp("there")), str(data_root), str(SEED), PYTHONHASHSEED="7")


def run_python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a new interpreter at the checkout's root and return what it printed."""
    completed = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    return completed


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

    def test_annotated_shapes_are_what_the_images_show(self, data_root: Path) -> None:
        import cv2
        from pycocotools.coco import COCO

        coco = COCO(str(data_root / ANNOTATION_FILE))
        for image in coco.loadImgs(coco.getImgIds()):
            pixels = cv2.imread(str(data_root / IMAGE_DIR / image["file_name"]))
            assert pixels.shape == (image["height"], image["width"], 3)
            coloured = (pixels.max(axis=2) - pixels.min(axis=2)) > 32  # the background is grey, with a little noise
            annotations = coco.loadAnns(coco.getAnnIds(imgIds=image["id"]))
            assert 2 <= len(annotations) <= 4
            painted = 0
            for annotation in annotations:
                x, y, width, height = annotation["bbox"]
                box = coloured[math.floor(y) : math.ceil(y + height), math.floor(x) : math.ceil(x + width)]
                painted += int(box.sum())
                assert abs(int(box.sum()) - annotation["area"]) <= width + height
            assert painted == int(coloured.sum())  # nothing outside the boxes, and the boxes do not overlap

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

    @pytest.mark.parametrize(("images", "size"), [(0, SIZE), (1, (16, 128)), (1, (96, 31))])
    def test_too_small_is_an_error(self, tmp_path: Path, images: int, size: tuple[int, int]) -> None:
        with pytest.raises(ValueError, match="at least"):
            make_dataset(tmp_path, images, size, seed=0)
        assert not list(tmp_path.iterdir())


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

    def test_losses_repeat_in_another_process(
        self, another_process: subprocess.CompletedProcess[str], losses_of: Callable[[str], list[float]]
    ) -> None:
        there = json.loads(another_process.stdout.splitlines()[0])
        assert there == [losses_of(model)[:3] for model in MODELS]

    @pytest.mark.parametrize("model", MODELS)
    def test_seed_decides(
        self, tmp_path: Path, data_root: Path, losses_of: Callable[[str], list[float]], model: str
    ) -> None:
        other = train(tmp_path, data_root, 2, seed=SEED + 1, model=model)
        assert all(loss != first for loss, first in zip(other, losses_of(model)))


class Watched(NamedTuple):
    """What a process had before, during and after a training.

    Args:
        drawn: random numbers that were drawn after it, and those that would have been drawn in its place.
        threads: of torch: two before.
        instances: names of the instances that mmengine keeps.
        log_files: that were opened during the training.
    """

    drawn: tuple[Numbers, Numbers]
    threads: tuple[list[int], int]
    instances: tuple[list[list[str]], list[list[str]], list[list[str]]]
    log_files: list[logging.FileHandler]


@pytest.fixture(scope="module")
def watched(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Train once, for one iteration."""
    import numpy as np
    import torch
    from mmengine.logging import MessageHub, MMLogger
    from mmengine.registry import DefaultScope
    from mmengine.visualization import Visualizer

    def drawn() -> Numbers:
        return random.random(), float(np.random.random()), float(torch.rand(()))

    def instances() -> list[list[str]]:
        return [list(manager._instance_dict) for manager in (DefaultScope, MessageHub, MMLogger, Visualizer)]

    def look(*_: Any) -> None:
        threads.append(torch.get_num_threads())
        during.extend(instances())

    original = logging.FileHandler.__init__

    def remember(self: logging.FileHandler, *args: Any, **kwargs: Any) -> None:
        log_files.append(self)
        original(self, *args, **kwargs)

    threads: list[int] = []
    during: list[list[str]] = []
    log_files: list[logging.FileHandler] = []
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    expected = drawn()
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    before, threads_before = instances(), torch.get_num_threads()
    torch.set_num_threads(2)
    with mock.patch.object(logging.FileHandler, "__init__", remember):
        train(tmp_path_factory.mktemp("watched"), data_root, 1, seed=11, on_iteration=look)
    yield Watched((drawn(), expected), (threads, torch.get_num_threads()), (before, during, instances()), log_files)
    torch.set_num_threads(threads_before)


class TestLeavesNothingBehind:
    def test_random_state(self, watched: Watched) -> None:
        drawn, expected = watched.drawn
        assert drawn == expected

    def test_one_thread_during_the_training_only(self, watched: Watched) -> None:
        assert watched.threads == ([1], 2)

    def test_mmengine_instances(self, watched: Watched) -> None:
        before, during, after = watched.instances
        assert during != before
        assert after == before

    def test_log_files_are_closed(self, watched: Watched) -> None:
        assert watched.log_files
        assert all(handler.stream is None for handler in watched.log_files)

    def test_after_a_failure(self, tmp_path: Path, data_root: Path) -> None:
        import torch
        from mmengine.registry import DefaultScope

        def fail(iteration: int, iterations: int, loss: float) -> None:
            raise RuntimeError("stop here")

        scopes, threads = list(DefaultScope._instance_dict), torch.get_num_threads()
        with pytest.raises(RuntimeError, match="stop here"):
            train(tmp_path, data_root, 2, seed=0, on_iteration=fail)
        assert list(DefaultScope._instance_dict) == scopes
        assert torch.get_num_threads() == threads


class TestInterface:
    def test_progress_is_reported_after_every_iteration(
        self, tmp_path: Path, data_root: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        reported: list[tuple[int, int, float]] = []
        losses = train(tmp_path, data_root, 2, seed=0, on_iteration=lambda *step: reported.append(step))
        assert reported == [(1, 2, losses[0]), (2, 2, losses[1])]
        assert capfd.readouterr() == ("", "")

    def test_importing_costs_nothing(self) -> None:
        code = (
            "import sys; before = set(sys.modules)\n"
            "import examples.mmdet_training.dataset, examples.mmdet_training.training\n"
            "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
        )
        imported = set(run_python(code).stdout.split())
        assert imported - set(sys.stdlib_module_names) == {"examples"}

    def test_command_line(self, another_process: subprocess.CompletedProcess[str]) -> None:
        assert another_process.stderr == ""
        _, first, *steps = another_process.stdout.splitlines()
        assert first.startswith("retinanet: importing")
        assert [line.split()[:3] for line in steps] == [["retinanet", "1/2", "loss"], ["retinanet", "2/2", "loss"]]

    def test_missing_data_set_names_the_line_that_makes_it(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"make_dataset\(Path\("):
            train(tmp_path / "work", tmp_path / "nowhere", 1, seed=0)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [({"iterations": 0}, "iterations must be at least 1, got 0"), ({"model": "yolo"}, "one of retinanet, ")],
    )
    def test_wrong_arguments(self, tmp_path: Path, data_root: Path, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            train(tmp_path, data_root, **{"iterations": 1, "seed": 0, **arguments})


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


class Counted(NamedTuple):
    """A training whose calls were counted.

    Args:
        losses: of every iteration.
        calls: of what was called, by name.
        pooled: whether the stem's output needs a gradient where it is pooled, for every call.
        offsets: the largest offset of deformable convolutions, by the name of the function.
    """

    losses: list[float]
    calls: dict[str, int]
    pooled: list[bool]
    offsets: dict[str, float]


@pytest.fixture(scope="module")
def counted_training(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Counted]:
    """Return a function that returns what was counted while a model was trained, once, for two iterations."""

    @functools.cache
    def counted_training(model: str) -> Counted:
        with counted() as counters:
            losses = train(tmp_path_factory.mktemp(model), data_root, 2, seed=SEED, model=model)
        offsets = {
            name: max((float(call.args[1].detach().abs().max()) for call in counters[name].call_args_list), default=0.0)
            for name in ("deform_conv2d", "modulated_deform_conv2d")
        }
        return Counted(
            losses,
            {name: counter.call_count for name, counter in counters.items() if counter.called},
            [call.args[1].requires_grad for call in counters["MaxPool2d.forward"].call_args_list],
            offsets,
        )

    return counted_training


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
        counted_training: Callable[[str], Counted],
        losses_of: Callable[[str], list[float]],
        model: str,
        calls_per_iteration: dict[str, int],
    ) -> None:
        training = counted_training(model)
        assert training.calls == {name: count * 2 for name, count in calls_per_iteration.items()}
        assert training.losses == losses_of(model)[:2]

    @pytest.mark.parametrize(("model", "needs_gradient"), [("retinanet", False), ("deformable_detr", True)])
    def test_stem_pooling_below_a_frozen_and_a_trained_stem(
        self, counted_training: Callable[[str], Counted], model: str, needs_gradient: bool
    ) -> None:
        assert counted_training(model).pooled == [needs_gradient] * 2

    @pytest.mark.parametrize("name", ["deform_conv2d", "modulated_deform_conv2d"])
    def test_deformable_convolution_moves_its_samples(
        self, counted_training: Callable[[str], Counted], name: str
    ) -> None:
        assert counted_training("retinanet").offsets[name] > 0.0


def ignores_offsets(kernel: Callable[..., Any]) -> Callable[..., Any]:
    return lambda images, offset, *rest: kernel(images, offset * 0, *rest)


def drops_location_gradient(kernel: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, shapes, locations, weights: kernel(value, shapes, locations.detach(), weights)


class Different(Exception):
    """A training has a loss other than the one expected."""


class TestTellsKernelsApart:
    """What makes comparing the losses of two runs worth anything: rounding does not show, a wrong kernel does."""

    ROUNDING = 1e-6  # relative, well above float32's 6e-8
    TOLERANCE = 1e-4

    @pytest.mark.parametrize(
        ("model", "module", "name", "wrong"),
        [
            ("retinanet", "mmcv.ops.deform_conv", "deform_conv2d", ignores_offsets),
            (
                "deformable_detr",
                "mmcv.ops.multi_scale_deform_attn",
                "multi_scale_deformable_attn_pytorch",
                drops_location_gradient,
            ),
        ],
    )
    def test_rounding_and_error(
        self,
        tmp_path: Path,
        data_root: Path,
        losses_of: Callable[[str], list[float]],
        model: str,
        module: str,
        name: str,
        wrong: Callable[[Callable[..., Any]], Callable[..., Any]],
    ) -> None:
        import torch

        owner = importlib.import_module(module)
        kernel = getattr(owner, name)
        generator = torch.Generator().manual_seed(0)
        expected = losses_of(model)

        def rounded(*args: Any) -> Any:
            output = kernel(*args)
            return output * (1 + self.ROUNDING * torch.randn(output.shape, generator=generator))

        def compare(iteration: int, iterations: int, loss: float) -> None:
            if abs(loss - expected[iteration - 1]) > self.TOLERANCE:
                raise Different

        def is_told_apart(replacement: Callable[..., Any]) -> bool:
            """Train on the replacement, as long as the losses are those expected; return whether they stopped to be."""
            with mock.patch.object(owner, name, replacement):
                try:
                    train(tmp_path, data_root, len(expected), seed=SEED, model=model, on_iteration=compare)
                except Different:
                    return True
            return False

        assert not is_told_apart(rounded)
        assert is_told_apart(wrong(kernel))
