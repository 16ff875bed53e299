"""examples/train_cuda.py, a CUDA script that nobody has touched, on the emulated NPU."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from launching import ROOT, RUN, TORCHRUN, Job, Workplace, two_at_a_time

pytest.importorskip("torch")

SCRIPT = ROOT / "examples" / "train_cuda.py"
# What is rewritten, by the code of the line that says so.
REWRITTEN = {
    "torch.cuda.manual_seed_all(0)": None,
    'torch.zeros((), device="cuda")': "torch:zeros(device=cuda -> npu)",
    'torch.autocast("cuda", dtype=torch.float16)': "device_type=cuda -> npu",
    'torch.tensor(0, device="cuda")': "torch:tensor(device=cuda -> npu)",
    'torch.load(str(path), map_location="cuda")': "torch:load(map_location=cuda -> npu)",
    'make_model().to(f"cuda:{local_rank}")': "device=cuda:",
}
DISTRIBUTED = 'dist.init_process_group(backend="nccl")'


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    """The script in one process, and in two under torchrun."""
    place = Workplace(tmp_path_factory.mktemp("cuda"), {}, plugins=None)
    options = ("--emulate-npu", "--strict")
    commands = {
        "one process": (*RUN, *options, str(SCRIPT), "--work-dir", "one/cuda_checkpoints"),
        "two ranks": (
            *RUN,
            *options,
            "--",
            *TORCHRUN,
            str(SCRIPT),
            "--workers",
            "0",
            "--work-dir",
            "two/cuda_checkpoints",
        ),
    }
    return two_at_a_time({name: functools.partial(place.run, *command) for name, command in commands.items()})


def sections(job: Job, title: str) -> Iterator[list[str]]:
    """The lines of one section, in each report that has it."""
    for report in job.reports:
        for section in report["sections"]:
            if section["title"] == title:
                yield section["lines"]


def line_of(code: str) -> int:
    (number,) = (number for number, line in enumerate(SCRIPT.read_text().splitlines(), 1) if code in line)
    return number


@pytest.mark.parametrize(("name", "folder"), [("one process", "one"), ("two ranks", "two")], ids=["one", "two"])
def test_it_trains_saves_and_restores(jobs: dict[str, Job], name: str, folder: str) -> None:
    job = jobs[name]
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", job.out)]
    assert len(losses) == 2
    assert losses[1] < losses[0] / 2
    assert "on Ascend910B3" in job.out
    assert "accuracy 1.00, parameters on npu:0" in job.out
    checkpoint = job.directory.parent / folder / "cuda_checkpoints" / "cuda_model.pth"
    assert checkpoint.is_file()  # its path says cuda, and is a path


@pytest.mark.parametrize("name", ["one process", "two ranks"], ids=["one", "two"])
def test_the_report_names_each_line_that_was_redirected(jobs: dict[str, Job], name: str) -> None:
    ranks = [
        lines for lines in sections(jobs[name], "CUDA arguments rewritten") if any("train_cuda.py" in x for x in lines)
    ]
    assert len(ranks) >= (2 if name == "two ranks" else 1)
    for lines in ranks:
        for code, what in REWRITTEN.items():
            place = f"{SCRIPT}:{line_of(code)}: "
            found = [line for line in lines if line.startswith(place)]
            assert bool(found) == (what is not None), (code, found)
            assert what is None or what in found[0]
        backend = [line for line in lines if line.startswith(f"{SCRIPT}:{line_of(DISTRIBUTED)}: ")]
        assert [("backend=nccl -> hccl" in line) for line in backend] == ([True] if name == "two ranks" else [])


def test_the_merged_report_says_that_the_npu_is_emulated_and_what_was_redirected(jobs: dict[str, Job]) -> None:
    for job in jobs.values():
        code, text = job.report()
        assert code == 0, text
        assert "emulated NPU" in text
        assert "CUDA arguments rewritten" in text
        assert f"{SCRIPT.name}:{line_of('torch.load(')}: torch:load(map_location=cuda -> npu), 1x" in text
        assert "torch.cuda without an NPU counterpart" not in text, "it uses no such name"
        (line,) = job.ours
        assert line.endswith("(emulated NPU)")


def test_without_the_option_there_is_no_npu(tmp_path: Path) -> None:
    job = Workplace(tmp_path, {}, plugins=None).run(*RUN, str(SCRIPT), code=1)
    assert "this script needs a GPU" in job.err
    assert "emulated" not in job.err
    assert [section for report in job.reports for section in report["sections"]] == []
