"""``patchcore compare`` with the real torch: two runs of a program, and the first place where they differ."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from launching import PYTHON, RUN, TORCHRUN, Workplace

pytest.importorskip("torch")

NET = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        if x.shape[0] == 1:
            raise ValueError("too few")
        return {"value": self.drop(torch.relu(self.linear(x))), "names": ["x"]}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x):
        return self.second(self.first(x)["value"])["value"]
"""
TRAIN = """
import sys
import torch
from net import Net

torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(3):
    if "--failing" in sys.argv:
        try:
            model(torch.ones(1, 6))
        except ValueError:
            pass
    optimizer.zero_grad()
    model(torch.randn(4, 6)).sum().backward()
    optimizer.step()
"""
RANKS = """
import torch
import torch._dynamo  # before there is a process group: gloo's threads end with it then
import torch.distributed as dist
from net import Net

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(4, 6)).sum().backward()
    optimizer.step()
del model
dist.destroy_process_group()
"""
SPAWN = """
import os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __init__(self):
        self.layer = torch.nn.Linear(6, 6)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.layer(torch.ones(6)).detach()

def work(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(6, 6))
    for x in DataLoader(Data(), 2, num_workers=1):
        model(x).sum().backward()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=(os.getcwd(),), nprocs=2)
"""
INFER = "import torch\nfrom net import Net\ntorch.manual_seed(0)\nprint(Net().eval()(torch.ones(2, 6)).sum().item())\n"
#: Moves the values of a tensor by one place: sums, norms and extremes stay as they are.
PATCH = """
import patchcore as pc

@pc.wrap("torch.nn.modules.linear:Linear.forward")
def roll(original, self, x):
    return original(self, x).roll(1, dims=-1)

@pc.hookimpl
def register_patches():
    return [roll]
"""
COMPARE = (*PYTHON, "-m", "patchcore", "compare")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    files = {
        "net.py": NET,
        "train.py": TRAIN,
        "ranks.py": RANKS,
        "infer.py": INFER,
        "spawn.py": SPAWN,
        "rolling.py": PATCH,
    }
    return Workplace(tmp_path, files)


