"""Verifying patches without torch: what is compared, what counts as reached, what is left behind."""

from __future__ import annotations

import importlib
import json
import random
from itertools import groupby
from typing import Any

import pytest
from library import LIBRARY

import patchcore as pc
from patchcore.builtin.verify.verify import CheckResult, verify
from patchcore.cli import main
from patchcore.engine.engine import ENGINE
from patchcore.errors import PatchcoreError
from patchcore.objects.extensions import Extensions


def case(rng: random.Random) -> pc.Case:
    import lib.ops  # type: ignore[import-not-found]

    return pc.Case(lib.ops.conv, [rng.randrange(100)])


def the_same(x: Any) -> Any:
    return ("original", x)


def another(x: Any) -> Any:
    return ("original", x + 1)


def raising(x: Any) -> Any:
    raise ValueError("no kernel")


def of(change: pc.Replace, check: pc.Check, **declaration: Any) -> pc.Patch:
    return pc.Patch("lib.conv", change, checks=check, **declaration)


def only(patch: pc.Patch, **options: Any) -> CheckResult:
    (result,) = verify([patch], device="cpu", **options)
    return result


@pytest.fixture(autouse=True)
def library(make_package: Any) -> None:
    make_package(LIBRARY)


class TestResults:
    def test_a_replacement_that_does_the_same_agrees(self) -> None:
        result = only(of(pc.Replace("lib.ops:conv", the_same), pc.Check(case)))
        assert result[:4] == ("lib.conv", "case", None, "agrees")
        assert (result.forward_error, result.gradient_error, result.message) == (0.0, None, "")

    def test_the_patch_is_applied_with_what_plugins_bring(self) -> None:
        def refuse(*args: Any) -> None:
            raise pc.DeclarationError("refused by a guard")

        patch = of(pc.Replace("lib.ops:conv", the_same), pc.Check(case))
        result = only(patch, extensions=Extensions(guards=[refuse]))
        assert result.status == "failed"
        assert "refused by a guard" in result.message

    def test_another_result_differs_and_says_where(self) -> None:
        result = only(of(pc.Replace("lib.ops:conv", another), pc.Check(case)))
        assert result.status == "differs"
        assert result.message.startswith("round 0: result[1]: expected ")

    def test_floating_point_results_may_differ_by_what_is_allowed(self) -> None:
        def halves(rng: random.Random) -> pc.Case:
            ops = importlib.import_module("lib.ops")
            return pc.Case(lambda x: ops.conv(x)[1], [rng.uniform(1, 2)])

        patch = pc.Replace("lib.ops:conv", lambda x: ("original", x * 1.01))
        assert only(of(patch, pc.Check(halves, rtol=0.02))).status == "agrees"
        result = only(of(patch, pc.Check(halves, rtol=0.005)))
        assert result.status == "differs"
        assert result.error == pytest.approx(0.01)
        assert "allowed 0.005" in result.message

    def test_a_result_more_or_less_differs(self) -> None:
        result = only(of(pc.Replace("lib.ops:conv", lambda x: ("original", x, x)), pc.Check(case)))
        assert result.message == "round 0: result[2]: the replacement gives one, the original none"

    def test_a_replacement_that_no_case_calls_is_not_reached(self) -> None:
        patch = pc.Replace("lib.ops:conv", the_same, when_call=lambda x: False)
        result = only(of(patch, pc.Check(case)))
        assert (result.status, result.ok) == ("not reached", False)
        assert result.message == "no case on cpu called the replacement"

    def test_a_check_without_anything_to_draw_is_skipped(self) -> None:
        patch = of(pc.Replace("lib.ops:conv", another), pc.Check(lambda rng: pc.Skip("lib 1 has no conv2")))
        result = only(patch)
        assert (result.status, result.message, result.ok) == ("skipped", "lib 1 has no conv2", True)

    def test_changes_that_each_module_made_are_seen(self) -> None:
        def changes(replacement: Any) -> Any:
            return lambda module: (
                [pc.Replace(f"{module.__name__}:conv", replacement)] if hasattr(module, "conv") else []
            )

        def found(replacement: Any) -> str:
            patch = pc.Patch("lib.all", pc.EachModule("lib.*", changes(replacement)), checks=pc.Check(case))
            return only(patch).status

        assert found(the_same) == "agrees"
        assert found(another) == "differs"

        def nothing(module: Any) -> list[Any]:
            return []

        patch = pc.Patch("lib.all", pc.EachModule("lib.*", nothing), checks=pc.Check(case))
        assert only(patch).status == "not reached"

    def test_a_product_of_a_factory_is_seen(self) -> None:
        def factory(original: Any) -> Any:
            return lambda x: original(x)

        assert only(of(pc.Replace("lib.ops:conv", factory=factory), pc.Check(case))).status == "agrees"

    def test_a_builtin_is_seen(self) -> None:
        patch = of(pc.Replace("lib.ops:conv", abs), pc.Check(lambda rng: case_of_abs()))
        assert only(patch).status == "agrees"

    @pytest.mark.parametrize(
        ("draw", "message"),
        [
            (lambda rng: 3, "returns int, expected patchcore.Case"),
            (lambda rng: pc.Case(raising, [1]), "the original raised"),
            ("lib.checks:no", "the check cannot be imported"),
        ],
        ids=["no case", "original", "import"],
    )
    def test_what_raises_is_told_and_not_taken_for_agreement(self, draw: Any, message: str) -> None:
        result = only(of(pc.Replace("lib.ops:conv", the_same), pc.Check(draw)))
        assert result.status == "failed"
        assert message in result.message

    def test_a_replacement_that_raises_fails(self) -> None:
        result = only(of(pc.Replace("lib.ops:conv", raising), pc.Check(case)))
        assert result.status == "failed"
        assert result.message == (
            "the replacement raised, on the case of seed 'lib.conv case 0 0': ValueError: no kernel"
        )

    def test_a_patch_that_does_not_fit_is_skipped_with_the_reason(self) -> None:
        patch = of(pc.Replace("lib.ops:conv", the_same), pc.Check(case), needs="no_such_kernels")
        result = only(patch)
        assert (result.status, result.ok) == ("skipped", True)
        assert "no_such_kernels" in result.message

    def test_a_patch_that_cannot_be_applied_fails(self) -> None:
        result = only(of(pc.Replace("lib.ops:cnov", the_same), pc.Check(case)))
        assert result.status == "failed"
        assert "conv" in result.message

    def test_the_reference_stands_in_for_an_original_that_cannot_run(self) -> None:
        def draw(rng: random.Random) -> pc.Case:
            ops = importlib.import_module("lib.ops")
            return pc.Case(ops.conv, [1], reference=lambda x: ("reference", x))

        patch = pc.Replace("lib.ops:conv", lambda x: ("reference", x))
        assert only(of(patch, pc.Check(draw))).status == "agrees"


