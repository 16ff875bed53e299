"""What the emulated NPU costs next to the CPU: the same work on both devices, in turn, in one process per core."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any, Callable

from benchmarks.measure import Samples, Timing, interleave, statement, wall
from benchmarks.processes import environment, run
from benchmarks.rows import Budget, RatioLimit, Row, compare, skipped
from benchmarks.subjects import missing

if TYPE_CHECKING:
    from torch import Tensor, nn

SUBJECT = "emulated-device"
CPU = "plain CPU"
CORES = ("native", "python")

#: Single operations: what is timed, and the statement.
OPERATIONS = {
    "add of 16 elements": "a + b",
    "relu of 16 elements": "a.relu()",
    "matmul of 8 x 8": "m @ m",
    "view of 16 elements": "a.view(4, 4)",
    "slice of 16 elements": "a[2:6]",
}
TINY, MIDDLE = "training step, tiny MLP", "training step, residual network on 4 x 3 x 64 x 64"
WHATS = (*OPERATIONS, TINY, MIDDLE)


def _limits(small: float, view: float, tiny: float, middle: float) -> dict[str, RatioLimit]:
    kinds = {"view of 16 elements": view, "slice of 16 elements": view, TINY: tiny, MIDDLE: middle}
    return {what: RatioLimit(kinds.get(what, small)) for what in WHATS}


#: Over plain CPU. The core in Python enters Python for every operation, views too.
LIMITS = {
    "native": _limits(small=1.7, view=1.1, tiny=1.2, middle=1.1),
    "python": _limits(small=12, view=12, tiny=3, middle=1.2),
}


def rows(budget: Budget) -> list[Row]:
    """Measure each core in a process of its own, for a process has one device at most."""
    why = missing("torch", "npu_emulator")
    found: list[Row] = []
    for core in CORES:
        reason = why
        samples: dict[str, dict[str, Samples]] = {}
        if reason is None:
            arguments = ["-m", __name__, core, *(["--quick"] if budget.quick else [])]
            answer = json.loads(run(arguments, environment()).splitlines()[-1])
            reason = answer["missing"]
            for what, devices in answer["seconds"].items():
                samples[what] = {device: Samples(tuple(values)) for device, values in devices.items()}
        for what in WHATS:
            name = f"{core} core: {what}"
            if reason is not None:
                found.append(skipped(SUBJECT, name, CPU, reason))
                continue
            npu, cpu = samples[what]["npu"], samples[what]["cpu"]
            found.append(compare(SUBJECT, name, CPU, npu, cpu, budget=budget, limit=LIMITS[core][what]))
    return found


def main() -> None:
    """Measure one core in this process; print why it cannot be, or the seconds of every round, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("core", choices=CORES)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    answer: dict[str, Any] = {"missing": None, "seconds": {}}
    if options.core == "native" and not _is_built():
        answer["missing"] = "the compiled core is not built: python -m npu_emulator build"
    else:
        answer["seconds"] = _measure(options.core, Budget(options.quick))
    json.dump(answer, sys.stdout)


def _is_built() -> bool:
    from npu_emulator.device import native

    return native.is_built()


def _measure(core: str, budget: Budget) -> dict[str, dict[str, tuple[float, ...]]]:
    import npu_emulator

    npu_emulator.install(core=core)
    import torch

    torch.set_num_threads(1)
    with torch.device("npu"):
        assert torch.ones(2).device.type == "npu"
    found = {}
    for what in WHATS:
        timings = {device: timing(what, device, budget) for device in ("npu", "cpu")}
        samples = interleave(timings, budget.rounds(10 if what == MIDDLE else 40))
        found[what] = {device: taken.values for device, taken in samples.items()}
    return found


def timing(what: str, device: str, budget: Budget) -> Timing:
    """Return a timing of one of :data:`WHATS` on a device."""
    import torch

    torch.manual_seed(0)
    if what in OPERATIONS:
        names = {"a": torch.randn(16).to(device), "b": torch.randn(16).to(device), "m": torch.randn(8, 8).to(device)}
        return statement(OPERATIONS[what], names, seconds=1e-3 if budget.quick else 5e-3)
    if what == TINY:
        layers = (torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        return training(torch.nn.Sequential(*layers), torch.randn(8, 16), device, steps=2 if budget.quick else 20)
    return training(_residual_network(), torch.randn(4, 3, 64, 64), device, steps=1)


def training(model: nn.Module, images: Tensor, device: str, *, steps: int) -> Timing:
    """Return a timing of one step: forward, backward, SGD with momentum."""
    import torch

    model, images = model.to(device), images.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def train() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            model(images).square().mean().backward()
            optimizer.step()

    return lambda: wall(train) / steps


def _residual_network() -> nn.Module:
    """Return a network of eight residual blocks with the widths of ResNet-18 (He et al., arXiv:1512.03385)."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self, channels: int, out: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(out)
            self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(out)
            self.skip: Callable[[Any], Any] = nn.Identity()
            if stride > 1:
                self.skip = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x: Tensor) -> Tensor:
            residual = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
            return (residual + self.skip(x)).relu()

    stem = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    widths += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return nn.Sequential(*stem, *(Block(*width) for width in widths), *head)


if __name__ == "__main__":
    main()
