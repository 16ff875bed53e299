"""Makes a stock configuration small: tiny images, few iterations, random weights, no evaluation, and losses recorded.

The model stays as it is, layer by layer: what is smaller is what goes through it. Weights are drawn from the seed,
because nothing is downloaded.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.models import data, data3d

#: Iterations of a training, and images of a batch.
ITERATIONS = 3
BATCH_SIZE = 2
SEED = 0
#: What sizes of images are divided by, and what they are multiples of afterwards. mmcv's deformable convolution for the
#: CPU takes no map smaller than its window: there images are larger.
DIVISOR, DIVISOR_DCN, DIVISOR_3D = 12, 8, 4
MULTIPLE = 32
#: A smaller number among the options of a transform is no size of an image.
SMALLEST_SIZE = 256
#: Options of transforms that are sizes of images in pixels.
_SIZES = frozenset(["scale", "scales", "img_scale", "crop_size", "size", "random_size_range", "border", "output_shape"])
#: Boxes that a detector of two stages looks at.
SAMPLED, PROPOSED, KEPT = 64, 200, 100
#: Queries of a transformer: a small image has few places to choose them from.
QUERIES = 50
#: From random weights, a full step would lead far away.
CLIP = {"max_norm": 1.0, "norm_type": 2}

Config = dict[str, Any]


def shrunk(config: Config, major: int, library: str, folder: Path, losses: Path) -> Config:
    """Return a small configuration.

    Args:
        config: a stock one, as plain dictionaries and lists. It is not changed.
        major: the major version of mmcv.
        library: ``mmdet`` or ``mmdet3d``.
        folder: of the data sets.
        losses: file for the losses of each iteration.
    """
    config = copy.deepcopy(config)
    _start_at_random(config["model"])
    _propose_less(config["model"])
    if library == "mmdet3d":
        data3d.shrink(config, folder)
        for node in nodes(config["train_dataloader"]):
            _shrink_sizes(node, DIVISOR_3D)
    else:
        _shrink_images(config, major, folder)
    hook = {"type": "LossRecorder", "path": str(losses), "priority": "HIGHEST"}
    config["custom_hooks"] = [*(config.get("custom_hooks") or ()), hook]
    imports = (config.get("custom_imports") or {}).get("imports") or []
    imports = [imports] if isinstance(imports, str) else list(imports)
    config["custom_imports"] = {"imports": [*imports, "loss_recorder"], "allow_failed_imports": False}
    (_shorten_1 if major == 1 else _shorten_2)(config)
    return config


def nodes(value: Any) -> Iterator[Config]:
    """Yield every dictionary inside of a configuration, outer ones first."""
    if isinstance(value, dict):
        yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for child in children:
        yield from nodes(child)


def _start_at_random(model: Config) -> None:
    for node in nodes(model):
        for key in ("pretrained", "teacher_ckpt"):
            if isinstance(node.get(key), str):
                node[key] = None
        init = node.get("init_cfg")
        if isinstance(init, dict) and (init.get("type") == "Pretrained" or "checkpoint" in init):  # PVT names no type
            del node["init_cfg"]


def _propose_less(model: Config) -> None:
    for node in nodes(model):
        for key in ("num_queries", "num_query"):
            if isinstance(node.get(key), int):
                node[key] = min(node[key], QUERIES)
    for node in nodes(model.get("train_cfg") or {}):
        if str(node.get("type")).endswith("Sampler") and "num" in node:
            node["num"] = min(node["num"], SAMPLED)
        for key, most in (("nms_pre", PROPOSED), ("max_per_img", KEPT)):
            if key in node:
                node[key] = min(node[key], most)


def _shrink_images(config: Config, major: int, folder: Path) -> None:
    deformable = any(str(node.get("type")).startswith(("DCN", "SAC")) for node in nodes(config["model"]))
    divisor = DIVISOR_DCN if deformable else DIVISOR
    for node in nodes(config["data"]["train"] if major == 1 else config["train_dataloader"]):
        if "ann_file" in node:
            _use_data(node, major, folder)
        _shrink_sizes(node, divisor)
    for node in nodes(config["model"].get("data_preprocessor") or {}):
        _shrink_sizes(node, divisor)
    for key in ("input_size", "random_size_range"):  # of YOLOX in mmdet 2
        if key in config["model"]:
            config["model"][key] = _smaller(config["model"][key], divisor)


def _use_data(node: Config, major: int, folder: Path) -> None:
    panoptic = "Panoptic" in str(node.get("type"))
    semantic = data.PANOPTIC_DIR if panoptic else data.SEMANTIC_DIR
    node["ann_file"] = str(folder / (data.PANOPTIC if panoptic else data.INSTANCES))
    if major == 1:
        node["img_prefix"] = str(folder / data.IMAGE_DIR)
        if node.get("seg_prefix"):
            node["seg_prefix"] = str(folder / semantic)
    else:
        node["data_root"] = ""
        prefix = node.get("data_prefix") or {}
        node["data_prefix"] = {"img": str(folder / data.IMAGE_DIR)}
        if "seg" in prefix:
            node["data_prefix"]["seg"] = str(folder / semantic)


def _shrink_sizes(node: Config, divisor: int) -> None:
    for key in _SIZES & node.keys():
        node[key] = _smaller(node[key], divisor)


def _smaller(size: Any, divisor: int) -> Any:
    """Return a size, or sizes, divided; numbers that are no sizes of images stay."""
    if isinstance(size, (list, tuple)):
        return type(size)(_smaller(each, divisor) for each in size)
    if isinstance(size, int) and abs(size) >= SMALLEST_SIZE:
        smaller = MULTIPLE * max(2, round(abs(size) / divisor / MULTIPLE))
        return smaller if size > 0 else -smaller
    return size


def _shorten_2(config: Config) -> None:
    loader = config["train_dataloader"]
    loader.update(batch_size=BATCH_SIZE, num_workers=0, persistent_workers=False)
    loader.pop("prefetch_factor", None)
    cycle = config["train_cfg"]
    cycle.pop("val_interval", None)
    cycle.pop("val_begin", None)
    cycle.pop("dynamic_intervals", None)
    by_epoch = "max_epochs" in cycle
    cycle["max_epochs" if by_epoch else "max_iters"] = 1 if by_epoch else ITERATIONS
    if "type" in cycle:  # a base may have written the same in another way
        cycle.pop("by_epoch", None)
    for node in nodes(loader):
        if node.get("type") == "RepeatDataset":
            node["times"] = 1
    for kind in ("val", "test"):
        for key in (f"{kind}_cfg", f"{kind}_dataloader", f"{kind}_evaluator"):
            config[key] = None
    # A warm-up would hold the learning rate near zero, and backward passes would not show in the losses.
    config["param_scheduler"] = []
    config["optim_wrapper"]["clip_grad"] = CLIP
    hooks = config.setdefault("default_hooks", {})
    hooks["checkpoint"] = None
    hooks.pop("visualization", None)
    hooks["logger"] = {"type": "LoggerHook", "interval": 1}
    config["visualizer"] = {"type": "Visualizer", "vis_backends": None}
    config["randomness"] = {"seed": SEED}
    config["load_from"] = None
    config["env_cfg"] = {
        "cudnn_benchmark": False,
        "mp_cfg": {"mp_start_method": "fork", "opencv_num_threads": 0},
        "dist_cfg": {"backend": "nccl"},
    }


def _shorten_1(config: Config) -> None:
    config["data"].update(samples_per_gpu=BATCH_SIZE, workers_per_gpu=0)
    config["data"]["train_dataloader"] = {"persistent_workers": False}
    for node in nodes(config["data"]["train"]):
        if node.get("type") == "RepeatDataset":
            node["times"] = 1
    kind = config["runner"]["type"]
    limit = {"max_epochs": 1} if kind == "EpochBasedRunner" else {"max_iters": ITERATIONS}
    config["runner"] = {"type": kind, **limit}
    config["lr_config"] = {"policy": "fixed"}
    config["fp16"] = {"loss_scale": 512.0}  # without it, mmdet chooses a scale on an NPU whose first steps overflow
    config["momentum_config"] = None
    config["optimizer_config"] = {**config["optimizer_config"], "grad_clip": CLIP}
    config["checkpoint_config"] = None
    config["log_config"] = {"interval": 1, "hooks": [{"type": "TextLoggerHook"}]}
    config["workflow"] = [("train", 1)]
    config["load_from"] = config["resume_from"] = None
    config["opencv_num_threads"] = 0
