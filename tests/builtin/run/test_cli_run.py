"""The command line of ``patchcore run``: options in any order, errors said once; what console scripts can import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import hypothesis
import pytest
from distributions import write_distribution
from hypothesis import strategies as st
from programs import PATCHES, SHOP, Programs

from patchcore.builtin.run import command as run
from patchcore.cli import main

HALTS = """
import patchcore as pc

@pc.hookimpl
def register_run_options(parser):
    parser.add_argument("--halt", type=int)
    parser.add_argument("--quick", action="store_true")
"""

#: A local module that has patches, and adds an option.
DEALS = f"""{PATCHES}
@pc.hookimpl
def register_run_options(parser):
    parser.add_argument("--rebate")
"""

#: Options that belong together, and what they mean.
GROUPS = {
    ("--halt", "3"): ("halt", 3),
    ("--halt=3",): ("halt", 3),
    ("--quick",): ("quick", True),
    ("-p", "deals"): ("modules", ["deals"]),
    ("--module=deals",): ("modules", ["deals"]),
    ("--rebate", "sell.py"): ("rebate", "sell.py"),
    ("--strict",): ("strict", True),
    ("--brake", "5"): ("setting:brake", "5"),
    ("--disable", "deals"): ("disable", ["deals"]),
    ("--report-dir", "reports"): ("setting:report_dir", "reports"),
}


@pytest.fixture
def halts(make_package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_package({"halts_plugin": HALTS, "deals": DEALS, "shop.prices": SHOP["shop/prices.py"]})
    write_distribution(folder, "halts", "1.0", plugins={"halts": "halts_plugin"})
    monkeypatch.setenv("PATCHCORE_PLUGINS", "halts")  # and none of those where the tests run
    monkeypatch.chdir(folder)
    (folder / "sell.py").write_text("")


class TestOrder:
    """What chooses plugins comes first; the other options have no order."""

    @hypothesis.given(st.permutations(list(GROUPS)), st.sampled_from([["sell.py"], ["--", "sell.py"], ["-m", "sell"]]))
    @hypothesis.settings(
        max_examples=60, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture], deadline=None
    )
    def test_of_the_others_is_free(self, halts: None, groups: Sequence[tuple[str, ...]], program: list[str]) -> None:
        own = ["-p", "5", "--halt", "9", "--rebate"]  # of the program
        first = sorted(groups, key=lambda group: group[0] not in ("-p", "--module=deals"))
        given = [*(argument for group in first for argument in group)]
        options = run.parse([*given, *program, *own])
        expected = dict(GROUPS.values())
        expected["modules"] = ["deals", "deals"]
        assert {name: getattr(options, name) for name in expected} == expected
        assert options.program == [program[-1], *own]
        assert options.as_module is (program[0] == "-m")
        assert list(options.arguments) == [*given, *program[:-1]]
        assert [c.provenance.plugin for c in options.patcher.collect() if c.provenance.plugin == "deals"]

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--nope", "sell.py"],
            ["--nope", "-p", "deals", "sell.py"],
            ["-p", "deals", "--nope", "sell.py"],
            ["-p", "deals", "--halt", "3", "--nope", "--rebate", "2", "sell.py"],
            ["--nope", "sell.py", "-p", "5"],  # the program's
        ],
    )
    def test_an_unknown_option_is_named(self, halts: None, capsys, arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as stopped:
            main(["run", *arguments])
        assert stopped.value.code == 2
        assert "unrecognized arguments: --nope" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["--halt", "3", "-p", "deals", "sell.py"],
                "-p comes before the options of plugins; write: patchcore run -p deals ...",
            ),
            (
                ["--halt", "3", "--plugin", "halts", "sell.py"],
                "--plugin comes before the options of plugins; write: patchcore run --plugin halts ...",
            ),
            (
                ["--rebate", "2", "-p", "deals", "sell.py"],
                "unrecognized arguments: --rebate; -p MODULE and --plugin NAME come first; the options of these "
                "plugins come after them",
            ),
        ],
    )
    def test_what_chooses_plugins_comes_first(self, halts: None, capsys, arguments: list[str], message: str) -> None:
        with pytest.raises(SystemExit) as stopped:
            main(["run", *arguments])
        assert stopped.value.code == 2
        assert f"error: {message}\n" in capsys.readouterr().err

    def test_an_option_of_a_plugin_that_is_left_out_is_named(self, halts: None, capsys) -> None:
        with pytest.raises(SystemExit):
            main(["run", "--plugin", "halts", "--halt", "3", "--rebate", "2", "sell.py"])
        assert "unrecognized arguments: --rebate" in capsys.readouterr().err

    def test_a_wrong_value_of_an_option_that_exists_is_no_question_of_plugins(self, halts: None, capsys) -> None:
        with pytest.raises(SystemExit) as stopped:
            main(["run", "--plugin", "halts", "--halt=soon", "sell.py"])
        assert stopped.value.code == 2
        assert "error: argument --halt: invalid int value: 'soon'\n" in capsys.readouterr().err

    def test_help_has_the_options_of_modules(self, halts: None, capsys) -> None:
        with pytest.raises(SystemExit):
            main(["run", "-p", "deals", "--rebate", "2", "--help"])
        out = capsys.readouterr().out
        assert "--rebate" in out
        assert "--halt" in out

    def test_in_processes_of_the_run(self, programs: Programs) -> None:
        source = DEALS + "\n@pc.hookimpl\ndef configure_run(options): print(options.rebate, flush=True)\n"
        programs.write({**SHOP, "deals.py": source})
        done = programs.run(programs.patchcore, "-p", "deals", "--rebate", "much", "--count", "sell.py")
        assert done.stdout == "much\n20\n"
        assert done.stderr == "patchcore: 1 applied\n"


class TestReportFolder:
    @pytest.mark.parametrize("path", ["sell.py", "sell.py/reports"])
    def test_that_cannot_be_one_is_refused_before_anything_starts(self, programs: Programs, path: str) -> None:
        programs.write(SHOP)
        done = programs.run(programs.patchcore, "--report-dir", path, "sell.py", code=2)
        file = programs.folder.resolve() / "sell.py"
        where = programs.folder.resolve() / path
        assert (done.stdout, done.stderr) == (
            "",
            f"patchcore: --report-dir: reports cannot be written to {where}: {file} is not a folder\n",
        )


class TestErrorsAreSaidOnce:
    def test_a_module_that_is_not_there(self, programs: Programs) -> None:
        programs.write(SHOP)
        done = programs.run(programs.patchcore, "-p", "nope", "sell.py", code=1)
        where = programs.folder.resolve()
        assert done.stderr == (
            f"patchcore: the patch module nope (in {where}) cannot be loaded: "
            "ModuleNotFoundError: No module named 'nope'\n"
        )

    def test_a_module_that_fails_is_said_with_its_line(self, programs: Programs) -> None:
        programs.write({**SHOP, "broken.py": "import patchcore\nboom = 1 / 0\n"})
        done = programs.run(programs.patchcore, "-p", "broken", "sell.py", code=1)
        assert done.stderr.count("ZeroDivisionError: division by zero") == 2  # the message, and the end of the trace
        assert done.stderr.count("cannot be loaded") == 1
        assert "boom = 1 / 0" in done.stderr
        assert "Traceback" not in done.stderr

    def test_a_plugin_that_fails(self, programs: Programs) -> None:
        programs.write(SHOP)
        programs.install({"broken.py": "boom = 1 / 0\n"}, "broken", broken="broken")
        done = programs.run(programs.patchcore, "--strict", "-p", "deals", "sell.py", code=1)
        assert "the patch module deals" in done.stderr
        done = programs.run(programs.patchcore, "--strict", "sell.py", code=1)
        assert done.stderr.count("plugin broken (broken 1.0): load failed") == 2  # with its trace, and why nothing runs
        assert "nothing was started" in done.stderr

    @pytest.mark.parametrize("failing", ["raise ValueError('no licence')", "return pc.Patch('shop.one')"])
    def test_a_plugin_that_fails_in_a_hook_is_shown_once_with_its_own_lines(
        self, programs: Programs, failing: str
    ) -> None:
        programs.write(
            {**SHOP, "team.py": f"import patchcore as pc\n@pc.hookimpl\ndef register_patches():\n    {failing}\n"}
        )
        child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import shop'], check=True)"
        done = programs.run(programs.patchcore, "-p", "team", "--", "python", "-c", child)
        assert done.stderr.count("plugin team: register_patches failed") == 1
        assert "plugins.py" not in done.stderr
        assert ('team.py", line 4' in done.stderr) == failing.startswith("raise")


class TestCurrentFolder:
    """A console script finds the modules that ``python -m patchcore`` finds, for every command."""

    @pytest.fixture
    def shop(self, programs: Programs) -> Programs:
        programs.write({**SHOP, "deals.py": PATCHES, "bin/shop.py": "raise SystemExit('of the script')"})
        return programs

    @pytest.mark.parametrize(
        "command",
        [
            ["explain", "shop.prices:price", "-p", "deals"],
            ["check", "--apply", "-p", "deals"],
            ["list", "-p", "deals"],
            ["lock", "-p", "deals", "--file", "a.lock"],
        ],
        ids=lambda command: command[0],
    )
    def test_is_seen(self, shop: Programs, command: list[str]) -> None:
        as_module = shop.run([*shop.python, "-m", "patchcore"], *command)
        as_script = shop.run([*shop.python, str(shop.folder / "bin" / "patchcore")], *command)
        assert as_script.stdout == as_module.stdout.replace("written", "is unchanged")
        assert "not installed" not in as_script.stdout

    def test_not_with_a_safe_path(self, shop: Programs) -> None:
        script = [*shop.python, "-I", str(shop.folder / "bin" / "patchcore")]
        done = shop.run(script, "explain", "shop.prices:price", code=2)
        assert "shop" in done.stderr