def case_of_abs() -> pc.Case:
    ops = importlib.import_module("lib.ops")
    return pc.Case(lambda: ops.conv(-7), reference=lambda: 7)


class TestSizes:
    @staticmethod
    def sized(rng: random.Random, size: pc.Size) -> pc.Case:
        ops = importlib.import_module("lib.ops")
        return pc.Case(ops.conv, [size.draw(rng, small=(1, 9), typical=(1000, 9000))])

    def test_a_draw_that_takes_a_size_gets_each(self) -> None:
        seen: list[int] = []
        change = pc.Replace("lib.ops:conv", lambda x: seen.append(x) or ("original", x))
        result = only(of(change, pc.Check(self.sized)), rounds=2)
        assert [(one.size, one.round) for one in result.measurements] == [
            (size, number) for size in ("small", "medium", "typical") for number in (0, 1)
        ]
        assert (max(seen[:2]) <= 9, 31 <= seen[2] <= 285, min(seen[4:]) >= 1000) == (True, True, True)

    def test_what_fails_in_large_cases_only_is_found_and_the_size_named(self) -> None:
        result = only(of(pc.Replace("lib.ops:conv", lambda x: ("original", min(x, 999))), pc.Check(self.sized)))
        assert (result.status, result.message[:19]) == ("differs", "typical, round 0: r")
        assert {one.size for one in result.measurements if one.message} == {"typical"}

    def test_a_draw_without_sizes_is_drawn_whatever_is_chosen(self) -> None:
        result = only(of(pc.Replace("lib.ops:conv", the_same), pc.Check(case)), sizes=[pc.Size.TYPICAL])
        assert [one.size for one in result.measurements] == [None] * 5

    def test_the_seed_of_a_measurement_draws_its_case_again(self) -> None:
        seen: list[int] = []
        change = pc.Replace("lib.ops:conv", lambda x: seen.append(x) or ("original", x))
        result = only(of(change, pc.Check(self.sized)), rounds=2)
        again = [self.sized(random.Random(one.seed), pc.Size(one.size)).args[0] for one in result.measurements]
        assert seen == again

    def test_what_was_measured_before_something_raised_is_kept(self) -> None:
        def fails_on_large(x: int) -> Any:
            return the_same(x) if x < 1000 else raising(x)

        result = only(of(pc.Replace("lib.ops:conv", fails_on_large), pc.Check(self.sized)), rounds=1)
        assert (result.status, result.error) == ("failed", float("inf"))
        assert [one.size for one in result.measurements] == ["small", "medium"]


