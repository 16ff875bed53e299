"""Every collective over the emulated HCCL, however the process group was made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

PROGRAM = Path(__file__).with_name("collectives.py")

BOTH = {
    "usual_ones": [[3, 3], [2, 2], [[0, 0], [1, 1]], [{"rank": 0}, {"rank": 1}]],
    "largest": [1, 1],
    "gather_in_another_form": [[[0, 0, 0], [1, 1, 1]], [0, 0, 0, 1, 1, 1]],
    "functional_collectives": [[2, 2], [0, 0, 1, 1]],
    "objects": [{"from": 1}],
    "gaps": "Tensors must be contiguous",
    "gradients_in_buckets": [[1.5, 1.5]],
    "held_by_gloo_when_the_group_is_gone": [True, False],  # its thread and Python would have waited for each other
    "kept_of_a_group_that_is_gone": 0,
}
EACH = [
    {
        "reduce_to_one": [3, 3],
        "reduce_scatter": [[0, 2], [2, 2]],
        "all_to_all": [[0, 2], [[0], [2]]],
        "gather_and_scatter": [[[0], [1]], [5]],
        "point_to_point": [[0, 0], [1, 1]],
        "subgroups": [[2, 2], [1, 1]],
    },
    {
        "reduce_to_one": None,
        "reduce_scatter": [[4, 6], [4, 4]],
        "all_to_all": [[1, 3], [[1], [3]]],
        "gather_and_scatter": [[], [6]],
        "point_to_point": [[7, 7], [0, 0]],
        "subgroups": [[2, 2], [1, 1]],
    },
]
NO_CPU = "No backend type associated with device type cpu"


@pytest.mark.parametrize(
    ("options", "of_the_cpu"),
    [
        pytest.param({"backend": "hccl"}, NO_CPU, id="hccl"),
        pytest.param({"backend": "lccl"}, NO_CPU, id="lccl"),
        pytest.param({"backend": "hccl", "bound": True}, NO_CPU, id="bound to a device"),
        pytest.param({"backend": "cpu:gloo,npu:hccl"}, [2], id="with gloo for the CPU"),
    ],
)
def test_every_collective(options: dict[str, Any], of_the_cpu: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", str(PROGRAM)]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "rendezvous"), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [rank.communicate(timeout=900) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, (output, errors) in enumerate(outputs):
        assert ranks[rank].returncode == 0, errors  # also: nothing aborts at exit
        expected = {**BOTH, **EACH[rank], "tensors_of_the_cpu": of_the_cpu}
        assert json.loads(output.splitlines()[-1]) == expected


def test_the_backends_are_known_to_torch() -> None:
    assert dist.is_hccl_available()
    assert dist.is_backend_available("lccl")
    assert dist.get_default_backend_for_device("npu") == "hccl"
    assert dist.get_default_backend_for_device(torch.device("npu", 1)) == "hccl"


GLOO = """
import sys
import torch
import torch.distributed as dist

def main(index, device):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
    dist.all_reduce(torch.ones(2, device=device))

if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        torch.multiprocessing.spawn(main, ("npu",))
    main(0, sys.argv[1])
"""
ADVICE = """the process group has no backend for NPU tensors, and gloo cannot be one: init_process_group("hccl")"""
WITH_CPU = """ ("cpu:gloo,npu:hccl" serves CPU tensors too); """


@pytest.mark.parametrize(
    ("device", "transfer", "expected"),
    [
        pytest.param("cuda", "1", f'{ADVICE}, or "nccl", which the transfer maps to hccl{WITH_CPU}', id="transfer"),
        pytest.param("spawn", "0", ADVICE + WITH_CPU, id="spawned process, no transfer"),
    ],
)
def test_a_gloo_group_of_npu_tensors_ends_a_run_with_advice(
    device: str, transfer: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(GLOO)
    done = subprocess.run(
        [sys.executable, "-m", "patchcore", "run", "--emulate-npu=imitation", "train.py", device],
        cwd=tmp_path,
        env={**os.environ, "TORCH_TRANSFER_TO_NPU": transfer},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 1
    assert "No backend type associated with device type npu" in done.stderr
    assert expected in done.stderr.splitlines()[-1]
