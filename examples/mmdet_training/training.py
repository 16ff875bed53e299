"""Train a small stock mmdet detector on the CPU with mmengine's own ``Runner``.

Nothing of mmengine, mmcv or mmdet is changed, and none of them, nor torch, is imported before :func:`train` runs::

    python -m examples.mmdet_training.training --model retinanet --iterations 20
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional

from examples.mmdet_training.dataset import ANNOTATION_FILE, CLASSES, IMAGE_DIR, make_dataset
from examples.mmdet_training.detectors import DETECTORS

if TYPE_CHECKING:
    from mmengine.hooks import Hook

BATCH_SIZE = 2
"""Images per optimiser step."""

IMAGES = 8
"""Images in the data set the command line makes."""

IMAGE_SIZE = (96, 128)
"""Their height and width in pixels."""

PARTS = ("backbone", "neck", "encoder", "decoder", "bbox_head")
"""The attributes of a detector that :func:`compile_parts` looks for."""

OnIteration = Callable[[int, int, float], None]
"""Called with the step (from 1), the number of steps and the total loss."""


def train(
    work_dir: Path,
    data_root: Path,
    iterations: int,
    seed: int,
    on_iteration: Optional[OnIteration] = None,
    model: str = "retinanet",
    backend: Optional[str] = None,
) -> list[float]:
    """Train a detector from random weights and return its total loss at every iteration.

    The losses depend on the arguments and the data only: they are the same bit for bit in the next call, in another
    process, and after a call with other arguments. The training uses one CPU thread, so that the order of summation
    does not depend on the machine's core count.

    Args:
        work_dir: Folder for mmengine's log and copy of the configuration; created when missing.
        data_root: Folder written by :func:`examples.mmdet_training.dataset.make_dataset`.
        iterations: Number of optimiser steps, each on a batch of two images; at least 1.
        seed: Seed of the weights, the order of the images and their random flips.
        on_iteration: Called after every step, see :data:`OnIteration`; an exception it raises ends the training.
        model: Name of a detector in :data:`examples.mmdet_training.detectors.DETECTORS`.
        backend: Of ``torch.compile``, for the parts of the detector; ``None`` compiles nothing.

    Returns:
        ``iterations`` losses, in order.

    Raises:
        ValueError: ``iterations`` is below 1 or ``model`` is unknown.
        FileNotFoundError: ``data_root`` holds no data set.
    """
    config = _config(work_dir, data_root, iterations, seed, model)

    from mmengine.config import Config
    from mmengine.runner import Runner

    losses: list[float] = []
    with _process_state_restored(), _one_thread(), _known_warnings_ignored():
        runner = Runner.from_cfg(Config(config))
        if backend is not None:
            compile_parts(runner.model, backend)
        runner.register_hook(_loss_recorder(losses, on_iteration))
        # pycocotools prints while it indexes the annotations, and only there: have the loop built before train() does.
        with contextlib.redirect_stdout(io.StringIO()):
            runner.train_loop  # noqa: B018
        runner.train()
    return losses


def compile_parts(detector: Any, backend: Any, **options: Any) -> None:
    """Have the parts of a detector that compute compiled, each by itself: backbone, neck, transformer, head.

    What assigns boxes to predictions, and the losses, stay as they are: there is little to gain in them.

    Args:
        detector: of mmdet; it keeps its type and its parameters' names.
        backend: of ``torch.compile``.
        options: others of ``torch.compile``.
    """
    for name in PARTS:
        if hasattr(detector, name):
            getattr(detector, name).compile(backend=backend, **options)


def _config(work_dir: Path, data_root: Path, iterations: int, seed: int, model: str) -> dict[str, Any]:
    """Return the whole configuration of the run, after checking the arguments of :func:`train`."""
    if iterations < 1:
        raise ValueError(f"train: iterations must be at least 1, got {iterations}")
    if model not in DETECTORS:
        raise ValueError(f"train: model must be one of {', '.join(DETECTORS)}, got {model!r}")
    if not (data_root / ANNOTATION_FILE).is_file():
        raise FileNotFoundError(
            f"train: no {ANNOTATION_FILE} in {data_root}; write the data set first: "
            f"make_dataset(Path({str(data_root)!r}), images={IMAGES}, size={IMAGE_SIZE}, seed=0)"
        )
    return {
        "default_scope": "mmdet",
        "experiment_name": model,
        "work_dir": str(work_dir),
        "log_level": "WARNING",
        "randomness": {"seed": seed},
        "model": DETECTORS[model](len(CLASSES)),
        "train_dataloader": {
            "batch_size": BATCH_SIZE,
            "num_workers": 0,
            # IterBasedTrainLoop sleeps two seconds whenever a finite sampler runs out (mmengine 0.10.7).
            "sampler": {"type": "InfiniteSampler", "shuffle": True},
            "dataset": {
                "type": "CocoDataset",
                "data_root": str(data_root),
                "ann_file": ANNOTATION_FILE,
                "data_prefix": {"img": IMAGE_DIR},
                "metainfo": {"classes": CLASSES},
                "pipeline": [
                    {"type": "LoadImageFromFile"},
                    {"type": "LoadAnnotations", "with_bbox": True},
                    {"type": "RandomFlip", "prob": 0.5},
                    {"type": "PackDetInputs"},
                ],
            },
        },
        "train_cfg": {"type": "IterBasedTrainLoop", "max_iters": iterations},
        "optim_wrapper": {
            "type": "OptimWrapper",
            "optimizer": {"type": "SGD", "lr": 0.02, "momentum": 0.9, "weight_decay": 0.0001},
            "clip_grad": {"max_norm": 1.0, "norm_type": 2},
        },
        # Left alone, these two would write a checkpoint and the loss curves of every run to work_dir.
        "default_hooks": {"checkpoint": None},
        "visualizer": {"type": "Visualizer", "vis_backends": None},
    }


def _loss_recorder(losses: list[float], on_iteration: Optional[OnIteration]) -> Hook:
    """Return a hook that appends the total loss of every iteration to ``losses`` and reports it."""
    from mmengine.hooks import Hook
    from mmengine.runner import Runner

    class LossRecorder(Hook):
        def after_train_iter(
            self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Optional[dict[str, Any]] = None
        ) -> None:
            assert outputs is not None  # the loop always passes what train_step returned
            losses.append(outputs["loss"].item())
            if on_iteration is not None:
                on_iteration(batch_idx + 1, runner.max_iters, losses[-1])

    return LossRecorder()


@contextlib.contextmanager
def _process_state_restored() -> Iterator[None]:
    """Take back what a ``Runner`` leaves in the process.

    mmengine keeps every default scope, logger, message hub and visualizer by name, for good, and hands out the newest
    as the current one; names are unique per second only. The instances made inside the block are dropped and their log
    files closed, and the random generators it seeds get their state back.
    """
    import numpy as np
    import torch

    names = {manager: set(manager._instance_dict) for manager in _managers()}
    python_state, numpy_state, torch_state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        for manager in _managers():
            for name in set(manager._instance_dict) - names.get(manager, set()):
                instance = manager._instance_dict.pop(name)
                for handler in getattr(instance, "handlers", ()):
                    handler.close()
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(torch_state)


def _managers() -> list[Any]:
    """Return mmengine's classes that keep their instances by name, as far as they are imported."""
    from mmengine.utils import ManagerMixin

    managers = list(ManagerMixin.__subclasses__())
    for manager in managers:  # grows while it is walked: subclasses of subclasses
        managers.extend(manager.__subclasses__())
    return managers


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch compute on one CPU thread.

    Where other work keeps the cores busy, threads on tensors this small mostly wait for each other: 20 iterations of
    RetinaNet took 95 s with two threads and 3.6 s with one on a two-core machine under load.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def _known_warnings_ignored() -> Iterator[None]:
    """Keep quiet about what mmdet 3.3.0 and mmcv 2.1.0 do that torch 2.13.0 warns of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.meshgrid: in an upcoming release", category=UserWarning)
        # graphs break at the C++ kernels of mmcv
        warnings.filterwarnings("ignore", message="Dynamo does not know how to trace the builtin", category=UserWarning)
        yield


def main(argv: Optional[list[str]] = None) -> int:
    """Make a data set in a temporary folder, train on it, and print the loss of every iteration.

    Args:
        argv: Command-line arguments without the program name; ``None`` reads ``sys.argv``.

    Returns:
        The exit code, 0.
    """
    description = "Train a small stock mmdet detector on a data set made for it, and print the loss of every iteration."
    parser = argparse.ArgumentParser(prog="python -m examples.mmdet_training.training", description=description)
    parser.add_argument("--model", choices=list(DETECTORS), default="retinanet", help="default: %(default)s")
    parser.add_argument("--iterations", type=int, default=20, help="optimiser steps, default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of data and training, default: %(default)s")
    options = parser.parse_args(argv)
    if options.iterations < 1:
        parser.error(f"argument --iterations: expected at least 1, got {options.iterations}")

    started = time.perf_counter()

    def show(iteration: int, iterations: int, loss: float) -> None:
        step = f"{iteration:>{len(str(iterations))}}/{iterations}"
        print(f"{options.model}  {step}  loss {loss:8.4f}  {time.perf_counter() - started:6.1f} s", flush=True)

    print(f"{options.model}: importing torch, mmengine and mmdet, building the detector ...", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        data_root, work_dir = Path(folder, "data"), Path(folder, "work")
        make_dataset(data_root, IMAGES, IMAGE_SIZE, options.seed)
        train(work_dir, data_root, options.iterations, options.seed, on_iteration=show, model=options.model)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