class TestSpeed:
    def timed(self, replacement: Any) -> Any:
        result = only(of(pc.Replace("lib.ops:conv", replacement), pc.Check(case)), rounds=1, timing=True)
        return result.speeds

    def test_they_take_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[str] = []
        monkeypatch.setattr("lib.ops.conv", lambda x: calls.append("original") or the_same(x))
        self.timed(lambda x: calls.append("replacement") or the_same(x))
        # once to compare them, then three turns each
        assert [who for who, _ in groupby(calls)] == ["original", "replacement"] * 4

    def test_an_original_that_does_not_run_there_has_no_ratio_but_a_reason(self) -> None:
        def draw(rng: random.Random) -> pc.Case:
            ops = importlib.import_module("lib.ops")
            return pc.Case(
                lambda: raising(1) if ops.conv.__name__ == "conv" else ops.conv(1), reference=lambda: the_same(1)
            )

        result = only(of(pc.Replace("lib.ops:conv", the_same), pc.Check(draw)), rounds=1, timing=True)
        assert result.status == "agrees"
        (speed,) = result.speeds
        assert (speed.ratio, speed.reason) == (None, "the original does not run on cpu: ValueError: no kernel")

    def test_what_is_not_reached_is_not_timed(self) -> None:
        change = pc.Replace("lib.ops:conv", the_same, when_call=lambda x: False)
        assert only(of(change, pc.Check(case)), timing=True).speeds == ()

    def test_an_emulated_device_is_not_timed(self) -> None:
        patch = of(pc.Replace("lib.ops:conv", the_same), pc.Check(case))
        (result,) = verify([patch], device="tpu", timing=True, emulated=True)
        (speed,) = result.speeds
        assert (speed.original, speed.reason) == (
            None,
            "tpu is emulated: its speed does not show the speed of a real one",
        )


class TestAround:
    def test_the_same_seed_gives_the_same_cases_and_another_gives_others(self) -> None:
        seen: list[int] = []

        def draw(rng: random.Random) -> pc.Case:
            seen.append(rng.randrange(10**9))
            return case(rng)

        patch = of(pc.Replace("lib.ops:conv", the_same), pc.Check(draw))
        only(patch, rounds=3)
        assert seen[:3] == seen[3:]
        first = seen.copy()
        seen.clear()
        only(patch, rounds=3, seed=1)
        assert not {*first} & {*seen}

    def test_patches_that_are_not_default_are_verified_too(self) -> None:
        patch = of(pc.Replace("lib.ops:conv", the_same), pc.Check(case), default=False)
        assert only(patch).status == "agrees"

    def test_while_patches_are_in_force_there_is_no_original(self) -> None:
        patch = of(pc.Replace("lib.ops:conv", the_same), pc.Check(case))
        with pc.Patcher([patch]), pytest.raises(PatchcoreError, match=r"applied: lib\.conv; revert them first"):
            verify([patch])

    def test_patches_around_are_in_force_for_the_original_too(self) -> None:
        def draw(rng: random.Random) -> pc.Case:
            importlib.import_module("no_such_kernels")
            return case(rng)

        patch = of(pc.Replace("lib.ops:conv", the_same), pc.Check(draw))
        assert only(patch).status == "failed"
        around = pc.Patch("stub", pc.StubImport("no_such_kernels"))
        assert only(patch, around=[around]).status == "agrees"
        assert not ENGINE.active


PLUGIN = """
import patchcore as pc
def same(x): return ("original", x)
def wrong(x): return ("wrong", x)
def case(rng):
    import lib.ops
    return pc.Case(lib.ops.conv, [rng.random()])
def pool(rng):
    import lib.ops
    return pc.Case(lib.ops.pool, [1])
def sized(rng, size):
    import lib.ops
    return pc.Case(lib.ops.Net().forward, [size.draw(rng, small=(1, 9), typical=(100, 900))])
def forward(self, x): return ("forward", x)
PATCHES = [
    pc.Patch("lib.conv", pc.Replace("lib.ops:conv", same), checks=pc.Check(case)),
    pc.Patch("lib.pool", pc.Replace("lib.ops:pool", wrong), checks=pc.Check(pool), default=False),
    pc.Patch("lib.sized", pc.Replace("lib.ops:Net.forward", forward), checks=pc.Check(sized)),
    pc.Patch("lib.net", pc.Replace("lib.ops:Net.forward", same)),
]
@pc.hookimpl
def register_patches():
    return PATCHES
"""


