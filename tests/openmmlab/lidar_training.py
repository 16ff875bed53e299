"""Train a small PointPillars with the runner of mmcv 1.x or of mmengine, on data in the format of nuScenes.

Run as a program, this trains with each loss on the CPU and saves the results::

    python lidar_training.py MMCV_MAJOR DATA_ROOT RESULTS
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mmdet3d_libraries  # noqa: F401  with mmcv 1, mmdet3d cannot be imported by itself
import torch
from nuscenes_sample import CLASSES, make_samples, write_for_mmcv_1, write_for_mmcv_2
from pointpillars import LOSSES, pointpillars
from torch import Tensor, nn

import patchcore as pc

SAMPLES = 4
BATCH_SIZE = 2
EPOCHS = 2
STEPS = EPOCHS * SAMPLES // BATCH_SIZE
START = "start.pth"
INFORMATION = "infos.pkl"
LEARNING_RATE = 0.002

_LOAD_POINTS = {"type": "LoadPointsFromFile", "coord_type": "LIDAR", "load_dim": 5, "use_dim": 5}
_LOAD_ANNOTATIONS = {"type": "LoadAnnotations3D", "with_bbox_3d": True, "with_label_3d": True}


class Training(NamedTuple):
    """What came of a training.

    Args:
        device: type of the device that the weights were on.
        losses: of each step, by name.
        weights: the model's state, on the CPU.
        predictions: of the trained model for each sample: boxes (boxes, 9), scores and labels (boxes,).
        submission: the predictions as nuScenes boxes in global coordinates, by the token of their sample.
    """

    device: str
    losses: list[dict[str, float]]
    weights: dict[str, Tensor]
    predictions: list[tuple[Tensor, Tensor, Tensor]]
    submission: dict[str, list[dict[str, Any]]]


def _on_cpu(original: Callable[..., Any], *arguments: Any) -> Any:
    """Call the original with CPU tensors, return its results to where the arguments were."""
    device = next(each.device for each in arguments if isinstance(each, Tensor))
    results = original(*(each.cpu() if isinstance(each, Tensor) else each for each in arguments))
    return results.to(device) if isinstance(results, Tensor) else tuple(each.to(device) for each in results)


def _stand_in(name: str, targets: dict[int, str]) -> dict[int, pc.Patch]:
    return {major: pc.Patch(f"stand_in.{name}", [pc.Wrap(target, _on_cpu)]) for major, target in targets.items()}


#: mmcv's operators have no kernels on the emulated NPU; these two go to the CPU. By mmcv's major version.
NMS_ON_CPU = _stand_in(
    "nms",
    {
        1: "mmdet3d.core.post_processing.box3d_nms:nms_normal_bev",
        2: "mmdet3d.models.layers.box3d_nms:nms_normal_bev",
    },
)
VOXELS_ON_CPU = _stand_in(
    "voxelization",
    {1: "mmcv.ops.voxelize:voxelization", 2: "mmdet3d.models.data_preprocessors.voxelize:voxelization"},
)


def make_data(root: Path, major: int) -> None:
    """Write the data set to ``root``, and the weights that every training starts from."""
    write = write_for_mmcv_1 if major == 1 else write_for_mmcv_2
    assert write(root, make_samples(SAMPLES)).name == INFORMATION
    torch.manual_seed(0)
    model = _build("focal", major)
    # scores that differ by more than what they are rounded by, so that the same boxes come first
    nn.init.normal_(model.bbox_head.conv_cls.weight, std=1.0)
    torch.save({"state_dict": model.state_dict()}, root / START)


def train(major: int, loss: str, data_root: Path, work_dir: Path) -> Training:
    """Train for :data:`EPOCHS`, on the NPU where there is one, then predict and write nuScenes boxes.

    Args:
        major: the major version of mmcv, the one that is installed.
        loss: one of :data:`pointpillars.LOSSES`.
        data_root: see :func:`make_data`.
        work_dir: for what is written.
    """
    model = _build(loss, major)
    return (_train_by_mmcv if major == 1 else _train_by_mmengine)(model, data_root, work_dir)


def _build(loss: str, major: int) -> Any:
    if major == 1:
        from mmcv import ConfigDict
        from mmdet3d.models import build_model

        return build_model(ConfigDict(pointpillars(loss, major)))
    from mmdet3d.registry import MODELS
    from mmdet3d.utils import register_all_modules
    from mmengine.config import ConfigDict

    register_all_modules(init_default_scope=False)
    return MODELS.build(ConfigDict(pointpillars(loss, major), _scope_="mmdet3d"))


def _state(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}


# --- mmcv 2 -----------------------------------------------------------------------------------------------------------


def _train_by_mmengine(model: nn.Module, data_root: Path, work_dir: Path) -> Training:
    import mmengine
    from mmengine.config import Config
    from mmengine.hooks import Hook
    from mmengine.runner import Runner

    class Recorder(Hook):
        def after_train_iter(self, runner: Any, batch_idx: int, data_batch: Any = None, outputs: Any = None) -> None:
            losses.append({name: value.item() for name, value in outputs.items()})

        def after_val_iter(self, runner: Any, batch_idx: int, data_batch: Any = None, outputs: Any = None) -> None:
            for sample in outputs:
                found = sample.pred_instances_3d
                predictions.append((found.bboxes_3d.tensor.cpu(), found.scores_3d.cpu(), found.labels_3d.cpu()))

    losses: list[dict[str, float]] = []
    predictions: list[tuple[Tensor, Tensor, Tensor]] = []
    dataset = {
        "type": "NuScenesDataset",
        "data_root": str(data_root),
        "ann_file": INFORMATION,
        "data_prefix": {"pts": "samples/LIDAR_TOP", "img": "", "sweeps": ""},
        "metainfo": {"classes": CLASSES},
    }
    train_keys = ["points", "gt_bboxes_3d", "gt_labels_3d"]
    train_pipeline = [_LOAD_POINTS, _LOAD_ANNOTATIONS, {"type": "Pack3DDetInputs", "keys": train_keys}]
    test_pipeline = [_LOAD_POINTS, {"type": "Pack3DDetInputs", "keys": ["points"]}]
    loader = {"num_workers": 0, "sampler": {"type": "DefaultSampler", "shuffle": False}}
    runner = Runner(
        model,
        str(work_dir),
        train_dataloader={**loader, "batch_size": BATCH_SIZE, "dataset": {**dataset, "pipeline": train_pipeline}},
        val_dataloader={
            **loader,
            "batch_size": 1,
            "dataset": {**dataset, "pipeline": test_pipeline, "test_mode": True},
        },
        train_cfg={"by_epoch": True, "max_epochs": EPOCHS, "val_interval": EPOCHS},
        val_cfg={},
        val_evaluator={
            "type": "NuScenesMetric",
            "data_root": str(data_root),
            "ann_file": str(data_root / INFORMATION),
            "format_only": True,
            "jsonfile_prefix": str(work_dir / "submission"),
        },
        optim_wrapper={
            "type": "OptimWrapper",
            "optimizer": {"type": "SGD", "lr": LEARNING_RATE, "momentum": 0.9},
            "clip_grad": {"max_norm": 35.0, "norm_type": 2},
        },
        default_hooks={"checkpoint": None},
        custom_hooks=[Recorder()],
        default_scope="mmdet3d",
        randomness={"seed": 0},
        log_level="WARNING",
        visualizer={"type": "Visualizer", "vis_backends": None},
        experiment_name=work_dir.name,
        load_from=str(data_root / START),
        cfg=Config(),
    )
    try:
        runner.train()  # it evaluates at its end
    finally:
        _forget(runner.experiment_name)
    submission = mmengine.load(work_dir / "submission" / "pred_instances_3d" / "results_nusc.json")
    device = next(runner.model.parameters()).device.type
    return Training(device, losses, _state(runner.model), predictions, submission["results"])


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


def _train_by_mmcv(model: nn.Module, data_root: Path, work_dir: Path) -> Training:
    import mmcv
    from mmcv.runner import Hook, build_runner
    from mmdet.utils import build_dp
    from mmdet3d.datasets import build_dataloader, build_dataset

    class Recorder(Hook):
        def after_train_iter(self, runner: Any) -> None:
            losses.append(dict(runner.outputs["log_vars"]))

    losses: list[dict[str, float]] = []
    bundle = {"type": "DefaultFormatBundle3D", "class_names": CLASSES}
    train_keys = ["points", "gt_bboxes_3d", "gt_labels_3d"]
    dataset = {
        "type": "NuScenesDataset",
        "data_root": str(data_root),
        "ann_file": str(data_root / INFORMATION),
        "classes": CLASSES,
        "box_type_3d": "LiDAR",
    }
    train_pipeline = [_LOAD_POINTS, _LOAD_ANNOTATIONS, bundle, {"type": "Collect3D", "keys": train_keys}]
    as_batch = [{**bundle, "with_label": False}, {"type": "Collect3D", "keys": ["points"]}]
    # one view; forward_test wants a list of them
    views = {"type": "MultiScaleFlipAug3D", "img_scale": (1, 1), "pts_scale_ratio": 1, "flip": False}
    test_pipeline = [_LOAD_POINTS, {**views, "transforms": as_batch}]
    training = build_dataset({**dataset, "pipeline": train_pipeline})
    testing = build_dataset({**dataset, "pipeline": test_pipeline, "test_mode": True})
    loading = {"workers_per_gpu": 0, "dist": False, "shuffle": False, "persistent_workers": False}
    on_npu = hasattr(torch, "npu") and torch.npu.is_available()
    wrapped = build_dp(model, "npu", device_ids=[0]) if on_npu else build_dp(model, "cpu", device_ids=[])
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    runner = build_runner(
        {"type": "EpochBasedRunner", "max_epochs": EPOCHS},
        {
            "model": wrapped,
            "optimizer": optimizer,
            "work_dir": str(work_dir),
            "logger": logging.getLogger("lidar_training"),
            "meta": {},
        },
    )
    runner.register_training_hooks(
        lr_config={"policy": "fixed"}, optimizer_config={"grad_clip": {"max_norm": 35.0, "norm_type": 2}}
    )
    runner.register_hook(Recorder())
    runner.load_checkpoint(str(data_root / START), map_location="cpu")
    runner.run([build_dataloader(training, BATCH_SIZE, **loading)], [("train", 1)])
    weights = _state(model)
    wrapped.eval()
    results = []
    with torch.no_grad():
        for batch in build_dataloader(testing, 1, **loading):
            results += wrapped(return_loss=False, rescale=True, **batch)
    predictions = [(found["boxes_3d"].tensor, found["scores_3d"], found["labels_3d"]) for found in results]
    files, _ = testing.format_results(results, jsonfile_prefix=str(work_dir / "submission"))
    submission = mmcv.load(files if isinstance(files, str) else files["pts_bbox"])
    return Training(next(model.parameters()).device.type, losses, weights, predictions, submission["results"])


def main(major: int, data_root: Path, results: Path) -> None:
    """Make the data, train with every loss, and save what came of it."""
    torch.set_num_threads(1)
    make_data(data_root, major)
    done = {loss: tuple(train(major, loss, data_root, results.parent / f"cpu-{loss}")) for loss in LOSSES}
    torch.save(done, results)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
