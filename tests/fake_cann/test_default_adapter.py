"""``--emulate-npu`` without a value: the real torch_npu where its wheel and fake-cann are, in each process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pages import blocks
from replay import difference
from running import without_note

pytest.importorskip("npu_emulator")

REAL = "(emulated NPU: torch_npu 2."
IMITATED = "(emulated NPU: imitation)"
WHICH = """
import torch
import torch_npu
x = (torch.ones(3, device="npu") + 1).sum().item()
which = "imitation" if "npu_emulator" in torch_npu.__file__ else "real"
print(f"{which} {x}\\n", end="", flush=True)
"""
#: What a run with an NPU leaves to its children, which a test must not inherit.
OF_A_RUN = ("LD_LIBRARY_PATH", "TASK_QUEUE_ENABLE", "TORCH_DEVICE_BACKEND_AUTOLOAD", "PATCHCORE_SESSION")


def environment(**added: str) -> dict[str, str]:
    """Return the variables of a process without an NPU."""
    kept = {name: value for name, value in os.environ.items() if name not in OF_A_RUN}
    return {**kept, "OMP_NUM_THREADS": "1", **added}


def python(folder: Path, *command: str, code: int = 0, **added: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, which is expected to end with an exit code."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment(**added), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == code, done.stdout + done.stderr
    done.stdout = without_note(done.stdout)
    return done


def run(folder: Path, option: str, program: str, *others: str, **added: Any) -> subprocess.CompletedProcess[str]:
    """Run a program under ``patchcore run`` with an option."""
    (folder / "program.py").write_text(textwrap.dedent(program))
    command = others or ("program.py",)
    return python(folder, "-m", "patchcore", "run", option, "--report-dir", "reports", *command, **added)


@pytest.mark.parametrize(
    ("option", "environ", "which", "mark"),
    [
        ("--emulate-npu", {}, "real", REAL),
        ("--emulate-npu=cann", {}, "real", REAL),
        ("--emulate-npu", {"NPU_EMULATOR_ADAPTER": "imitation"}, "imitation", IMITATED),
        ("--emulate-npu=imitation", {"NPU_EMULATOR_ADAPTER": "cann"}, "imitation", IMITATED),
    ],
)
def test_a_run(tmp_path: Path, option: str, environ: dict[str, str], which: str, mark: str) -> None:
    done = run(tmp_path, option, WHICH, **environ)
    assert done.stdout == f"{which} 6.0\n"
    assert mark in done.stderr.splitlines()[-1]
    report = python(tmp_path, "-m", "patchcore", "report", "reports").stdout
    expected = (
        "on a fake CANN: operators are computed by PyTorch" if which == "real" else "an imitation of torch_npu: 8"
    )
    assert expected in report


def test_the_quickstart_prints_what_it_shows(tmp_path: Path) -> None:
    page = list(blocks(Path(__file__).parents[2] / "docs" / "quickstart.md"))
    (program,) = (block.text for block in page if block.file == "train.py")
    (session,) = (block.text for block in page if block.text.startswith("$ patchcore run --emulate-npu"))
    done = run(tmp_path, "--emulate-npu", program)
    printed = done.stdout + done.stderr.splitlines(keepends=True)[-1]
    assert difference(session.split("\n", 1)[1], printed) is None
    assert REAL in printed


def test_a_setting_of_the_imitation_is_the_reason_in_the_report(tmp_path: Path) -> None:
    done = run(tmp_path, "--emulate-npu", WHICH, NPU_EMULATOR_CORE="python")
    assert done.stdout == "imitation 6.0\n"
    report = python(tmp_path, "-m", "patchcore", "report", "reports").stdout
    assert "only the imitation has NPU_EMULATOR_CORE=python" in report


@pytest.mark.parametrize(("option", "which"), [("--emulate-npu", "real"), ("--emulate-npu=imitation", "imitation")])
def test_children(tmp_path: Path, option: str, which: str) -> None:
    program = f"""
        import multiprocessing

        def child():
            exec({WHICH!r}, {{}})

        if __name__ == "__main__":
            for method in ("spawn", "fork"):
                process = multiprocessing.get_context(method).Process(target=child)
                process.start()
                process.join()
                assert process.exitcode == 0
        """
    assert run(tmp_path, option, program).stdout == f"{which} 6.0\n" * 2


def test_ranks(tmp_path: Path) -> None:
    program = WHICH + textwrap.dedent("""
        import torch.distributed as dist

        dist.init_process_group("hccl")
        rank = dist.get_rank()
        torch.npu.set_device(rank)
        number = torch.full((1,), 1.0 + rank, device="npu")
        dist.all_reduce(number)
        print(f"sum {number.item()}\\n", end="", flush=True)
        dist.destroy_process_group()
        """)
    ranks = ("--", "torchrun", "--standalone", "--nproc-per-node=2", "program.py")
    done = run(tmp_path, "--emulate-npu", program, *ranks)
    assert (done.stdout.count("real 6.0\n"), done.stdout.count("sum 3.0\n")) == (2, 2)


@pytest.mark.parametrize("option", ["--emulate-npu", "--emulate-npu=cann", "--emulate-npu=imitation"])
def test_beside_a_real_cann_all_of_them_are_refused(tmp_path: Path, option: str) -> None:
    done = run(tmp_path, option, WHICH, code=2, ASCEND_HOME_PATH=str(tmp_path))
    assert done.stdout == ""
    assert not (tmp_path / "reports").exists()
    expected = "never hide the real library" if option.endswith("imitation") else "a real CANN is here"
    assert expected in done.stderr


def test_a_value_that_does_not_exist(tmp_path: Path) -> None:
    done = run(tmp_path, "--emulate-npu=imitaton", WHICH, code=2)
    assert "found --emulate-npu=imitaton; did you mean 'imitation'?" in done.stderr


def test_install_in_a_program_and_what_it_chose(tmp_path: Path) -> None:
    for arguments, adapter, which in (("", "cann", "real"), ("adapter='imitation'", "imitation", "imitation")):
        program = f"import npu_emulator; print(npu_emulator.install({arguments}).adapter)" + WHICH
        assert python(tmp_path, "-c", program).stdout == f"{adapter}\n{which} 6.0\n"


def test_settings_have_the_same_meaning(tmp_path: Path) -> None:
    program = (
        "import torch; torch.manual_seed(3); print(torch.npu.device_count(), torch.rand(2, device='npu').tolist())"
    )
    settings = {"NPU_EMULATOR_DEVICES": "3", "NPU_EMULATOR_RANDOM": "cpu"}
    real, imitated = (
        run(tmp_path, option, program, **settings).stdout for option in ("--emulate-npu", "--emulate-npu=imitation")
    )
    assert real == imitated
    assert real.startswith("3 ")


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("--emulate-npu", "npu: emulated, torch_npu 2."),
        ("--emulate-npu=cann", "npu: emulated, torch_npu 2."),
        ("--emulate-npu=imitation", "npu: emulated by an imitation of torch_npu, 8 devices"),
    ],
)
def test_pytest(tmp_path: Path, option: str, line: str) -> None:
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    exec({WHICH!r})\n")
    assert f"\n{line}" in python(tmp_path, "-m", "pytest", option, "test_it.py").stdout


def test_without_the_option_torch_works_and_torch_npu_says_how_to_run_it(tmp_path: Path) -> None:
    program = """
        import json, subprocess, sys
        import torch

        try:
            import torch_npu
        except ImportError as error:
            message = str(error)
        child = subprocess.run([sys.executable, "-c", "import torch; print(torch.ones(2).sum().item())"],
                               capture_output=True, text=True)
        print(json.dumps([torch.ones(2).sum().item(), message, child.stdout.strip()]))
        """
    here, message, child = json.loads(python(tmp_path, "-c", textwrap.dedent(program)).stdout)
    assert (here, child) == (2.0, "2.0")
    assert "patchcore run --emulate-npu PROGRAM" in message
    assert f"{sys.executable} -m fake_cann run PROGRAM" in message


def test_a_run_without_the_option_moves_nothing_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import torch; print(torch.ones(2).sum().item())")
    done = python(tmp_path, "-m", "patchcore", "run", "program.py")
    assert done.stdout == "2.0\n"
    assert "torch_npu is installed and there is no CANN; --emulate-npu runs it on a fake one" in done.stderr
