"""The main job, end to end: a stock mmdet training run, patched by installed plugins, and restored.

    python -m examples.mmdet_training

Trains a detector three times from one seed: as it is, with every installed plugin's patches applied (the NPU kernels
replaced by plain PyTorch stand-ins, since this runs on a CPU), and once more after they were taken back. With
``--compile patchcore_c``, there is one more run, compiled by that backend of ``torch.compile``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Optional

import npu_emulator
import patchcore
from examples.mmdet_training.dataset import make_dataset
from examples.mmdet_training.detectors import DETECTORS
from examples.mmdet_training.training import IMAGE_SIZE, IMAGES, train
from patchcore.plugin import Snapshot, did_you_mean
from patchcore.plugin import main as run_command

LIBRARIES = ("torch", "numpy", "mmengine", "mmcv", "mmdet")


def main(argv: Optional[list[str]] = None) -> int:
    """Run the demonstration; return 0 when the restored run equals the first, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m examples.mmdet_training", description=__doc__)
    parser.add_argument("--iterations", type=int, default=12, help="optimiser steps of each run, default: %(default)s")
    parser.add_argument("--model", choices=list(DETECTORS), default="retinanet", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="of data and training, default: %(default)s")
    parser.add_argument("--compile", metavar="BACKEND", help="train once more, compiled by this backend: patchcore_c")
    options = parser.parse_args(argv)
    if options.compile:
        check_backend(parser, options.compile)

    with npu_emulator.install(device=False), tempfile.TemporaryDirectory() as folder:
        headline("What would happen here: patchcore list")
        run_command(["list"])

        data, work = Path(folder, "data"), Path(folder, "work")
        make_dataset(data, IMAGES, IMAGE_SIZE, options.seed)

        headline("Training without patches")
        original = timed_run(work, data, options, "unpatched")

        headline("Applying: names that were bound before are found and rebound")
        before = [Snapshot(library) for library in LIBRARIES]
        patcher = patchcore.Patcher.discover()
        report = patcher.apply()
        print(report)
        edits = [edit for snapshot in before for edit in snapshot.edits()]
        print(f"{len(edits)} places differ from before")

        headline("Training with patches, from the same seed")
        calls = npu_emulator.mx_driving.calls
        calls.clear()
        patched = timed_run(work, data, options, "patched")
        print("kernel calls: " + ", ".join(f"{name} {count}" for name, count in sorted(calls.items())))

        headline("Reverting")
        print(patcher.revert().summary())
        restored = sum(edit.slot.read() is edit.before for edit in edits)
        print(f"{restored} of {len(edits)} places hold the identical original object again")

        headline("Training once more without patches")
        again = timed_run(work, data, options, "restored")

        compiled: list[float] = []
        if options.compile:
            headline(f"Training without patches, the parts of the detector compiled by {options.compile}")
            compiled = timed_run(work, data, options, "compiled", options.compile)
            for line in (line for each in patcher.plugins.sections() if each.title == "graphs" for line in each.lines):
                print(line)

    headline("Losses")
    print(f"{'step':>6}{'unpatched':>14}{'patched':>14}{'difference':>14}{'restored':>14}")
    for step, losses in enumerate(zip(original, patched, again), 1):
        first, second, third = losses
        print(f"{step:>6}{first:>14.6f}{second:>14.6f}{abs(first - second):>14.2e}{third:>14.6f}")
    print(f"largest difference, unpatched against patched: {largest(original, patched):.3e}")
    print(f"largest difference, unpatched against restored: {largest(original, again):.3e}")
    if compiled:
        print(f"largest difference, unpatched against compiled: {largest(original, compiled):.3e}")
    return 0 if original == again and restored == len(edits) else 1


def headline(text: str) -> None:
    """Print the title of a step."""
    print(f"\n== {text}", flush=True)


def check_backend(parser: argparse.ArgumentParser, name: str) -> None:
    """End with a usage error where torch knows no backend of this name: it is asked for last."""
    from torch._dynamo import list_backends

    known = list_backends(exclude_tags=())
    if name not in known:
        parser.error(f"argument --compile: torch knows no backend {name!r}{did_you_mean(name, known)}")


def timed_run(
    work: Path, data: Path, options: argparse.Namespace, name: str, backend: Optional[str] = None
) -> list[float]:
    """Train from ``options.seed`` with a line of progress; return the losses."""
    started = time.perf_counter()
    terminal = sys.stdout.isatty()

    def show(iteration: int, iterations: int, loss: float) -> None:
        bar = f"[{'#' * (20 * iteration // iterations):.<20}] " if terminal else ""
        line = f"{name}: {bar}step {iteration}/{iterations}, loss {loss:.4f}, {time.perf_counter() - started:.1f} s"
        if terminal or iteration == iterations:
            print(f"\r{line}" if terminal else line, end="\n" if iteration == iterations else "", flush=True)

    print(f"{name}: loading the libraries and building the detector ...", end="\r" if terminal else "\n", flush=True)
    return train(work / name, data, options.iterations, options.seed, show, options.model, backend)


def largest(first: list[float], second: list[float]) -> float:
    """Return the largest absolute difference of two runs' losses."""
    return max(abs(a - b) for a, b in zip(first, second))


if __name__ == "__main__":
    raise SystemExit(main())
