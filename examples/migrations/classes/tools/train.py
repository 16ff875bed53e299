"""Train the model of pillars on GPUs, or for debugging on the CPU."""

import argparse
import os
import tempfile

import torch
from torch.utils.data import DataLoader, DistributedSampler, default_collate

import projects.pillars.models  # noqa: F401  the registry knows them now
from projects.pillars.data import Sweeps
from projects.pillars.models.net import MODELS

BACKBONE = {
    "type": "ResNet",
    "depth": 18,
    "in_channels": 32,
    "base_channels": 16,
    "num_stages": 2,
    "strides": (1, 1),
    "dilations": (1, 1),
    "out_indices": (1,),
    "init_cfg": [],
}
MODEL = {"type": "PillarNet", "backbone": BACKBONE, "head": {"type": "PillarHeadV1", "channels": 32}}
OPTIMIZER = {"type": "SGD", "lr": 0.02, "momentum": 0.9, "weight_decay": 1e-4}

try:
    from mmengine.hooks import Hook
except ImportError:  # mmcv 1
    from mmcv.runner import Hook


class PrintLoss(Hook):
    """Prints the loss of each step, on each rank."""

    def after_train_iter(self, runner, batch_idx=None, data_batch=None, outputs=None):
        outputs = runner.outputs if outputs is None else outputs
        rank = int(os.environ.get("RANK", 0))
        print(f"rank {rank} step {runner.iter + 1}: loss {outputs['loss'].item():.5f}", flush=True)


def collate_containers(sweeps):
    """Return a batch as MMDataParallel takes it."""
    from mmcv.parallel import DataContainer

    return {name: DataContainer([tensor], stack=True) for name, tensor in default_collate(sweeps).items()}


def train_with_mmengine(model, data, loading, launcher, work_dir):
    from mmengine.runner import Runner

    runner = Runner(
        model,
        work_dir,
        train_dataloader=DataLoader(data, **loading),
        train_cfg={"by_epoch": True, "max_epochs": 1},
        optim_wrapper={"optimizer": OPTIMIZER, "clip_grad": {"max_norm": 1.0}},
        custom_hooks=[PrintLoss()],
        default_hooks={"logger": None, "checkpoint": None},
        launcher=launcher,
        log_level="WARNING",
    )
    runner.train()


def train_with_mmcv(model, data, loading, launcher, work_dir):
    import logging

    from mmcv.parallel import MMDataParallel, MMDistributedDataParallel
    from mmcv.runner import EpochBasedRunner, build_optimizer

    optimizer = build_optimizer(model, OPTIMIZER)
    if launcher != "none":
        model = MMDistributedDataParallel(model, device_ids=[torch.cuda.current_device()], broadcast_buffers=False)
    else:
        model = MMDataParallel(model, device_ids=[torch.cuda.current_device()] if torch.cuda.is_available() else None)
    logger = logging.getLogger("pillars")
    runner = EpochBasedRunner(model, optimizer=optimizer, work_dir=work_dir, logger=logger, max_epochs=1)
    runner.register_training_hooks({"policy": "fixed"}, {"grad_clip": {"max_norm": 1.0}})
    runner.register_hook(PrintLoss(), priority="VERY_LOW")
    runner.run([DataLoader(data, collate_fn=collate_containers, **loading)], [("train", 1)])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--launcher", choices=("none", "pytorch"), default="none")
    options, _ = parser.parse_known_args(arguments)

    if options.launcher != "none":
        try:
            from mmengine.dist import init_dist
        except ImportError:  # mmcv 1
            from mmcv.runner import init_dist
        init_dist(options.launcher, backend="nccl")
    torch.manual_seed(0)
    model = MODELS.build(MODEL)
    if torch.cuda.is_available():
        model = model.cuda()
    data = Sweeps(2 * options.steps * int(os.environ.get("WORLD_SIZE", 1)))
    loading = {"batch_size": 2, "num_workers": options.workers}
    loading["multiprocessing_context"] = "spawn" if options.workers else None
    loading["sampler"] = DistributedSampler(data, shuffle=False) if options.launcher != "none" else None
    train = train_with_mmengine if "mmengine" in Hook.__module__ else train_with_mmcv
    with tempfile.TemporaryDirectory() as work_dir:
        train(model, data, loading, options.launcher, work_dir)
    print(f"trained on {next(model.parameters()).device}", flush=True)


if __name__ == "__main__":
    main()
