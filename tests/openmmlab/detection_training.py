"""Train a small RetinaNet with the runners of mmcv 1.x or of mmengine.

The model is that of ``examples/mmdet_training``: RetinaNet on a thin ResNet-50 with deformable convolution in two
stages and modulated deformable convolution in the head. Data come from the same place, in COCO format, and are read by
mmdet's own data set and pipeline. Run as a program, this trains with each runner on the CPU and saves the results::

    python detection_training.py MMCV_MAJOR DATA_ROOT RESULTS
"""

from __future__ import annotations

import logging
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import torch

from examples.mmdet_training.dataset import ANNOTATION_FILE, CLASSES, IMAGE_DIR, make_dataset
from examples.mmdet_training.detectors import retinanet

BATCH_SIZE = 2
IMAGES = 4
STEPS = 4
IMAGE_SIZE = (96, 128)
START = "start.pth"
LEARNING_RATE = 0.02

#: The classification loss of the stock RetinaNet, and one that is made of torch's operators alone.
FOCAL = {"type": "FocalLoss", "use_sigmoid": True, "gamma": 2.0, "alpha": 0.25, "loss_weight": 1.0}
CROSS_ENTROPY = {"type": "CrossEntropyLoss", "use_sigmoid": True, "loss_weight": 1.0}
LOSSES = {"focal": FOCAL, "cross_entropy": CROSS_ENTROPY}

#: What drives the training, by major version of mmcv: runners of mmcv 1.x, loops of mmengine's one runner. Each has one
#: by epoch, and one by iteration.
RUNNERS = {1: ("EpochBasedRunner", "IterBasedRunner"), 2: ("EpochBasedTrainLoop", "IterBasedTrainLoop")}


class Training(NamedTuple):
    """What came of a training.

    Args:
        device: type of the device that the weights were on.
        losses: of each step.
        weights: the model's state, on the CPU.
    """

    device: str
    losses: list[float]
    weights: dict[str, torch.Tensor]


def make_data(root: Path) -> None:
    """Write the data set below ``root``, and the weights that every training starts from.

    These are drawn on the CPU: mmengine draws them on the device, whose random numbers are others.
    """
    make_dataset(root, IMAGES, IMAGE_SIZE, seed=3)
    torch.manual_seed(0)
    torch.save({"state_dict": _build(_model("focal")).state_dict()}, root / START)


def train(runner: str, loss: str, data_root: Path, work_dir: Path) -> Training:
    """Train for :data:`STEPS` steps, on the NPU where there is one.

    Args:
        runner: one of :data:`RUNNERS`, of the mmcv that is installed.
        loss: one of :data:`LOSSES`.
        data_root: see :func:`make_data`.
        work_dir: for what the runner writes.
    """
    train_by = _train_by_mmcv if runner in RUNNERS[1] else _train_by_mmengine
    return train_by(runner, _model(loss), data_root, work_dir)


def _model(loss: str) -> dict[str, Any]:
    model = retinanet(len(CLASSES))
    model["bbox_head"]["loss_cls"] = dict(LOSSES[loss])
    return model


def _build(model: dict[str, Any]) -> torch.nn.Module:
    try:
        from mmdet.registry import MODELS
        from mmdet.utils import register_all_modules
    except ImportError:
        from mmcv import ConfigDict
        from mmdet.models import build_detector

        model = {name: value for name, value in model.items() if name != "data_preprocessor"}
        built = build_detector(ConfigDict(model))
    else:
        register_all_modules(init_default_scope=False)
        built = MODELS.build({**model, "_scope_": "mmdet"})
    built.init_weights()
    return built


def _result(model: torch.nn.Module, losses: list[float]) -> Training:
    weights = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    return Training(next(model.parameters()).device.type, losses, weights)


# --- mmcv 2 -----------------------------------------------------------------------------------------------------------


