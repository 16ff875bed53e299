"""What the real torch_npu on the fake CANN costs next to the CPU: the same work on both devices, in turn."""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Samples, Timing, interleave, wall
from benchmarks.processes import environment, reported, run
from benchmarks.rows import Budget, Limit, RatioLimit, Row, TimeLimit, compare, skipped
from benchmarks.subjects import missing
from benchmarks.subjects.emulated_device import CPU, MIDDLE, OPERATIONS, TINY, timing, training

if TYPE_CHECKING:
    from torch import nn

SUBJECT = "fake-cann"
IMPORT, ALONE = "import torch, which imports torch_npu", "import torch without torch_npu"
ADD = next(iter(OPERATIONS))
BLOCK = "training step, transformer block on 4 x 64 x 128"
DETECTOR = "training step, RetinaNet-R18 of mmdet on 1 x 3 x 256 x 256"
MANY = "8 processes at once, each training the tiny MLP"
#: The same work while operators compute nothing: the time that is left is torch_npu's and torch's own.
ALONE_IN = {f"{what}, operators compute nothing": what for what in (ADD, TINY)}
IN_ONE_PROCESS = (*OPERATIONS, TINY, *ALONE_IN, MIDDLE, BLOCK, DETECTOR)
LIMITS: dict[str, Limit] = {ADD: TimeLimit(4e-6), TINY: RatioLimit(2), DETECTOR: RatioLimit(1.3)}
PROCESSES = 8


def rows(budget: Budget) -> list[Row]:
    """Measure everything in the environment of the real torch_npu; without it, every row is skipped."""
    why = missing("torch", "torch_npu", "fake_cann", "mmdet")
    if why is not None:
        reason = f"{why}: nox -s cann-plugins has an environment with it"
        return [skipped(SUBJECT, what, CPU, reason) for what in (IMPORT, *IN_ONE_PROCESS, MANY)]
    quick = ["--quick"] * budget.quick
    on_cann = ["-m", "fake_cann", "run"]
    npu = json.loads(run([*on_cann, "-c", _ENVIRON], environment()).splitlines()[-1])
    cpu = {**environment(), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    imports = {"ours": reported(_IMPORT, npu), "theirs": reported(_IMPORT, cpu)}
    taken = interleave(imports, budget.rounds(10))
    found = [compare(SUBJECT, IMPORT, ALONE, taken["ours"], taken["theirs"], budget=budget)]
    answer = json.loads(run([*on_cann, "-m", __name__, "npu", *quick], environment()).splitlines()[-1])
    for what, devices in answer.items():
        ours, theirs = (Samples(tuple(devices[device])) for device in ("npu", "cpu"))
        found.append(compare(SUBJECT, what, CPU, ours, theirs, budget=budget, limit=LIMITS.get(what)))
    many = {"npu": _at_once("npu", npu), "cpu": _at_once("cpu", cpu)}
    taken = interleave(many, budget.rounds(5))
    found.append(compare(SUBJECT, MANY, CPU, taken["npu"], taken["cpu"], budget=budget))
    return found


_ENVIRON = "import json, os; print(json.dumps(dict(os.environ)))"
_IMPORT = "import time; start = time.perf_counter(); import torch; print(time.perf_counter() - start)"


def _at_once(device: str, env: dict[str, str]) -> Timing:
    """Return a timing of processes from their start to the end of the last."""
    command = [sys.executable, "-m", __name__, device, "--steps", "200"]

    def start_and_wait() -> None:
        children = [subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) for _ in range(PROCESSES)]
        codes = [child.wait() for child in children]
        if any(codes):
            raise RuntimeError(f"one of {PROCESSES} processes on {device} has failed, its message is above")

    return lambda: wall(start_and_wait)


def main() -> None:
    """Measure in this process and print the seconds of every round, as JSON; or train for some steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=("npu", "cpu"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steps", type=int)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    if options.steps:
        step = timing(TINY, options.device, Budget(quick=True))
        for _ in range(options.steps // 2):  # two steps each
            step()
        return
    budget = Budget(options.quick)
    found: dict[str, dict[str, Any]] = {}
    for what in IN_ONE_PROCESS:
        timings = {device: _timing(what, device, budget) for device in ("npu", "cpu")}
        samples = interleave(timings, budget.rounds(10 if what in (MIDDLE, DETECTOR) else 40))
        found[what] = {device: taken.values for device, taken in samples.items()}
    print()
    json.dump(found, sys.stdout)


def _timing(what: str, device: str, budget: Budget) -> Timing:
    import torch

    if what in ALONE_IN:
        taken = _timing(ALONE_IN[what], device, budget)
        return taken if device == "cpu" else _computing_nothing(taken)
    torch.manual_seed(0)
    if what == BLOCK:
        block = torch.nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
        return training(block, torch.randn(4, 64, 128), device, steps=2 if budget.quick else 10)
    if what == DETECTOR:
        return _detector(device)
    return timing(what, device, budget)


def _computing_nothing(taken: Timing) -> Timing:
    """Return a timing of the same work in which operators on the device return at once."""
    from fake_cann.build import libraries

    library = ctypes.CDLL(str(libraries() / "libopapi.so"))

    def timed() -> float:
        library.fake_cann_compute(0)
        try:
            return taken()
        finally:
            library.fake_cann_compute(1)

    return timed


def _detector(device: str) -> Timing:
    """Return a timing of one step of a stock detector: forward with the losses, backward, SGD."""
    import mmdet
    import torch
    from mmdet.registry import MODELS
    from mmdet.structures import DetDataSample
    from mmengine.config import Config
    from mmengine.registry import init_default_scope
    from mmengine.structures import InstanceData

    init_default_scope("mmdet")
    folder = Path(mmdet.__file__).parent / ".mim" / "configs" / "retinanet"
    config = Config.fromfile(folder / "retinanet_r18_fpn_1x_coco.py").model
    config.backbone.init_cfg = None  # else weights are downloaded
    model: nn.Module = MODELS.build(config).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    images = torch.randn(1, 3, 256, 256).to(device)
    sample = DetDataSample(metainfo={"img_shape": (256, 256), "batch_input_shape": (256, 256), "pad_shape": (256, 256)})
    boxes = torch.tensor([[20.0, 30.0, 120.0, 200.0], [100.0, 10.0, 220.0, 90.0]])
    sample.gt_instances = InstanceData(bboxes=boxes.to(device), labels=torch.tensor([1, 5]).to(device))

    def train() -> None:
        optimizer.zero_grad()
        losses = model(images, [sample], mode="loss")
        sum(torch.stack(tuple(values)).sum() for values in losses.values()).backward()
        optimizer.step()

    return lambda: wall(train)


if __name__ == "__main__":
    main()
