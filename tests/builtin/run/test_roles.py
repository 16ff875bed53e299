"""Roles: of all the processes of a run, one speaks for it, or one of each rank; rank 0 says the summary."""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from programs import FAILING, PATCHES, SHOP, Programs

import patchcore as pc
from patchcore.builtin.run.roles import LAUNCHER, MAIN, RANK, WORKER, present_role, take_role
from patchcore.plugins import Plugins
from patchcore.process import RANK_VARIABLES

PID_OF_RUN = 4711


def roles(monkeypatch: pytest.MonkeyPatch, *launchers: int) -> list[str]:
    """Return the roles that processes take, each of which is a child of the one before."""
    taken = []
    for launcher in launchers:
        pid = os.getpid() + 1
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        taken.append(take_role(launcher, Plugins(discover=False)))
    return taken


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a process, without any rank, to be passed on or changed."""
    environ = {name: value for name, value in os.environ.items() if name not in (*RANK_VARIABLES, "PATCHCORE_LED")}
    monkeypatch.setattr(os, "environ", environ)
    return environ


@pytest.mark.usefixtures("environ")
class TestTakeRole:
    def test_the_first_leads_and_its_children_work(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert roles(monkeypatch, PID_OF_RUN, PID_OF_RUN, PID_OF_RUN) == [MAIN, WORKER, WORKER]

    @pytest.mark.parametrize("variable", RANK_VARIABLES)
    def test_the_first_of_a_rank_leads_it(
        self, environ: dict[str, str], variable: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert roles(monkeypatch, PID_OF_RUN) == [MAIN]  # torchrun, say
        for rank in ("0", "1"):
            environ[variable] = rank
            assert roles(monkeypatch, PID_OF_RUN, PID_OF_RUN) == [RANK, WORKER]

    def test_the_first_may_have_a_rank(self, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        """Slurm and mpirun start ``patchcore run`` once per rank."""
        environ["SLURM_PROCID"] = "3"
        assert roles(monkeypatch, PID_OF_RUN, PID_OF_RUN) == [RANK, WORKER]

    @pytest.mark.parametrize("value", ["", "one", "-1"])
    def test_what_is_no_number_is_no_rank(self, environ: dict[str, str], value: str) -> None:
        environ["RANK"] = value
        assert take_role(PID_OF_RUN, Plugins(discover=False)) == MAIN

    def test_a_run_inside_a_run_has_a_leader_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert roles(monkeypatch, PID_OF_RUN, PID_OF_RUN + 1, PID_OF_RUN + 1) == [MAIN, MAIN, WORKER]

    def test_the_one_that_becomes_another_program_still_leads(self) -> None:
        assert [take_role(PID_OF_RUN, Plugins(discover=False)), take_role(PID_OF_RUN, Plugins(discover=False))] == [
            MAIN,
            MAIN,
        ]


class Launchers:
    @pc.hookimpl
    def rank_launchers(self) -> list[str]:
        modules = ["torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"]
        return ["torchrun", "accelerate", *modules]


def test_a_program_that_a_launcher_starts_without_a_rank_is_the_main_program(programs: Programs) -> None:
    """``accelerate launch`` does so for one process; its workers are workers, and it prints the summary."""
    programs.install_support_of_torch()
    start = "import subprocess, sys, shop.prices\nsubprocess.run([sys.executable, 'train.py'], check=True)\n"
    train = "import subprocess, sys, sell\nsubprocess.run([sys.executable, 'sell.py'], check=True)\n"
    programs.write({**SHOP, "deals.py": PATCHES, "torchrun": start, "train.py": train})
    done = programs.run(programs.patchcore, "-p", "deals", "--report-dir", "reports", "torchrun")
    assert done.stderr == "patchcore: 1 applied\n"
    reports = [json.loads(path.read_text()) for path in (programs.folder / "reports").glob("report-*.json")]
    roles = {report["environment"]["program"]: report["role"] for report in reports}
    assert {os.path.basename(program): role for program, role in roles.items()} == {
        "torchrun": "launcher",
        "train.py": "main",
        "sell.py": "worker",
    }
    done = programs.run([programs.python[0], "-m", "patchcore", "report", "reports"])
    assert "no findings" in done.stdout


class TestStartsRanks:
    @pytest.mark.parametrize(
        ("program", "module", "starts"),
        [
            ("/usr/bin/torchrun", None, True),
            ("accelerate", None, True),
            ("train.py", None, False),
            ("/torchrun/train.py", None, False),
            ("/lib/torch/distributed/run.py", "torch.distributed.run", True),
            ("/lib/torch/distributed/launch.py", "torch.distributed.launch", True),
            ("torchrun", "package.train", False),
            ("launch.py", "accelerate.commands.launch", True),
        ],
    )
    def test_tells_launchers_from_programs(
        self, monkeypatch: pytest.MonkeyPatch, program: str, module: str, starts: bool
    ) -> None:
        main = ModuleType("__main__")
        main.__spec__ = None if module is None else ModuleSpec(module, None)
        monkeypatch.setitem(sys.modules, "__main__", main)
        monkeypatch.setattr(sys, "argv", [program])
        plugins = Plugins(discover=False)
        plugins.add(Launchers(), "launchers")
        assert present_role(MAIN, plugins) == (LAUNCHER if starts else MAIN)
        assert [present_role(role, plugins) for role in (RANK, WORKER)] == [RANK, WORKER]


class TestSummary:
    RANKS = """
import os, subprocess, sys, shop.prices
print("launched", flush=True)
for rank in "01":
    code = "import sell, subprocess, sys; subprocess.run([sys.executable, 'sell.py'], check=True)"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "RANK": rank}, check=True)
"""

    def test_from_rank_0_and_no_worker(self, programs: Programs) -> None:
        programs.install_support_of_torch()
        programs.write({**SHOP, "deals.py": PATCHES, "torchrun": self.RANKS})
        done = programs.run(programs.patchcore, "-p", "deals", "torchrun")
        assert done.stdout == "launched\n" + "20\n" * 4
        assert done.stderr == "patchcore [rank 0]: 1 applied\n"

    def test_failures_are_said_by_every_rank(self, programs: Programs) -> None:
        programs.write({**SHOP, "deals.py": FAILING})
        done = programs.run(programs.patchcore, "-p", "deals", "sell.py", RANK="1")
        (failure,) = done.stderr.splitlines()
        assert failure.startswith("patchcore [rank 1]: patch deals.double (plugin deals) failed: replace")

    def test_not_from_workers(self, programs: Programs) -> None:
        source = """
import multiprocessing, shop.prices
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            pool.apply(shop.prices.price, [1])
        process = multiprocessing.get_context(method).Process(target=shop.prices.price, args=[1])
        process.start()
        process.join()
"""
        programs.write({**SHOP, "deals.py": PATCHES, "script.py": source})
        assert programs.run(programs.patchcore, "-p", "deals", "script.py").stderr == "patchcore: 1 applied\n"
