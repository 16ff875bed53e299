"""Train the occupancy model on a GPU, or for debugging on the CPU."""

import argparse
import tempfile

import torch
from torch.utils.data import DataLoader, default_collate

from projects.occupancy import Scenes
from projects.occupancy.detector import MODELS

BACKBONE = {
    "type": "ResNet",
    "depth": 50,
    "num_stages": 2,
    "strides": (1, 2),
    "dilations": (1, 1),
    "out_indices": (1,),
    "base_channels": 32,
    "frozen_stages": 0,
    "dcn": {"type": "DCNv2", "deform_groups": 1, "fallback_on_stride": False},
    "stage_with_dcn": (False, True),
}
MODEL = {"type": "OccupancyNet", "backbone": BACKBONE, "channels": 256}

try:
    from mmengine.hooks import Hook
except ImportError:  # mmcv 1
    from mmcv.runner import Hook


class PrintLoss(Hook):
    """Prints the loss of each step."""

    def after_train_iter(self, runner, batch_idx=None, data_batch=None, outputs=None):
        outputs = runner.outputs if outputs is None else outputs
        print(f"step {runner.iter + 1}: loss {outputs['loss'].item():.5f}", flush=True)


def collate_containers(scenes):
    """Return a batch as MMDataParallel takes it."""
    from mmcv.parallel import DataContainer

    return {name: DataContainer([tensor], stack=True) for name, tensor in default_collate(scenes).items()}


def train_with_mmengine(model, loader, work_dir):
    from mmengine.runner import Runner

    runner = Runner(
        model,
        work_dir,
        train_dataloader=loader,
        train_cfg={"by_epoch": True, "max_epochs": 1},
        optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.02, "momentum": 0.9}, "clip_grad": {"max_norm": 5.0}},
        custom_hooks=[PrintLoss()],
        default_hooks={"logger": None, "checkpoint": None},
        log_level="WARNING",
    )
    runner.train()


def train_with_mmcv(model, loader, work_dir):
    import logging

    from mmcv.parallel import MMDataParallel
    from mmcv.runner import EpochBasedRunner, build_optimizer

    optimizer = build_optimizer(model, {"type": "SGD", "lr": 0.02, "momentum": 0.9})
    model = MMDataParallel(model, device_ids=[torch.cuda.current_device()] if torch.cuda.is_available() else None)
    logger = logging.getLogger("occupancy")
    runner = EpochBasedRunner(model, optimizer=optimizer, work_dir=work_dir, logger=logger, max_epochs=1)
    runner.register_training_hooks({"policy": "fixed"}, {"grad_clip": {"max_norm": 5.0}})
    runner.register_hook(PrintLoss(), priority="VERY_LOW")
    runner.run([loader], [("train", 1)])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    model = MODELS.build(MODEL)
    if torch.cuda.is_available():
        torch.cuda.set_device("cuda:0")
        model = model.cuda()
    data = Scenes(2 * options.steps)
    loading = {"batch_size": 2, "num_workers": options.workers}
    loading["multiprocessing_context"] = "spawn" if options.workers else None
    if "mmengine" in Hook.__module__:
        train, loader = train_with_mmengine, DataLoader(data, **loading)
    else:
        train, loader = train_with_mmcv, DataLoader(data, collate_fn=collate_containers, **loading)
    with tempfile.TemporaryDirectory() as work_dir:
        train(model, loader, work_dir)
    print(f"trained on {next(model.parameters()).device}")


if __name__ == "__main__":
    main()
