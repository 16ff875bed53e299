"""Trains one model by the stock script: on the CPU as it is, on the emulated NPU with the default set of patches."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tools.models import data, data3d
from tools.models.shrinking import shrunk
from tools.models.zoo import Row

HERE = Path(__file__).resolve().parent
#: A training that takes longer is ended.
TIMEOUT = 900

_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|NotEmulated|Exception|Interrupt)\b.*)$", re.MULTILINE)


def libraries_folder(library: str) -> Path:
    """Return what OpenMMLab ships with a library beside its package: ``configs`` and ``tools``."""
    spec = importlib.util.find_spec(library)
    if spec is None or spec.origin is None:
        raise LookupError(f"{library} is not installed here: nox -s models")
    return Path(spec.origin).parent / ".mim"


def make_data(folder: Path) -> Path:
    """Write the data sets, unless they are there; return their folder."""
    if not (folder / data.INSTANCES).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        data3d.make_kitti(folder)
        data3d.make_nuscenes(folder)
        data.make_coco(folder)
    return folder


def train(row: Row, folder: Path, data_sets: Path) -> dict[str, Any]:
    """Train a model twice from the same seed; return what came of it, for JSON.

    Args:
        row: which model.
        folder: for its files.
        data_sets: see :func:`make_data`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shipped = libraries_folder(row.library)
    found: dict[str, Any] = row._asdict()
    for device in ("cpu", "npu"):
        losses = folder / f"{device}.jsonl"
        losses.unlink(missing_ok=True)
        config = folder / f"{device}.py"
        config.write_text(_config(row, shipped, data_sets, losses), encoding="utf-8")
        command = [str(shipped / "tools" / "train.py"), str(config), f"--work-dir={folder / device}"]
        if row.major == 1:
            command += ["--no-validate", "--seed=0"]
        report = folder / f"report-{device}"
        shutil.rmtree(report, ignore_errors=True)
        found[device] = _run(_launcher(row, device, report) + command, device, folder / f"{device}.log", losses)
        if device == "npu":
            found["patches"] = _patches_hit(report)
    return found


def _config(row: Row, shipped: Path, data_sets: Path, losses: Path) -> str:
    if row.major == 1:
        from mmcv import Config
    else:
        from mmengine.config import Config

    stock = Config.fromfile(str(shipped / "configs" / f"{row.config}.py"))
    plain = stock._cfg_dict.to_dict()
    text: str = Config(shrunk(plain, row.major, row.library, data_sets, losses)).pretty_text
    return text


def npu_option() -> str:
    """Return the option of patchcore run for the NPU: the real torch_npu where it is installed, else the imitation."""
    installed = importlib.machinery.PathFinder.find_spec("torch_npu")  # an imitation is none of its
    return "--emulate-npu=imitation" if installed is None else "--emulate-npu=cann"


def _launcher(row: Row, device: str, report: Path) -> list[str]:
    run = [sys.executable, "-m", "patchcore", "run"]
    if device == "npu":
        return [*run, npu_option(), "--count", f"--report-dir={report}"]
    if row.major == 2:
        return [sys.executable]
    # mmcv 1.x cannot be imported without torchvision, nor mmdet3d 1.0 with a newer mmcv.
    return [*run, "-q", "--disable=*", "--enable=mmcv.torchvision", "--enable=mmcv.version.mmdet3d"]


def _run(command: list[str], device: str, log: Path, losses: Path) -> dict[str, Any]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PATCHCORE_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    environment = {
        **kept,
        "PYTHONPATH": str(HERE / "modules"),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "NPU_EMULATOR_RANDOM": "cpu",
        "FAKE_CANN_RANDOM": "cpu",
        "PYTHONWARNINGS": "ignore",
    }
    if device == "cpu":  # OpenMMLab trains on an NPU wherever torch_npu can be imported, which needs CANN's libraries
        environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        environment.pop("LD_LIBRARY_PATH", None)
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        try:
            code: int | None = subprocess.run(
                command, env=environment, stdout=file, stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    if code in (-signal.SIGINT, -signal.SIGTERM):  # not what a model does: it has no result
        raise KeyboardInterrupt
    error = ""
    if code is None:
        error = f"not finished after {TIMEOUT} s"
    elif code:
        said = _ERROR.findall(log.read_text(encoding="utf-8", errors="replace"))
        error = said[-1] if said else f"exit code {code}"
    lines = losses.read_text(encoding="utf-8").splitlines() if losses.is_file() else []
    return {
        "losses": [json.loads(line) for line in lines],
        "error": error,
        "seconds": round(time.monotonic() - started, 1),
    }


def _patches_hit(folder: Path) -> dict[str, int]:
    """Return how often patches were called, but for those that move CUDA calls, which a report counts by line."""
    hit: Counter[str] = Counter()
    for path in folder.glob("*.json"):
        for patch in json.loads(path.read_text(encoding="utf-8")).get("patches", ()):
            # of a condition decided per call, only calls that took the replacement count
            counts = [
                change["calls"] if change["replaced"] is None else change["replaced"] for change in patch["changes"]
            ]
            hit[patch["name"]] += sum(filter(None, counts))
    return {
        name: count for name, count in sorted(hit.items()) if count and not name.startswith("torch.transfer_to_npu")
    }
