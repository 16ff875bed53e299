"""Averages of integers between two processes that name NCCL: what NCCL returns, from HCCL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json
import sys
import torch
import torch.distributed as dist

AVERAGE = dist.ReduceOp.AVG

def main(rank, folder):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    found = {}

    def integers(*values, dtype=torch.long):
        return torch.tensor(values, dtype=dtype, device="cuda")

    for dtype in (torch.long, torch.int32, torch.uint8, torch.float32):
        tensor = integers(rank + 1, rank * 3, dtype=dtype)
        dist.all_reduce(tensor, op=AVERAGE)
        found[str(dtype)] = tensor.tolist()
    tensor = integers(-1, -3 * rank)
    work = dist.all_reduce(tensor, op=AVERAGE, async_op=True)
    work.wait()
    work.wait()
    found["asynchronous"] = [tensor.tolist(), work.is_completed(), work.get_future().wait()[0].tolist()]
    tensor = integers(1 + 2 * rank)
    dist.reduce(tensor, 1, op=AVERAGE)
    found["reduce"] = tensor.tolist() if rank == 1 else None
    output = integers(0)
    dist.reduce_scatter(output, [integers(2 + 2 * rank), integers(8)], op=AVERAGE)
    found["reduce_scatter"] = output.tolist()
    output = integers(0)
    dist.reduce_scatter_tensor(output, integers(2 + 2 * rank, 8), op=AVERAGE)
    found["reduce_scatter_tensor"] = output.tolist()
    tensor = integers(rank + 1)
    dist.all_reduce(tensor)
    found["sum"] = tensor.tolist()
    tensor = torch.ones(1, dtype=torch.long)  # gloo's, on the CPU, raises as it does without the layer
    try:
        dist.all_reduce(tensor, op=AVERAGE, group=dist.new_group(backend="gloo"))
    except RuntimeError as error:
        found["gloo"] = str(error)
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(found, file)
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(main, (sys.argv[1],), nprocs=2)
"""
BOTH: dict[str, Any] = {
    "torch.int64": [1, 1],
    "torch.int32": [1, 1],
    "torch.uint8": [1, 1],
    "torch.float32": [1.5, 1.5],
    "asynchronous": [[-1, -1], True, [-1, -1]],  # towards zero
    "sum": [3],
    "gloo": "result type Float can't be cast to the desired output type Long",
}
EACH: list[dict[str, Any]] = [
    {"reduce": None, "reduce_scatter": [3], "reduce_scatter_tensor": [3]},
    {"reduce": [2], "reduce_scatter": [8], "reduce_scatter_tensor": [8]},
]


def run_program(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the program in two processes with an emulated NPU each."""
    (folder / "average.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "patchcore", "run", "--emulate-npu=imitation", *options, "average.py", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)


def test_integers_are_averaged_as_nccl_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_EMULATOR_DEVICES", "2")
    done = run_program(tmp_path)
    assert done.returncode == 0, done.stderr
    assert [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)] == [
        {**BOTH, **of_rank} for of_rank in EACH
    ]
