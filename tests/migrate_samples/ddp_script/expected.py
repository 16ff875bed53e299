"""Train a small image classifier on CUDA: automatic mixed precision, gradient scaling, DDP, checkpoints.

Nothing here knows of NPUs, patchcore or the emulator; it is what a CUDA training script looks like.

    python examples/train_cuda.py                                       # one GPU
    torchrun --nproc-per-node 2 examples/train_cuda.py                  # two

The same script on an emulated NPU, with a report of every call that was redirected:

    patchcore run --emulate-npu --report-dir reports examples/train_cuda.py
    patchcore run --emulate-npu --report-dir reports -- torchrun --nproc-per-node 2 examples/train_cuda.py
    patchcore report reports
"""

import argparse
import os
import tempfile
from pathlib import Path

import torch
import torch_npu  # noqa: F401
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Shapes(Dataset):
    """Noisy images of 3 x 16 x 16 whose brightest quarter is their class."""

    def __init__(self, length):
        generator = torch.Generator().manual_seed(7)
        self.labels = torch.randint(4, (length,), generator=generator)
        self.images = torch.randn(length, 3, 16, 16, generator=generator)
        for image, label in zip(self.images, self.labels.tolist()):
            row, column = divmod(label, 2)
            image[:, row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] += 1.5

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


def make_model():
    """Return the classifier."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 4),
    )


def train_one_epoch(model, loader, optimizer, scaler, loss_of):
    """Return the mean loss, on the GPU."""
    model.train()
    total = torch.zeros((), device="npu")
    for images, labels in loader:
        images = images.npu(non_blocking=True)
        labels = labels.npu(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("npu", dtype=torch.float16):
            loss = loss_of(model(images), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.detach()
    return total / len(loader)


@torch.no_grad()
def accuracy(model, loader):
    """Return the share of images whose class is found."""
    model.eval()
    right = torch.tensor(0, device="npu")
    for images, labels in loader:
        right += (model(images.npu()).argmax(1) == labels.npu()).sum()
    return right.item() / len(loader.dataset)


def main():
    """Train, save, load again, and see whether it is the same."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--work-dir", type=Path, default=Path(tempfile.gettempdir(), "cuda_checkpoints"))
    options = parser.parse_args()

    if not torch.npu.is_available():
        raise SystemExit("this script needs a GPU")
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.npu.set_device(local_rank)
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    torch.npu.manual_seed_all(0)
    distributed = int(os.environ.get("WORLD_SIZE", 1)) > 1
    if distributed:
        dist.init_process_group(backend="hccl")
    rank = dist.get_rank() if distributed else 0

    data = Shapes(256)
    sampler = DistributedSampler(data) if distributed else None
    loader = DataLoader(
        data, 32, shuffle=sampler is None, sampler=sampler, num_workers=options.workers, pin_memory=True, drop_last=True
    )
    model = make_model().npu()
    if distributed:
        model = DistributedDataParallel(model, device_ids=[local_rank], output_device=local_rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.npu.amp.GradScaler()
    loss_of = nn.CrossEntropyLoss().npu()

    for epoch in range(options.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        loss = train_one_epoch(model, loader, optimizer, scaler, loss_of)
        if distributed:
            dist.all_reduce(loss)
            loss /= dist.get_world_size()
        torch.npu.synchronize()
        if rank == 0:
            memory = torch.npu.max_memory_allocated() / 2**20
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}, {memory:.1f} MiB on {torch.npu.get_device_name()}")

    options.work_dir.mkdir(parents=True, exist_ok=True)
    path = options.work_dir / "cuda_model.pth"
    if rank == 0:
        bare = model.module if distributed else model
        torch.save({"model": bare.state_dict(), "optimizer": optimizer.state_dict()}, path)
    if distributed:
        dist.barrier()
    restored = make_model().to(f"npu:{local_rank}")
    restored.load_state_dict(torch.load(str(path), map_location="npu")["model"])
    found = accuracy(restored, DataLoader(data, 64))
    if rank == 0:
        print(f"restored from {path}: accuracy {found:.2f}, parameters on {next(restored.parameters()).device}")
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