class TestCommand:
    @pytest.fixture(autouse=True)
    def plugin(self, make_package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        make_package({"lib_patches": PLUGIN})
        monkeypatch.setenv("PATCHCORE_PLUGINS", "")
        monkeypatch.setenv("PATCHCORE_MODULES", "lib_patches")

    def test_it_prints_a_table_and_exits_with_1_when_something_differs(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["verify", "--device", "cpu", "--rounds", "2"]) == 1
        out, err = capsys.readouterr()
        assert [line.split()[:5] for line in out.splitlines()[2:4]] == [
            ["lib.conv", "case", "as", "drawn", "agrees"],
            ["lib.pool", "pool", "as", "drawn", "differs"],
        ]
        assert "without checks: lib.net" in out
        assert "lib.pool pool: differs" in err

    @pytest.mark.parametrize("form", ["table", "json"])
    def test_a_named_patch_without_checks_is_a_finding(self, capsys: pytest.CaptureFixture[str], form: str) -> None:
        assert main(["verify", "lib.net", "--device", "cpu", "--format", form]) == 1
        assert "lib.net" in capsys.readouterr().out
        assert main(["verify", "lib.net", "lib.conv", "--device", "cpu", "--format", form]) == 1

    def test_where_nothing_is_verified_it_says_so(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["verify", "lib.net", "--device", "cpu"]) == 1
        assert capsys.readouterr().out == (
            "nothing was verified: no selected patch has checks; declare them: checks=[patchcore.Check(...)]\n"
            "patches without checks: lib.net\n"
        )
        others = [f"--disable=lib.{name}" for name in ("conv", "pool", "sized")]
        assert main(["verify", "--device", "cpu", *others]) == 1
        assert "nothing was verified" in capsys.readouterr().out

    def test_a_disabled_patch_is_left_out(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["verify", "--disable", "lib.pool", "--device", "cpu"]) == 0
        assert "lib.pool" not in capsys.readouterr().out

    def test_a_misspelt_name_is_an_error_with_the_nearest(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["verify", "lib.cnov"]) == 2
        assert "lib.conv" in capsys.readouterr().err

    @pytest.mark.libraries("torch")
    def test_a_device_that_is_not_there_is_an_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["verify", "--device", "nonsense"]) == 2
        assert "--device nonsense: torch has no such device" in capsys.readouterr().err

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["verify", "--device", "cpu", "--format", "json"]) == 1
        content = json.loads(capsys.readouterr().out)
        assert content["schema_version"] == 1
        assert [(r["patch"], r["status"], r["forward_error"]) for r in content["results"]] == [
            ("lib.conv", "agrees", 0.0),
            ("lib.pool", "differs", None),
            ("lib.sized", "agrees", 0.0),
        ]
        assert content["without_checks"] == ["lib.net"]

    def test_json_has_every_measurement_and_time(self, capsys: pytest.CaptureFixture[str]) -> None:
        main(["verify", "lib.sized", "--device", "cpu", "--format", "json", "--rounds", "2", "--seed", "3"])
        content = json.loads(capsys.readouterr().out)
        assert content.keys() == {
            *("schema_version", "device", "emulated", "rounds", "seed", "results", "without_checks"),
        }
        (result,) = content["results"]
        assert result.keys() == {
            *("patch", "check", "dtype", "status", "forward_error", "gradient_error", "rtol", "message"),
            *("measurements", "speeds"),
        }
        assert result["measurements"][0] == {
            "size": "small",
            "round": 0,
            "seed": "lib.sized sized 3 small 0",
            "forward_error": 0.0,
            "gradient_error": None,
            "reached": True,
            "message": "",
        }
        assert len(result["measurements"]) == 6
        assert [(speed["size"], speed["ratio"] > 0) for speed in result["speeds"]] == [
            (size, True) for size in ("small", "medium", "typical")
        ]

    def test_verbose_has_a_line_for_each_size(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["verify", "lib.sized", "--device", "cpu", "--no-timing", "--verbose"]) == 0
        _, columns, *lines = capsys.readouterr().out.splitlines()
        assert columns.split() == [
            "PATCH",
            "CHECK",
            "DTYPE",
            "SIZE",
            "RESULT",
            "FORWARD",
            "GRADIENT",
            "ALLOWED",
            "MESSAGE",
        ]
        assert [line.split()[4] for line in lines] == ["small", "medium", "typical"]

    def test_one_size_and_no_timing(self, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ["verify", "lib.sized", "--device", "cpu", "--size", "typical", "--no-timing", "--format", "json"]
        assert main(arguments) == 0
        (result,) = json.loads(capsys.readouterr().out)["results"]
        assert ({one["size"] for one in result["measurements"]}, result["speeds"]) == ({"typical"}, [])

    def test_in_a_pipe_only_what_is_wrong_is_told_on_the_way(self, capsys: pytest.CaptureFixture[str]) -> None:
        main(["verify", "--device", "cpu", "--no-timing"])
        assert capsys.readouterr().err == "patchcore: lib.pool pool: differs\n"

    def test_on_a_terminal_the_check_that_runs_is_shown(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        monkeypatch.setattr("patchcore.builtin.shared.progress.AFTER", 0.0)
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        main(["verify", "lib.sized", "--device", "cpu", "--rounds", "20"])
        assert "lib.sized sized" in capsys.readouterr().err
