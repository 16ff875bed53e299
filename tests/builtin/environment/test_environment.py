"""``patchcore environment``: a process that is started with it takes part in a run, wherever it is."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

import pytest
from programs import FAILING, PATCHES, SHOP, Programs

import patchcore_startup


@pytest.fixture
def shop(programs: Programs) -> Programs:
    programs.write({**SHOP, "deals.py": PATCHES})
    return programs


def environment(shop: Programs, *options: str) -> str:
    """Return what the command prints."""
    return shop.run([shop.python[0], "-m", "patchcore", "environment", *options]).stdout


def session(shop: Programs, *options: str) -> str:
    """Return the value of the variable."""
    view = json.loads(environment(shop, "--as", "json", *options))
    value: str = view["environment"]["PATCHCORE_SESSION"]
    return value


class TestForms:
    def test_lines_for_a_shell(self, shop: Programs) -> None:
        text = environment(shop, "-p", "deals")
        comment, modules, line = text.splitlines()
        assert comment.startswith("# needs there: python -m pip install ")
        assert modules == "# needs there: the modules of -p, importable there: deals"
        word, assignment = shlex.split(line)
        assert (word, assignment.partition("=")[0]) == ("export", "PATCHCORE_SESSION")
        assert line == f"export {assignment}"  # nothing had to be quoted

    def test_json_ray_and_kubernetes_have_the_same_variable(self, shop: Programs) -> None:
        os.environ.pop("PATCHCORE_RUN_ID", None)
        values = [
            json.loads(environment(shop, "--as", "json"))["environment"]["PATCHCORE_SESSION"],
            json.loads(environment(shop, "--as", "ray"))["env_vars"]["PATCHCORE_SESSION"],
            environment(shop, "--as", "kubernetes").split("value: ")[1].strip().strip('"'),
        ]
        views = [patchcore_startup.decode_session(value) for value in values]
        for view in views:
            del view["run"]
        assert views[0] == views[1] == views[2]
        yaml = environment(shop, "--as", "kubernetes").splitlines()[-3:]
        assert yaml[:2] == ["env:", "  - name: PATCHCORE_SESSION"]

    def test_a_program_is_refused(self, shop: Programs) -> None:
        done = shop.run([shop.python[0], "-m", "patchcore", "environment", "train.py"], code=2)
        assert "the environment is for any program" in done.stderr


class TestTakesPart:
    """The processes are started with the one variable, and with nothing else of a run."""

    def start(self, shop: Programs, value: str, code: int = 0, **environment: str) -> Any:
        site = patchcore_startup.SITE  # as the .pth file of an installed patchcore
        return shop.run([*shop.python, "sell.py"], code=code, PATCHCORE_SESSION=value, PYTHONPATH=site, **environment)

    def test_a_program_is_patched_and_reports(self, shop: Programs) -> None:
        value = session(shop, "-p", "deals", "--report-dir", "reports")
        done = self.start(shop, value)
        assert (done.stdout, done.stderr) == ("20\n", "patchcore: 1 applied\n")
        (path,) = (shop.folder / "reports").glob("report-*.json")
        report = json.loads(path.read_text())
        assert (report["role"], report["finished"]) == ("main", True)

    def test_a_rank_is_a_rank(self, shop: Programs) -> None:
        assert self.start(shop, session(shop, "-p", "deals"), RANK="0").stderr == "patchcore [rank 0]: 1 applied\n"

    @pytest.mark.parametrize("strict", [False, True])
    def test_a_damaged_value_is_one_line(self, shop: Programs, strict: bool) -> None:
        value = session(shop, "-p", "deals", *(["--strict"] if strict else []))
        for damaged in (value[:-20], value.replace(":", ": ", 1)[:30], value.replace("2", "7", 1)):
            done = self.start(shop, damaged, code=int(strict))
            (line,) = done.stderr.splitlines()
            assert line.startswith("patchcore: this process (")
            assert " is not patched: " in line
            assert done.stdout == ("" if strict else "10\n")

    def test_a_plugin_of_another_version_is_one_line(self, shop: Programs) -> None:
        value = session(shop, "-p", "deals")
        view = patchcore_startup.decode_session(value)
        view["plugins"].append(["sales", "shop-sales", "2.1"])
        stale = patchcore_startup.encode_session("2", value.split(":")[1:-1], view)
        first, second = self.start(shop, stale).stderr.splitlines()
        assert first.startswith("patchcore: plugin sales (shop-sales 2.1) is not installed for ")
        assert second == "patchcore: 1 applied"


WORKER = """
import sys
from patchcore.plugin import raise_failures
try:
    import shop.prices
    raise_failures()
    print(shop.prices.price(1))
except Exception as error:
    print(type(error).__name__, error)
"""
PLUGIN = """
import patchcore as pc
from patchcore.plugin import Engine

@pc.hookimpl(optionalhook=True)
def register_engines():
    return [Engine("crew", ["crew/worker.py"], ["crew/daemon.py"])]
"""


class TestEngines:
    """Workers never die at their start: what failed is raised where the plugin of the engine says."""

    @pytest.fixture
    def crew(self, shop: Programs) -> Programs:
        start = "import subprocess, sys\nsubprocess.run([sys.executable, *sys.argv[1].split()], check=True)\n"
        files = {"engine.py": PLUGIN, "crew/worker.py": WORKER, "crew/daemon.py": WORKER, "start.py": start}
        shop.write(files)
        return shop

    def run(self, crew: Programs, *options: str, script: str = "crew/worker.py", **named: Any) -> Any:
        options = ("-p", "engine", "-p", "deals", "--report-dir", "reports", *options)
        path = str(crew.folder)
        return crew.run(crew.patchcore, *options, "start.py", script, PYTHONPATH=path, **named)

    @pytest.mark.parametrize("strict", [False, True])
    def test_a_patch_that_fails_is_raised_where_the_plugin_says(self, crew: Programs, strict: bool) -> None:
        crew.write({"deals.py": FAILING})
        done = self.run(crew, *(["--strict"] if strict else []))
        assert done.stdout.startswith("RunError patch deals.double (plugin deals) failed: " if strict else "10\n")

    def test_a_worker_that_is_patched_says_nothing_at_its_end(self, crew: Programs) -> None:
        done = self.run(crew, "--strict", RANK="0")
        assert done.stdout == "20\n"
        assert done.stderr.count("applied") <= 1

    @pytest.mark.parametrize("script", ["crew/daemon.py", "-m crew.daemon"])
    def test_a_daemon_takes_no_part(self, crew: Programs, script: str) -> None:
        assert self.run(crew, script=script).stdout == "10\n"
        reports = [json.loads(path.read_text()) for path in (crew.folder / "reports").glob("report-*.json")]
        assert {os.path.basename(report["environment"]["program"].split()[0]) for report in reports} <= {"start.py"}

    def test_a_worker_that_did_not_finish_is_no_finding(self, crew: Programs) -> None:
        crew.write({"crew/worker.py": "import os, shop.prices\nos._exit(0)\n"})
        self.run(crew, RANK="")
        view = json.loads(crew.run([crew.python[0], "-m", "patchcore", "report", "reports", "--format", "json"]).stdout)
        assert view["findings"] == []
        states = {p["role"]: (p["finished"], p["job"]["engine"]) for p in view["processes"]}
        assert states["worker"] == (False, "crew")