def _train_by_mmengine(loop: str, model: dict[str, Any], data_root: Path, work_dir: Path) -> Training:
    from mmengine.config import Config
    from mmengine.hooks import Hook
    from mmengine.runner import Runner

    class Recorder(Hook):
        def after_train_iter(self, runner: Any, batch_idx: int, data_batch: Any = None, outputs: Any = None) -> None:
            losses.append(outputs["loss"].item())

    losses: list[float] = []
    by_epoch = loop == "EpochBasedTrainLoop"
    config = {
        "default_scope": "mmdet",
        "experiment_name": f"{work_dir.name}-{loop}",
        "work_dir": str(work_dir),
        "log_level": "WARNING",
        "randomness": {"seed": 0},
        "model": model,
        "train_dataloader": {
            "batch_size": BATCH_SIZE,
            "num_workers": 0,
            # IterBasedTrainLoop sleeps two seconds whenever a finite sampler runs out (mmengine 0.10.7)
            "sampler": {"type": "DefaultSampler" if by_epoch else "InfiniteSampler", "shuffle": False},
            "dataset": {
                "type": "CocoDataset",
                "data_root": str(data_root),
                "ann_file": ANNOTATION_FILE,
                "data_prefix": {"img": IMAGE_DIR},
                "metainfo": {"classes": CLASSES},
                "pipeline": [
                    {"type": "LoadImageFromFile"},
                    {"type": "LoadAnnotations", "with_bbox": True},
                    {"type": "PackDetInputs"},
                ],
            },
        },
        "train_cfg": (
            {"type": loop, "max_epochs": STEPS * BATCH_SIZE // IMAGES}
            if by_epoch
            else {"type": loop, "max_iters": STEPS}
        ),
        "optim_wrapper": {
            "type": "OptimWrapper",
            "optimizer": {"type": "SGD", "lr": LEARNING_RATE, "momentum": 0.9, "weight_decay": 0.0001},
            "clip_grad": {"max_norm": 1.0, "norm_type": 2},
        },
        "default_hooks": {"checkpoint": None},
        "visualizer": {"type": "Visualizer", "vis_backends": None},
        "load_from": str(data_root / START),
    }
    runner = Runner.from_cfg(Config(config))
    runner.register_hook(Recorder())
    try:
        runner.train()
    finally:
        _forget(runner.experiment_name)
    return _result(runner.model, losses)


def _forget(experiment: str) -> None:
    """Take what mmengine keeps by name for good, log files among it, out of this process."""
    from mmengine.logging import MessageHub, MMLogger
    from mmengine.registry import DefaultScope
    from mmengine.visualization import Visualizer

    for manager in (DefaultScope, MessageHub, MMLogger, Visualizer):
        instance = manager._instance_dict.pop(experiment, None)
        for handler in getattr(instance, "handlers", ()):
            handler.close()


# --- mmcv 1 -----------------------------------------------------------------------------------------------------------


def _train_by_mmcv(kind: str, model: dict[str, Any], data_root: Path, work_dir: Path) -> Training:
    from mmcv.runner import Hook, build_runner
    from mmdet.datasets import build_dataloader, build_dataset
    from mmdet.utils import build_dp

    class Recorder(Hook):
        def after_train_iter(self, runner: Any) -> None:
            losses.append(runner.outputs["loss"].item())

    losses: list[float] = []
    preprocessing = model["data_preprocessor"]
    normalisation = {
        "mean": preprocessing["mean"],
        "std": preprocessing["std"],
        "to_rgb": preprocessing["bgr_to_rgb"],
    }
    dataset = build_dataset(
        {
            "type": "CocoDataset",
            "classes": CLASSES,
            "ann_file": str(data_root / ANNOTATION_FILE),
            "img_prefix": str(data_root / IMAGE_DIR),
            "pipeline": [
                {"type": "LoadImageFromFile"},
                {"type": "LoadAnnotations", "with_bbox": True},
                {"type": "Resize", "img_scale": IMAGE_SIZE[::-1], "keep_ratio": True},
                {"type": "RandomFlip", "flip_ratio": 0.0},
                {"type": "Normalize", **normalisation},
                {"type": "Pad", "size_divisor": preprocessing["pad_size_divisor"]},
                {"type": "DefaultFormatBundle"},
                {"type": "Collect", "keys": ["img", "gt_bboxes", "gt_labels"]},
            ],
        }
    )
    loader = build_dataloader(
        dataset, BATCH_SIZE, workers_per_gpu=0, dist=False, shuffle=False, persistent_workers=False
    )
    detector = _build(model)
    on_npu = hasattr(torch, "npu") and torch.npu.is_available()
    wrapped = build_dp(detector, "npu", device_ids=[0]) if on_npu else build_dp(detector, "cpu", device_ids=[])
    by_epoch = kind == "EpochBasedRunner"
    length = {"max_epochs": STEPS * BATCH_SIZE // IMAGES} if by_epoch else {"max_iters": STEPS}
    logger = logging.getLogger(__name__)
    logger.setLevel(logging.WARNING)
    runner = build_runner(
        {"type": kind, **length},
        {
            "model": wrapped,
            "optimizer": torch.optim.SGD(detector.parameters(), lr=LEARNING_RATE, momentum=0.9, weight_decay=0.0001),
            "work_dir": str(work_dir),
            "logger": logger,
            "meta": {},
        },
    )
    runner.register_training_hooks(
        lr_config={"policy": "fixed"}, optimizer_config={"grad_clip": {"max_norm": 1.0, "norm_type": 2}}
    )
    runner.register_hook(Recorder())
    runner.load_checkpoint(str(data_root / START), map_location="cpu")
    runner.run([loader], [("train", 1)])
    return _result(detector, losses)


def main(major: int, data_root: Path, results: Path) -> None:
    """Make the data, train with each runner of a version and with each loss, and save what came of it."""
    torch.set_num_threads(1)
    if major == 1:  # mmcv 1.x imports it in modules that need nothing of it
        sys.modules["torchvision"] = types.ModuleType("torchvision")
    make_data(data_root)
    by_epoch, by_iteration = RUNNERS[major]
    done = {
        (runner, loss): tuple(train(runner, loss, data_root, results.parent / f"{runner}-{loss}"))
        for runner, loss in [(by_epoch, "cross_entropy"), (by_iteration, "cross_entropy"), (by_epoch, "focal")]
    }
    torch.save(done, results)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