def records(place: Workplace, name: str = "main", folder: str = "records") -> list[dict[str, Any]]:
    lines = (place.folder / folder / f"{name}.records.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_run_without_differences_agrees_in_every_phase(place: Workplace) -> None:
    done = place.run(*COMPARE, "--into", "runs", "--", "train.py")
    assert "no divergence: " in done.out
    assert done.out.endswith("the largest difference is 0\n")
    found = records(place, folder="runs/second")[1:-1]
    assert {record["phase"] for record in found} == {
        "forward",
        "gradient",
        "parameter gradient",
        "parameter",
        "optimizer state",
    }
    assert {record["step"] for record in found} == {1, 2}
    again = place.run(*COMPARE, "--into", "runs", "--", "train.py")
    assert again.out.count("has been recorded by the same command, and is used again") == 2


def test_values_that_change_places_are_seen_where_it_happens(place: Workplace) -> None:
    done = place.run(*COMPARE, "--second=-p rolling", "--format", "json", "--", "train.py", code=1)
    view = json.loads(done.out[done.out.index("{") :])
    (process,) = view["processes"]
    first = process["divergences"][0]
    assert (first["name"], first["phase"], first["item"]) == ("Net.first.linear", "forward", "output")
    assert first["patches"] == ["rolling.roll"]
    assert first["place"] == "net.py:14 in forward"
    assert (process["agreed_before"], first["fault"][:4]) == (1, "mix ")


def test_ranks_are_compared_each_with_its_own(place: Workplace) -> None:
    done = place.run(*COMPARE, "--second=-p rolling", "--", *TORCHRUN, "ranks.py", code=1)
    assert "first divergence: step 1, forward: output of Net.first.linear in rank0\n" in done.out
    assert "  rank1    1 " in done.out or "--all shows them" in done.out


def test_a_rank_without_its_recording_is_named_and_the_exit_code_is_no_agreement(place: Workplace) -> None:
    for folder in ("first", "second"):
        place.run(*RUN, "--record", folder, *TORCHRUN, "ranks.py")
    assert "no divergence: " in place.run(*COMPARE, "first", "second").out
    (place.folder / "second" / "rank1.records.jsonl").unlink()
    done = place.run(*COMPARE, "first", "second", code=2)
    assert "second has no recording of rank1: first has 2 processes, it has 1 process" in done.err
    (place.folder / "first" / "rank1.records.jsonl").unlink()
    done = place.run(*COMPARE, "first", "second", code=2)
    assert "first has no recording of rank1, of 2 ranks: they recorded nothing" in done.err


def test_a_run_that_was_killed_is_no_agreement_until_it_was_run_again(place: Workplace) -> None:
    script = TRAIN + "    if step == 1 and '--killed' in sys.argv:\n        os.kill(os.getpid(), signal.SIGKILL)\n"
    place.write({"killed.py": f"import os, signal\n{script}"})
    place.run(*RUN, "--record", "whole", "--record-steps", "1-3", "killed.py")
    place.run(*RUN, "--record", "again", "--record-steps", "1-3", "killed.py", "--killed", code=-signal.SIGKILL)
    done = place.run(*COMPARE, "whole", "again", code=2)
    assert "no divergence up to where the recordings end: " in done.out
    assert "again, main: the last line is missing" in done.err
    place.run(*RUN, "--record", "again", "--record-steps", "1-3", "killed.py")
    done = place.run(*COMPARE, "whole", "again")
    assert done.out.startswith("no divergence: ")
    assert "again, main: was started 2 times; of a step that is there twice, the last one counts" in done.out


def test_ranks_that_the_program_spawns_are_recorded_and_their_workers_are_not(place: Workplace) -> None:
    place.run(*RUN, "--record", "records", "spawn.py")
    files = sorted(path.name for path in (place.folder / "records").iterdir())
    assert files == ["rank0.records.jsonl", "rank1.records.jsonl"]
    assert {record["name"] for record in records(place, "rank0")[1:-1]} == {"Linear"}


def test_tensors_are_compared_value_by_value(place: Workplace) -> None:
    done = place.run(*COMPARE, "--second=-p rolling", "--tensors", "--steps", "1", "--", "infer.py", code=1)
    assert " at [" in done.out.splitlines()[3]


def test_operators_are_recorded_in_their_modules(place: Workplace) -> None:
    place.run(*RUN, "--record", "records", "--record-operators", "train.py")
    operators = [r for r in records(place) if r.get("phase") == "operator"]
    assert ("Net.first.linear", "aten::addmm") in {(r["name"], r["operator"]) for r in operators}
    assert ("Net.first", "aten::relu") in {(r["name"], r["operator"]) for r in operators}


def test_a_module_that_raises_leaves_the_names_of_the_others_as_they_are(place: Workplace) -> None:
    place.run(*RUN, "--record", "records", "--record-operators", "train.py", "--failing")
    names = [r["name"] for r in records(place) if r.get("phase") == "forward" and r["step"] == 2]
    assert names[-6:] == ["Net.first.drop", "Net.first", "Net.second.linear", "Net.second.drop", "Net.second", "Net"]


def test_a_full_recording_says_so(place: Workplace) -> None:
    script = "import torch\nmodel = torch.nn.Linear(500, 500)\nfor _ in range(3):\n    model(torch.ones(500, 500))\n"
    place.write({"large.py": script})
    done = place.run(*RUN, "--record", "records", "--record-tensors", "--record-limit", "2", "large.py")
    assert "the recording reached 2 MB in step 1 and is not complete; name fewer steps" in done.err
    assert records(place)[-1]["full"] is True


def test_an_option_without_a_folder_is_refused(place: Workplace) -> None:
    done = place.run(*RUN, "--record-steps", "1", "train.py", code=2)
    assert "--record-steps says how to record, and --record DIR is missing" in done.err


def test_the_run_that_fails_is_named(place: Workplace) -> None:
    place.write({"fails.py": "raise SystemExit(3)\n"})
    done = place.run(*COMPARE, "--", "fails.py", code=2)
    assert "the first run failed with exit code 3, its output is above" in done.err


#: Notes its calls in the place of msprobe.
MSPROBE = """
class PrecisionDebugger:
    def __init__(self, **options):
        print("made", options)

    def start(self, model):
        print("start", type(model).__name__)

    def stop(self):
        print("stop")

    def step(self):
        print("step")
"""


def test_msprobe_is_started_stopped_and_stepped_in_each_step(place: Workplace) -> None:
    place.write({"msprobe/__init__.py": "", "msprobe/pytorch.py": MSPROBE})
    settings = '[tool.patchcore]\nrecord = { path = "records", msprobe = { config_path = "config.json" } }\n'
    place.write({"pyproject.toml": settings})
    done = place.run(*RUN, "train.py")
    each = ["start Net", "stop", "step"]
    assert done.out.splitlines() == ["made {'config_path': 'config.json'}", *each, *each, *each]
