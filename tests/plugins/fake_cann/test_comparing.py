"""What ``python -m fake_cann compare`` does with rows: collects them over crashes, writes, reads, compares them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fake_cann.comparing", reason="needs the plugins of this repository")

from fake_cann.__main__ import main
from fake_cann.comparing import running
from fake_cann.comparing.files import compare, read, write
from fake_cann.comparing.running import Results, run
from fake_cann.errors import FakeCannError

DEVICE = {"torch": "2", "torch_npu": "2", "python": "3", "machine": "m", "chip": "C", "emulated": ""}


def row(case: str = "add", outcome: str = "equal", sample: int = 0, **others: Any) -> dict[str, Any]:
    return {"case": case, "type": "torch.float32", "sample": sample, "inputs": 1, "outcome": outcome, **others}


def results(*rows: dict[str, Any], complete: bool = True) -> Results:
    return Results(dict(DEVICE), list(rows), complete)


class TestAFile:
    def test_comes_back_as_it_was_written(self, tmp_path: Path) -> None:
        given = results(row(results=[["torch.float32", [2]]], error=0.5), row("mul", "failed", why="né"))
        write(tmp_path / "a", given)
        found = read(tmp_path / "a")
        assert (found.rows, found.complete) == (given.rows, True)
        assert DEVICE.items() <= found.device.items()

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("", "is no file of"),
            ("{", "is no file of"),
            ("[]", "expected fake_cann_cases 1"),
            ('{"fake_cann_cases": 2}', "expected fake_cann_cases 1"),
            ('{"fake_cann_cases": 1}\n{"case": "add"}', r":2: expected an object with case, type, sample, outcome"),
            ('{"fake_cann_cases": 1}\n3', r":2: expected an object with"),
        ],
    )
    def test_of_something_else_is_refused(self, text: str, why: str, tmp_path: Path) -> None:
        file = tmp_path / "a"
        file.write_text(text)
        with pytest.raises(FakeCannError, match=why):
            read(file)

    def test_that_is_missing_or_no_text_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(FakeCannError, match="No such file"):
            read(tmp_path / "a")
        (tmp_path / "b").write_bytes(b"\xff\xfe")
        with pytest.raises(FakeCannError, match="is no file of"):
            read(tmp_path / "b")


class TestTwoFiles:
    def test_differ_by_outcome_and_by_types_and_shapes_of_equal_results(self) -> None:
        half, whole = [["torch.float16", [2]]], [["torch.float32", [2]]]
        first = results(row(), row("mul", "refused", why="no aclnnMul"), row("sum", results=half), row("exp"))
        second = results(row(), row("mul"), row("sum", results=whole), row("exp", "differs", why="not close"))
        found = compare(first, second)
        assert found.same == 1
        assert [(each.key[0], each.first, each.second) for each in found.differences] == [
            ("mul", "refused: no aclnnMul", "equal to the CPU's"),
            ("sum", "equal to the CPU's: float16 [2]", "equal to the CPU's: float32 [2]"),
            ("exp", "equal to the CPU's", "differs: not close"),
        ]

    def test_do_not_differ_by_the_words_of_one_failure(self) -> None:
        assert compare(results(row(outcome="failed", why="a")), results(row(outcome="failed", why="b"))).same == 1

    def test_with_other_arguments_or_other_cases_are_not_compared(self) -> None:
        found = compare(results(row(), row("mul")), results({**row(outcome="failed"), "inputs": 2}, row("sum")))
        assert (found.same, found.differences, found.other_inputs, found.alone) == (0, (), 1, (1, 1))

    def test_have_a_line_for_each_operator_or_for_each_case(self) -> None:
        samples = [row(sample=number) for number in range(3)]
        found = compare(results(*samples), results(*[{**each, "outcome": "failed", "why": "no"} for each in samples]))
        assert next(iter(found.lines())) == "add (float32, 3 cases)"
        assert len([line for line in found.lines(every=True) if line.startswith("add")]) == 3

    def test_end_the_command_with_1_if_they_differ(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        names = [str(tmp_path / name) for name in "abc"]
        for name, outcome in zip(names, ("equal", "equal", "crashed")):
            write(Path(name), results(row(outcome=outcome, why="SIGSEGV")))
        assert main(["compare", names[0], names[1]]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == "1 case compared: 1 the same, 0 not"
        assert main(["compare", names[0], names[2]]) == 1
        assert "second: crashed: SIGSEGV" in capsys.readouterr().out

    @pytest.mark.parametrize("arguments", [["a"], ["a", "b", "c"], ["a", "b", "--only", "add"]])
    def test_are_two(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["compare", *arguments])
        assert "expected two files to compare" in capsys.readouterr().err


CHILD = """\
import json, os, signal, sys
def say(message): print(json.dumps(message), flush=True)
say({"torch": "2"})
print("somebody else's line")
for place, name in enumerate(["add", "mul", "nothing", "sum"]):
    if place < int(sys.argv[1]): continue
    say(["begun", name, "torch.float32", 0])
    %s
    row = {"case": name, "type": "torch.float32", "sample": 0, "outcome": "equal"}
    say({"outcome": ""} if name == "nothing" else row)
"""


class TestARun:
    @pytest.fixture
    def child(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Return a function that runs cases in a child process, each with a statement of Python."""

        def run_child(statement: str) -> Results:
            (tmp_path / "child_of_a_test.py").write_text(CHILD % statement)
            monkeypatch.setattr(running, "_CHILD", "child_of_a_test")
            path = os.pathsep.join([str(tmp_path), *sys.path])
            return run({**os.environ, "PYTHONPATH": path}, None, lambda text: None)

        return run_child

    def test_has_a_row_for_each_case_that_can_be_compared(self, child: Any) -> None:
        found = child("pass")
        assert ([each["case"] for each in found.rows], found.complete) == (["add", "mul", "sum"], True)
        assert found.device == {"torch": "2"}

    def test_goes_on_behind_a_case_that_ended_the_process(self, child: Any) -> None:
        found = child("if name == 'mul': os.kill(os.getpid(), signal.SIGSEGV)")
        assert [(each["case"], each["outcome"]) for each in found.rows] == [
            ("add", "equal"),
            ("mul", "crashed"),
            ("sum", "equal"),
        ]
        assert found.rows[1]["why"] == "the process ended: SIGSEGV"
        assert found.complete

    def test_is_not_complete_if_the_process_ends_again_and_again(
        self, child: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(running, "_TRIES", 2)
        found = child("os.kill(os.getpid(), signal.SIGSEGV)")
        assert ([each["outcome"] for each in found.rows], found.complete) == (["crashed", "crashed"], False)

    def test_ends_with_an_exception_that_is_no_crash(self, child: Any) -> None:
        with pytest.raises(FakeCannError, match=r"exit code 1 at \['add', 'torch.float32', 0\]"):
            child("raise ValueError(name)")
