"""``patchcore run --brake`` and ``--profile``, with loops that need no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest
from programs import Programs

#: A training program with everything that a brake could leave undone.
GYM = {
    "gym/__init__.py": "",
    "gym/loops.py": "def train_step(i):\n    print('step', i)\n",
    "train.py": """
import atexit, sys
from gym.loops import train_step

atexit.register(print, "at exit")

def epoch():
    for i in range(1, 8):
        try:
            train_step(i)
        except Exception:
            print("swallowed")

try:
    epoch()
    print("trained")
finally:
    print("cleaned up")
""",
    "thread.py": """
import threading
from gym.loops import train_step
thread = threading.Thread(target=lambda: [train_step(i) for i in range(1, 6)], name="trainer")
thread.start()
thread.join()
print("main thread")
""",
    "family.py": """
import multiprocessing, subprocess, sys
from gym.loops import train_step

def help_out(i):
    return i

def train(_):
    for i in range(1, 6):
        train_step(i)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(help_out, [1]))
    child = multiprocessing.get_context("spawn").Process(target=train, args=(0,))
    child.start()
    child.join()
    print("exit code", child.exitcode)
""",
}
STEP = ("--step", "gym.loops:train_step")


@pytest.fixture
def gym(programs: Programs) -> Programs:
    programs.install_support_of_torch()
    programs.write(GYM)
    return programs


class TestBrake:
    def test_ends_the_program_as_if_it_had_come_to_its_end(self, gym: Programs) -> None:
        done = gym.run(gym.patchcore, "--brake", "3", *STEP, "train.py", code=0)
        assert done.stdout == "step 1\nstep 2\nstep 3\ncleaned up\nat exit\n"
        assert done.stderr == "patchcore: brake: the program ends after training step 3\npatchcore: 2 applied\n"

    def test_in_a_thread_ends_the_thread_and_says_so(self, gym: Programs) -> None:
        done = gym.run(gym.patchcore, "--brake", "2", *STEP, "thread.py")
        assert done.stdout == "step 1\nstep 2\nmain thread\n"
        assert "made in thread trainer: the brake ends this thread, not the program" in done.stderr

    def test_ends_a_child_process_with_exit_code_0(self, gym: Programs) -> None:
        done = gym.run(gym.patchcore, "--brake", "2", *STEP, "family.py")
        assert done.stdout == "[1]\nstep 1\nstep 2\nexit code 0\n"

    def test_without_any_step_says_how_to_name_one(self, gym: Programs) -> None:
        done = gym.run(gym.patchcore, "--brake", "2", "--", *gym.python, "-c", "print('no training')")
        assert done.stdout == "no training\n"
        assert "this process has counted no training step" in done.stderr
        assert "--step my.module:function" in done.stderr

    def test_is_in_the_plan_and_can_be_explained(self, gym: Programs) -> None:
        environment = {"PATCHCORE_BRAKE": "12", "PATCHCORE_STEP": "gym.loops:train_step"}
        command = [*gym.python, "-m", "patchcore"]
        plan = gym.run(command, "list", "--format", "json", PYTHONPATH=str(gym.folder), **environment).stdout
        assert "patchcore.brake" in plan
        said = gym.run(command, "explain", "patchcore.brake", **environment).stdout
        assert "patchcore_torch.training.steps:after_step" in said
        doctor = gym.run(command, "doctor", PYTHONPATH=str(gym.folder), **environment).stdout
        assert "12 (from PATCHCORE_BRAKE)" in doctor


def test_what_nobody_asks_for_is_not_imported(run_python: Callable[..., str]) -> None:
    code = """
        import sys
        import patchcore
        patchcore.Patcher().apply()
        print([name for name in sys.modules if name.startswith("patchcore_torch.training")])
        """
    known = [
        "patchcore_torch.training",
        "patchcore_torch.training.settings",
    ]
    assert run_python(code) == f"{known}\n"


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--brake", "soon"], "brake='soon'; expected the step after which the program ends, 1 or more"),
            (["--profile-level", "1"], "--profile-level says how to profile, and --profile DIR is missing"),
            (["--profile", "train.py"], "expected a directory, and"),
            (["--brake", "5", "--step", "__main__:step"], "the program's own file cannot be patched"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_that_mean_nothing_start_nothing(self, gym: Programs, options: list[str], message: str) -> None:
        done = gym.run(gym.patchcore, *options, "train.py", code=2)
        assert done.stdout == ""
        assert message in done.stderr


class TestProfile:
    def test_that_training_does_not_reach_is_said(self, gym: Programs) -> None:
        done = gym.run(gym.patchcore, "--profile", "records", *STEP, "train.py")
        assert done.stdout.endswith("trained\ncleaned up\nat exit\n")
        assert (
            "patchcore: nothing was profiled: the program ended after training step 7, before step 21 could be "
            "recorded; "
            "lower skip_first=20 (--profile-skip-first)\n"
        ) in done.stderr
        assert not Path(gym.folder, "records").exists()

    def test_without_torch_is_said_and_the_training_goes_on(self, gym: Programs) -> None:
        done = gym.run(gym.patchcore, "--profile", "records", "--profile-skip-first", "2", *STEP, "train.py")
        assert done.stdout.endswith("trained\ncleaned up\nat exit\n")
        assert "profiling has failed, training goes on: ModuleNotFoundError: No module named 'torch'" in done.stderr

    def test_children_that_make_no_step_are_silent(self, gym: Programs) -> None:
        done = gym.run(gym.patchcore, "--profile", "records", *STEP, "family.py")
        lines = [line for line in done.stderr.splitlines() if "nothing was profiled" in line]
        assert len(lines) == 1  # of the child that trains, not of the pool's
