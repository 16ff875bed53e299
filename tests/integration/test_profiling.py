"""Profiling with the real torch: traces that hold the steps that were asked for, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from launching import PYTHON, RUN, TORCHRUN, Workplace

pytest.importorskip("torch")

#: Each step leaves its number in a trace.
TRAIN = """
import sys
import torch
from torch.profiler import record_function
from torch.utils.data import DataLoader

def main(steps):
    model = torch.nn.Linear(3, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = 0
    while step < steps:
        for data in DataLoader([torch.ones(3)] * 8, batch_size=2, num_workers=1):
            step += 1
            with record_function(f"training step {step}"):
                optimizer.zero_grad()
                model(data).sum().backward()
            optimizer.step()
    print("trained", step)

if __name__ == "__main__":
    main(int(sys.argv[1]))
"""
RANKS = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(20):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
print("never")
"""
EARLY = ("--profile-skip-first", "4")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path, {"train.py": TRAIN, "ranks.py": RANKS})


def traces(place: Workplace, folder: str = "records") -> list[Path]:
    return sorted(Path(place.folder, folder).rglob("*.json"))


def events(trace: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(trace.read_text())["traceEvents"]
    return found


def steps_in(trace: Path) -> list[int]:
    """Return the numbers of the training steps in a trace, whose events are all in order and of some length."""
    marks = [event for event in events(trace) if event.get("name", "").startswith("training step ")]
    assert all(event["ph"] == "X" and event["dur"] > 0 for event in marks)
    return sorted({int(event["name"].split()[-1]) for event in marks})


def names_in(trace: Path) -> set[str]:
    return {event.get("name", "") for event in events(trace)}


class TestSteps:
    def test_step_21_is_recorded_by_default_and_the_brake_ends_after_it(self, place: Workplace) -> None:
        job = place.run(*RUN, "--profile", "records", "--brake", "auto", "train.py", "500")
        (trace,) = traces(place)
        assert steps_in(trace) == [21]
        assert {"aten::linear", "aten::addmm"} <= names_in(trace)
        assert re.fullmatch(r"[\w.-]+_\d+\.21\.pt\.trace\.json", trace.name)
        assert f"patchcore: profile of step 21 written to {trace}; TensorBoard" in job.err
        assert "patchcore: brake: the program ends after training step 21" in job.err
        assert "there is no accelerator here, the CPU is profiled" in job.err
        assert "trained" not in job.out

    def test_cycles_are_files_of_their_own_and_the_training_goes_on(self, place: Workplace) -> None:
        schedule = ("--profile-active", "2", "--profile-repeat", "2", "--profile-wait", "0")
        job = place.run(*RUN, "--profile", "records", *EARLY, *schedule, "train.py", "12")
        assert [steps_in(trace) for trace in traces(place)] == [[5, 6], [8, 9]]
        assert [trace.name.split(".")[-4] for trace in traces(place)] == ["5", "8"]
        assert job.out == "trained 12\n"

    def test_a_program_that_ends_in_a_recording_leaves_what_there_is(self, place: Workplace) -> None:
        job = place.run(*RUN, "--profile", "records", *EARLY, "--profile-active", "50", "train.py", "8")
        (trace,) = traces(place)
        assert steps_in(trace) == [5, 6, 7, 8]
        assert "profile of steps 5 to 8 written to" in job.err


class TestLevels:
    @pytest.mark.parametrize("level", [0, 1, 2])
    def test_each_has_more_than_the_one_below(self, place: Workplace, level: int) -> None:
        profiling = f"{{'path': 'records', 'level': {level}, 'skip_first': 2}}"
        text = f"import patchcore\npatchcore.Patcher().with_settings(profiling={profiling}, brake='auto').apply()"
        place.write({"two_lines.py": f"{text}\n{TRAIN}"})
        place.run(*PYTHON, "two_lines.py", "100")
        (trace,) = traces(place)
        found = events(trace)
        arguments = [event.get("args", {}) for event in found if event.get("name") == "aten::addmm"]
        assert len(arguments) == 1
        assert ("Input Dims" in arguments[0]) == (level >= 1)
        assert any(event.get("cat") == "python_function" for event in found) == (level >= 2)
        assert any(event.get("name") == "[memory]" for event in found) == (level >= 2)
        assert steps_in(trace) == [3]


class TestProcesses:
    def test_each_rank_has_a_trace_of_its_own_and_workers_none(self, place: Workplace) -> None:
        options = ("--profile", "records", *EARLY, "--brake", "auto")
        job = place.run(*RUN, *options, "--", *TORCHRUN, "ranks.py")
        found = traces(place)
        assert [trace.name[:5] for trace in found] == ["rank0", "rank1"]
        assert all("gloo:all_reduce" in names_in(trace) for trace in found)
        assert job.out == ""
        assert job.err.count("written to") == 1

    def test_an_emulated_npu_has_torch_npus_profiler(self, tmp_path: Path) -> None:
        place = Workplace(tmp_path, {"train.py": TRAIN}, plugins="npu_emulator")
        options = ("--emulate-npu=imitation", "--profile", "records", "--profile-level", "1", "--brake", "auto", *EARLY)
        # the plugin's options come after those of patchcore
        options = (*options[1:], options[0])
        job = place.run(*RUN, *options, "train.py", "100", NPU_EMULATOR_CORE="python")
        (trace,) = Path(place.folder, "records").glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json")
        assert "emulated" in json.loads(trace.read_text())["npu_emulator"]
        assert steps_in(trace) == [5]
        assert "profile of step 5 written to" in job.err


class TestMMEngine:
    def test_an_iteration_is_recorded(self, tmp_path: Path) -> None:
        pytest.importorskip("mmengine")
        from test_brake import MMENGINE

        place = Workplace(tmp_path, {"mm.py": MMENGINE}, plugins="mmcv")
        job = place.run(*RUN, "--profile", "records", *EARLY, "--brake", "auto", "mm.py", "iter")
        assert job.out.splitlines()[-1] == "iterations 5"
        (trace,) = [path for path in traces(place) if path.name.endswith(".pt.trace.json")]
        assert "aten::linear" in names_in(trace)
