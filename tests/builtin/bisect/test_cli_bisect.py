"""``patchcore bisect``: runs a command with sets of patches, and says which make it fail."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Optional

import pytest
from patch_folder import PatchFolder
from reports import Reports, patcher

import patchcore as pc
from patchcore.builtin.bisect import command as bisect
from patchcore.builtin.bisect.trials import Attempt, Oracle, Trials, _running
from patchcore.builtin.run.program import Command

ROOT = Path(__file__).resolve().parents[3]
ALL = {"price", "label", "sale", "refund"}
posix = pytest.mark.skipif(not hasattr(os, "killpg"), reason="the commands are for a shell")


@pytest.fixture
def shop(make_package: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> PatchFolder:
    made = PatchFolder(make_package, monkeypatch, capsys)
    made.write(sell="")
    return made


class Runs:
    """Stands for running the command: keeps what was enabled, the last parts of the names, and answers.

    Args:
        fails: whether the command fails with these patches; may raise.
        touched: patches that the processes of the first run report to have done something with; no reports by default.
    """

    def __init__(self, fails: Callable[[set[str]], bool], touched: Optional[Collection[str]] = None) -> None:
        self.fails = fails
        self.touched = touched
        self.enabled: list[set[str]] = []
        self.commands: list[tuple[str, ...]] = []
        self.report_dirs: list[str] = []

    def attempt(self, command: Command, environ: dict[str, str]) -> Attempt:
        arguments = command.arguments[command.arguments.index("run") + 1 :]
        chosen = {option: self.names(arguments, option) for option in ("--enable", "--disable")}
        assert chosen["--enable"].isdisjoint(chosen["--disable"])
        self.enabled.append(chosen["--enable"])
        self.commands.append(arguments)
        self.report_dirs.append(environ["PATCHCORE_REPORT_DIR"])
        if self.touched is not None and environ["PATCHCORE_REPORT_DIR"]:
            self.report(Path(environ["PATCHCORE_REPORT_DIR"]), self.touched)
        fails = self.fails(chosen["--enable"])
        return Attempt(fails, f"exit code {int(fails)}", "the end\n")

    @staticmethod
    def names(arguments: tuple[str, ...], option: str) -> set[str]:
        if option not in arguments:
            return set()
        return {name.partition(".")[2] for name in arguments[arguments.index(option) + 1].split(",")}

    @staticmethod
    def report(folder: Path, touched: Collection[str]) -> None:
        __import__("shop")
        patches = [pc.Patch(f"shop.{name}", [pc.Replace(f"shop:{name}", print)]) for name in sorted(touched)]
        later = pc.Patch("shop.label", [pc.Replace("this:label", print)])  # is not imported
        Reports(folder).write(patcher(*patches, *([later] if "label" not in touched else [])))


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Runs]:
    """Return a function that lets the command fail as it is told, in no process."""

    def simulate(fails: Callable[[set[str]], bool], touched: Optional[Collection[str]] = None) -> Runs:
        runs = Runs(fails, touched)
        monkeypatch.setattr(Trials, "_attempt", lambda self, command, environ: runs.attempt(command, environ))
        return runs

    return simulate


Simulate = Callable[..., Runs]


class TestFinds:
    def test_a_pair_that_fails_only_together(self, shop: PatchFolder, simulate: Simulate) -> None:
        runs = simulate({"label", "refund"}.issubset)
        result = shop.run("bisect", "--", "sell.py", "--fast")
        assert result.code == 1
        assert result.out.splitlines() == [
            "these patches make the command fail only together:",
            "  shop.label",
            "  shop.refund",
            "of patches that fail only together, it is enough to disable one",
            "without them: patchcore run --disable shop.label,shop.refund -- sell.py --fast",
        ]
        assert re.fullmatch(
            r"run 1: all 4 patches: fails\nrun 2: 0 patches: passes\n(run \d+: (1 patch|[23] patches): \w+\n)+",
            result.err,
        )
        assert runs.enabled[:2] == [ALL, set()]
        assert runs.enabled[-1] == {"label", "refund"}  # once more

    def test_as_json(self, shop: PatchFolder, simulate: Simulate) -> None:
        simulate(lambda tried: "sale" in tried)
        result = shop.run("bisect", "--format", "json", "--keep", "shop.label", "--", "-m", "sell")
        content = result.json
        assert result.code == 1
        assert {**content, "runs": content["runs"][:2]} == {
            "schema_version": 1,
            "complete": True,
            "culprits": [["shop.sale"]],
            "command_without": "patchcore run --disable shop.sale -m sell",
            "suspects": [],
            "patches": ["shop.price", "shop.sale", "shop.refund"],
            "not_applied": [],
            "kept": ["shop.label"],
            "varying": [],
            "runs": [
                {
                    "patches": ["shop.price", "shop.refund", "shop.sale"],
                    "fails": True,
                    "attempts": [{"fails": True, "how": "exit code 1"}],
                },
                {"patches": [], "fails": False, "attempts": [{"fails": False, "how": "exit code 0"}]},
            ],
        }

    def test_counts_and_halves_the_patches_that_the_first_run_applied(
        self, shop: PatchFolder, simulate: Simulate
    ) -> None:
        runs = simulate(lambda tried: "sale" in tried, touched={"price", "sale"})
        result = shop.run("bisect", "--", "sell.py")
        assert result.code == 1
        assert runs.enabled == [ALL, set(), {"price", "sale"}, {"price"}, {"sale"}, {"sale"}]
        assert result.err.splitlines()[:3] == [
            "run 1: all 2 patches that apply here: fails",
            "run 2: 0 patches: passes",
            "run 3: 2 patches: fails",
        ]
        content = shop.run("bisect", "--format", "json", "--", "sell.py").json
        assert content["patches"] == ["shop.price", "shop.sale"]
        assert content["not_applied"] == ["shop.label", "shop.refund"]

    def test_of_all_patches_when_the_applied_ones_pass_alone(self, shop: PatchFolder, simulate: Simulate) -> None:
        simulate(lambda tried: "label" in tried, touched={"sale"})
        content = shop.run("bisect", "--format", "json", "--", "sell.py").json
        assert content["culprits"] == [["shop.label"]]
        assert (len(content["patches"]), content["not_applied"]) == (4, [])

    def test_only_the_first_run_writes_reports(self, shop: PatchFolder, simulate: Simulate) -> None:
        (shop.folder / "pyproject.toml").write_text('[tool.patchcore]\nreport_dir = "mine"\n')
        runs = simulate(lambda tried: "sale" in tried)
        shop.run("bisect", "--", "sell.py")
        first, *others = runs.report_dirs
        assert Path(first).is_absolute()
        assert not Path(first).exists()  # any more
        assert others == [""] * len(others)


class TestScope:
    def test_options_of_run_are_passed_on(self, shop: PatchFolder, simulate: Simulate) -> None:
        runs = simulate(lambda tried: "sale" in tried)
        result = shop.run("bisect", "--strict", "--repeat", "1", "--disable", "shop.label", "--", "sell.py", "--repeat")
        assert result.out.splitlines()[-1] == (
            "without them: patchcore run --disable shop.sale --strict --disable shop.label -- sell.py --repeat"
        )
        assert runs.enabled[0] == ALL - {"label"}
        assert all(command[-6:] == runs.commands[0][-6:] for command in runs.commands)
        assert runs.commands[0][-6:] == ("--strict", "--disable", "shop.label", "--", "sell.py", "--repeat")

    def test_what_lost_a_conflict_is_never_tried(self, shop: PatchFolder, simulate: Simulate) -> None:
        shop.replace("new)])", 'new)], conflicts=["shop.price"] * (name == "sale"))')
        runs = simulate(lambda tried: "refund" in tried)
        shop.run("bisect", "--", "sell.py")
        assert all("sale" not in enabled for enabled in runs.enabled)
        assert all("sale" in Runs.names(command, "--disable") for command in runs.commands)

    def test_brake_is_no_suspect(self, shop: PatchFolder, simulate: Simulate) -> None:
        runs = simulate(lambda tried: "refund" in tried)
        shop.run("bisect", "--brake", "3", "--step", "shop:later", "--", "sell.py")
        assert runs.enabled[0] == ALL


class TestNothingToFind:
    @pytest.mark.parametrize(
        ("touched", "patches"),
        [
            ({"price", "sale"}, "all 2 patches that apply here"),
            ({"price"}, "the only patch that applies here"),
            (set(), "4 patches, none of which was applied,"),
        ],
    )
    def test_passes_with_those_that_apply_here(
        self, shop: PatchFolder, simulate: Simulate, touched: set[str], patches: str
    ) -> None:
        simulate(lambda tried: False, touched=touched)
        result = shop.run("bisect", "--", "sell.py")
        assert result.err == f"run 1: {patches.rstrip(',')}: passes\n"
        assert result.out == f"with {patches} the command passes (exit code 0); no findings\n"

    def test_fails_without_any(self, shop: PatchFolder, simulate: Simulate) -> None:
        simulate(lambda tried: True)
        result = shop.run("bisect", "--", "sell.py")
        assert (result.code, result.out) == (2, "")
        message = result.err.partition("patchcore: ")[2]
        assert message.startswith(
            "without any patch the command fails, too (exit code 1), so bisect cannot find patches"
        )
        assert "--oracle REGEX" in message
        assert message.endswith("output:\n    the end\n")

    def test_fails_with_what_is_kept(self, shop: PatchFolder, simulate: Simulate) -> None:
        simulate(lambda tried: True)
        result = shop.run("bisect", "--keep", "deals", "--", "sell.py")
        assert "without any patch except those of --keep (shop.price, shop.label, shop.sale, shop.refund)" in result.err


class TestVaries:
    def test_a_set_fails_when_one_of_its_runs_does(self, shop: PatchFolder, simulate: Simulate) -> None:
        times = {"sale": 0}

        def at_times(tried: set[str]) -> bool:
            times["sale"] += "sale" in tried
            return "sale" in tried and times["sale"] % 3 == 0

        simulate(at_times)
        result = shop.run("bisect", "--repeat", "3", "--", "sell.py")
        assert result.out.splitlines()[:2] == ["this patch makes the command fail:", "  shop.sale"]
        assert "run 1: all 4 patches: fails 1 times in 3" in result.err
        assert (
            "the outcome varies, so this result is uncertain; --repeat N runs each set of patches N times:"
            in result.out
        )

    def test_is_noticed_without_repeating(self, shop: PatchFolder, simulate: Simulate) -> None:
        failed: list[set[str]] = []

        def once(tried: set[str]) -> bool:
            fails = "sale" in tried and tried not in failed
            failed.append(tried)
            return fails

        simulate(once)
        result = shop.run("bisect", "--", "sell.py")
        assert result.out.splitlines()[-1] == "  shop.sale: failed in 1 of 2 runs"


class TestInterrupt:
    @pytest.mark.parametrize(
        ("at", "said"),
        [
            (1, ["interrupted after 0 runs"]),
            (3, ["interrupted after 2 runs", "the patches that make it fail are among 4 patches:", "  shop.price"]),
            (
                4,
                [
                    "interrupted after 3 runs",
                    "the patches that make it fail are among 2 patches:",
                    "  shop.price",
                    "  shop.label",
                ],
            ),
        ],
    )
    def test_says_what_is_known(self, shop: PatchFolder, simulate: Simulate, at: int, said: list[str]) -> None:
        def interrupted(tried: set[str]) -> bool:
            if len(runs.enabled) == at:
                raise KeyboardInterrupt
            return "label" in tried

        runs = simulate(interrupted)
        result = shop.run("bisect", "--", "sell.py")
        assert result.code == 130
        assert result.out.splitlines()[: len(said)] == said
        runs.enabled.clear()
        assert shop.run("bisect", "--format", "json", "--", "sell.py").json["complete"] is False


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["sell.py"], "expected the command to run after --; write: patchcore bisect [options] -- COMMAND"),
            (["--"], "expected the command to run after --"),
            (["--", "-m"], "expected the command to run after --"),
            (["sell.py", "--", "sell.py"], "unexpected before --: 'sell.py'"),
            (["--oracle", "(", "--", "sell.py"], "'(' is not a regular expression: "),
            (["--repeat", "0", "--", "sell.py"], "expected a whole number, 1 or more, got '0'"),
            (["--timeout", "0", "--", "sell.py"], "expected seconds, more than 0, got '0'"),
            (["--nosuch", "--", "sell.py"], "unrecognized arguments: --nosuch"),
            (["--", "nosuch.py"], "can't find 'nosuch.py'"),
            (
                ["--keep", "shop.prize", "--", "sell.py"],
                "no patch, legacy name, plugin or target is called 'shop.prize'",
            ),
            (["--plugin", "nosuch", "--", "sell.py"], "no plugin 'nosuch' is installed"),
        ],
    )
    def test_errors(self, shop: PatchFolder, simulate: Simulate, arguments: list[str], message: str) -> None:
        runs = simulate(lambda tried: True)
        result = shop.run("bisect", *arguments)
        assert (result.code, runs.enabled) == (2, [])
        assert message in result.err


class TestOracle:
    def test_exit_code(self) -> None:
        assert Oracle().judge(0, "out") == (False, "exit code 0", "out")
        assert Oracle().judge(-11, "") == (True, "exit code -11", "")
        assert Oracle(timeout=2).judge(None, "") == (True, "not ended after 2 seconds", "")

    def test_regular_expression(self) -> None:
        oracle = Oracle(bisect._pattern("^loss: nan$"), timeout=0.5)
        assert oracle.judge(0, "a\nloss: nan\n")[:2] == (True, "exit code 0, wrote 'loss: nan'")
        assert oracle.judge(1, "a\nloss: nano\n")[:2] == (False, "exit code 1, nothing like '^loss: nan$'")
        assert oracle.judge(None, "loss: nan")[:2] == (True, "not ended after 0.5 seconds, wrote 'loss: nan'")


@posix
class TestProcesses:
    def trials(self, **oracle: Any) -> Trials:
        return Trials([], ["sell.py"], [], oracle=Oracle(**oracle))

    def test_both_streams_and_the_code(self) -> None:
        command = Command("/bin/sh", ("sh", "-c", "echo out; echo err >&2; read line || exit 3"))
        assert self.trials()._attempt(command, os.environ) == (True, "exit code 3", "out\nerr\n")

    def test_one_that_takes_too_long_is_ended_with_all_it_has_started(self, tmp_path: Path) -> None:
        command = Command("/bin/sh", ("sh", "-c", "sleep 60 & echo $!; wait"))
        attempt = self.trials(timeout=2)._attempt(command, os.environ)
        assert attempt[:2] == (True, "not ended after 2 seconds")
        assert has_ended(int(attempt.tail))

    def test_nothing_is_left_of_one_that_ended(self) -> None:
        command = Command("/bin/sh", ("sh", "-c", "sleep 60 & echo $!"))
        attempt = self.trials()._attempt(command, os.environ)
        assert (attempt.how, has_ended(int(attempt.tail))) == ("exit code 0", True)

    def test_an_interrupt_ends_it(self) -> None:
        with tempfile.TemporaryFile() as output, pytest.raises(KeyboardInterrupt):
            with _running(Command("/bin/sleep", ("sleep", "60")), os.environ, output) as process:
                raise KeyboardInterrupt
        assert process.returncode < 0

    def test_a_planted_pair_in_real_runs(self, shop: PatchFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        shop.write(sell="import shop\nassert not (shop.price() and shop.refund()), 'both'\n", later="")
        shop.replace('f"shop:{name}"', "f\"{dict(sale='later', label='later').get(name, 'shop')}:{name}\"")
        path = os.pathsep.join([str(shop.folder), str(ROOT), os.environ.get("PYTHONPATH", "")])
        monkeypatch.setenv("PYTHONPATH", path)
        result = shop.run("bisect", "--oracle", "Error: both$", "--", "sell.py")
        assert result.out.splitlines()[:3] == [
            "these patches make the command fail only together:",
            "  shop.price",
            "  shop.refund",
        ]
        assert result.code == 1
        # two patches are for a module that is not imported
        assert result.err.splitlines()[0] == "run 1: all 2 patches that apply here: fails"
        assert "run 3: 2 patches: fails" in result.err


def has_ended(process: int) -> bool:
    """Tell whether a process that was killed has ended, or does soon."""
    for _ in range(200):
        try:
            os.kill(process, 0)
            with open(f"/proc/{process}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.01)
    return False
