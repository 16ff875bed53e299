"""Train on one GPU, or on several with torchrun: see train.sh."""

import argparse
import contextlib
import os

import torch
import torch.distributed as dist
from bevseg import BEVSegmenter, Scenes
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, DistributedSampler


def parse_options():
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--scenes", type=int, default=16)
    parser.add_argument("--no-amp", action="store_true", help="train in float32")
    parser.add_argument("--checkpoint", default="work_dirs/cuda_latest.pth")
    parser.add_argument("--profile", action="store_true", help="write a trace of the first epoch")
    return parser.parse_args()


@contextlib.contextmanager
def profiled(wanted):
    """Record what runs in the block, with ranges for Nsight."""
    if not wanted:
        yield
        return
    torch.cuda.nvtx.range_push("epoch")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        yield
    torch.cuda.nvtx.range_pop()
    recorded.export_chrome_trace("trace.json")


def train_one_epoch(model, loader, rig, optimizer, scaler, device, amp):
    """Return the mean loss."""
    model.train()
    weight = torch.tensor(20.0, device=device)
    total = 0.0
    for batch in loader:
        images = batch["images"].to(device, non_blocking=True)
        occupied = batch["occupied"].to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", enabled=amp):
            logits = model(images, *rig)
        loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), occupied, pos_weight=weight)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    return total / len(loader)


def main():
    """Train, save, and load again."""
    options = parse_options()
    device = options.device
    distributed = int(os.environ.get("WORLD_SIZE", 1)) > 1
    rank = 0
    if distributed:
        dist.init_process_group(backend="nccl")
        rank = dist.get_rank()
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if device == "cuda":
        torch.backends.cudnn.benchmark = True
        if rank == 0:
            print(f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}")
    torch.manual_seed(0)

    data = Scenes(options.scenes)
    sampler = DistributedSampler(data) if distributed else None
    loader = DataLoader(data, 4, sampler=sampler, shuffle=sampler is None, pin_memory=device == "cuda")
    rig = [data.intrinsics.to(device), data.poses.to(device)]
    model = BEVSegmenter().to(device)
    if distributed:
        model = DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    bare = model.module if distributed else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    amp = device == "cuda" and not options.no_amp
    scaler = torch.amp.GradScaler("cuda", enabled=amp)

    for epoch in range(1, options.epochs + 1):
        if distributed:
            sampler.set_epoch(epoch)
        with profiled(options.profile and epoch == 1):
            loss = train_one_epoch(model, loader, rig, optimizer, scaler, device, amp)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss:.4f}")

    if rank == 0:
        os.makedirs(os.path.dirname(options.checkpoint) or ".", exist_ok=True)
        torch.save(bare.state_dict(), options.checkpoint)
        restored = torch.load(options.checkpoint, map_location=device)
        bare.load_state_dict(restored)
        print(f"saved and restored {options.checkpoint}, on {next(bare.parameters()).device}")
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
