"""What ``patchcore compare`` makes of recordings, with files that are written here: no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchcore import SettingsError
from patchcore.plugin import main
from patchcore_torch.compared import judging, output, reading
from patchcore_torch.compared.judging import TOLERANCES, Comparison
from patchcore_torch.recording.options import Ranges, RecordingOptions

HEADER = {"format": 1, "process": "main", "attempt": 1, "options": {"limit": 1024}}


def line(name: str, value: float = 1.0, **facts: Any) -> dict[str, Any]:
    """Return a record of a tensor whose values are all ``value``."""
    record = {
        "step": 1,
        "phase": "forward",
        "name": name,
        "item": "output",
        "call": 1,
        "dtype": "float32",
        "shape": [4],
        "device": "cpu",
        "numbers": [value, value, value, 2 * value, 0.0],
        "bad": 0,
        "kind": "shop.layers:Layer",
        "at": "train.py:3 in forward",
    }
    return {**record, **facts}


def write(folder: Path, *records: dict[str, Any], end: bool = True, name: str = "main", **header: Any) -> Path:
    folder.mkdir(exist_ok=True)
    lines = [{**HEADER, "process": name, **header}, *records]
    if end:
        lines.append({"end": True, "full": False, "unseen": 0, "patches": {}})
    attempt = header.get("attempt", 1)
    file = folder / f"{name}{f'-{attempt}' if attempt > 1 else ''}.records.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return folder


def compared(first: Path, second: Path, *rtol: str) -> Comparison:
    return judging.compare(reading.read(first), reading.read(second), judging.parse_tolerances(rtol))


class TestDivergence:
    def test_is_the_first_in_the_order_of_execution_and_not_of_names(self, tmp_path: Path) -> None:
        first = write(tmp_path / "a", line("Net.z"), line("Net.b"), line("Net.a"))
        second = write(tmp_path / "b", line("Net.z"), line("Net.b", 2.0), line("Net.a", 2.0))
        comparison = compared(first, second)
        found = comparison.first_divergence
        assert found is not None
        assert (found[1].first.key.name, found[0].before, comparison.diverges) == ("Net.b", 1, True)

    def test_of_an_earlier_step_of_another_rank_comes_first(self, tmp_path: Path) -> None:
        for folder, value in (("a", 1.0), ("b", 2.0)):
            write(tmp_path / folder, line("Net"), line("Net", value, step=2), name="rank0")
            write(tmp_path / folder, line("Net", value), name="rank1")
        found = compared(tmp_path / "a", tmp_path / "b").first_divergence
        assert found is not None
        assert found[0].process == "rank1"

    @pytest.mark.parametrize(
        ("changed", "fault"),
        [
            ({"numbers": [1.0, 1.0, 1.0, 2.0, 0.5]}, "mix 0 and 0.5: 0.25 of the size, allowed 0.0001"),
            ({"numbers": [1.0, 1.01, 1.0, 2.0, 0.0]}, "max 1 and 1.01: 0.01 of the size, allowed 0.0001"),
            ({"shape": [2, 2]}, "shape [4] and [2, 2]"),
            ({"bad": 1}, "0 and 1 values are infinite or no number"),
        ],
    )
    def test_has_its_reason(self, tmp_path: Path, changed: dict[str, Any], fault: str) -> None:
        first, second = write(tmp_path / "a", line("Net")), write(tmp_path / "b", line("Net", **changed))
        (pair,) = compared(first, second).processes[0].pairs
        assert pair.fault == fault

    def test_depends_on_the_coarser_dtype(self, tmp_path: Path) -> None:
        first = write(tmp_path / "a", line("Net"))
        second = write(tmp_path / "b", line("Net", 1.01, dtype="bfloat16"))
        assert not compared(first, second).diverges
        assert compared(first, second, "bfloat16=0.001").diverges

    def test_of_whole_numbers_is_any(self, tmp_path: Path) -> None:
        first = write(tmp_path / "a", line("Net"), line("ids", 1000.0, dtype="int64"))
        second = write(tmp_path / "b", line("Net"), line("ids", 1000.001, dtype="int64"))
        assert compared(first, second).diverges

    def test_of_values_that_cancel_is_measured_against_their_phase(self, tmp_path: Path) -> None:
        gradients = {"phase": "parameter gradient", "item": "gradient"}
        first = write(tmp_path / "a", line("bias", 1e-8, **gradients), line("weight", **gradients))
        second = write(tmp_path / "b", line("bias", -1e-8, **gradients), line("weight", **gradients))
        assert not compared(first, second).diverges

    def test_of_everything_is_that_nothing_is_common(self, tmp_path: Path) -> None:
        comparison = compared(write(tmp_path / "a", line("Net")), write(tmp_path / "b", line("Other")))
        assert comparison.diverges
        assert output.summary(comparison) == ["nothing could be compared: the two recordings have no record in common"]

    def test_names_the_patch_of_the_class_that_one_run_has(self, tmp_path: Path) -> None:
        first, second = write(tmp_path / "a", line("Net")), write(tmp_path / "b", line("Net", 2.0), end=False)
        last = {"patches": {"shop.fast": ["shop.layers:Layer.forward"], "shop.other": ["shop.bags:Bag"]}}
        with (second / "main.records.jsonl").open("a") as file:
            file.write(json.dumps({"end": True, **last}) + "\n")
        assert "  patched in one of the runs: shop.fast" in output.summary(compared(first, second))


class TestRecording:
    def test_of_a_killed_program_ends_with_its_last_whole_line(self, tmp_path: Path) -> None:
        first = write(tmp_path / "a", line("Net"), line("Net.a"))
        second = write(tmp_path / "b", line("Net"), end=False)
        with (second / "main.records.jsonl").open("a") as file:
            file.write('{"step": 1, "ph')
        comparison = compared(first, second)
        assert not comparison.diverges
        assert output.remarks(comparison) == [
            "1 record only in the first run, the first: step 1, forward: output of Net.a",
            f"{second}, main: the last line is missing: the process was killed, left by os._exit, or is still running",
        ]
        assert output.make_page(comparison).good is False

    def test_of_a_process_that_was_started_again_has_the_steps_of_the_last_attempt(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "a", line("Net"), line("Net", 2.0, step=2), end=False)
        write(folder, line("Net", 3.0, step=2), attempt=2)
        records = reading.read(folder).processes["main"].records
        assert [(record.key.step, record.numbers[0]) for record in records] == [(1, 1.0), (2, 3.0)]
        other = write(tmp_path / "b", line("Net"), line("Net", 3.0, step=2))
        comparison = compared(folder, other)
        assert comparison.gaps == ()
        text = f"{folder}, main: was started 2 times; of a step that is there twice, the last one counts"
        assert output.remarks(comparison) == [text]

    def test_with_half_a_step_of_a_killed_attempt_is_not_whole(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "a", line("Net"), line("Net", step=2), end=False)
        write(folder, line("Net"), attempt=2)
        assert not reading.read(folder).processes["main"].complete

    def test_that_has_not_even_its_first_line_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "main.records.jsonl").write_text('{"format": 1, "proc')
        with pytest.raises(SettingsError, match="has no whole line: the process was killed when it began"):
            reading.read(tmp_path)

    def test_names_no_file_outside_its_folder(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "a", line("Net", file="../../etc/passwd"))
        with pytest.raises(SettingsError, match="is outside"):
            reading.read(folder)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("[]\n", "is not what patchcore run --record wrote"),
            ('{"format": 2}\n', "has format 2; this patchcore-torch reads 1"),
            ('{"format": 1, "process": "main", "attempt": 1}\n{"step": 1}\n', "KeyError: 'phase'"),
            ('{"format": 1, "process": "rank0", "attempt": 1, "size": 1e15}\n', "expected a number of ranks"),
            ("\udc80\n", "UnicodeDecodeError"),
        ],
    )
    def test_that_is_none_is_refused(self, tmp_path: Path, content: str, message: str) -> None:
        (tmp_path / "main.records.jsonl").write_bytes(content.encode("utf-8", "surrogateescape"))
        with pytest.raises(SettingsError, match=message):
            reading.read(tmp_path)

    def test_that_is_missing_names_the_command_that_makes_it(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="make one: patchcore run --record"):
            reading.read(tmp_path)


class TestRecordingsThatAgree:
    """As far as they go. The exit code is 2 if one of them lacks a part that it was to have."""

    @staticmethod
    def code(first: Path, second: Path) -> int:
        return main(["compare", str(first), str(second)])

    def test_to_the_end_have_exit_code_0(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.code(write(tmp_path / "a", line("Net")), write(tmp_path / "b", line("Net"))) == 0
        assert capsys.readouterr().out == "no divergence: 1 record agree; the largest difference is 0\n"

    def test_until_one_was_killed_have_exit_code_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        first = write(tmp_path / "a", line("Net"), line("Net.a"))
        second = write(tmp_path / "b", line("Net"), end=False)
        assert self.code(first, second) == self.code(second, first) == 2
        printed = capsys.readouterr()
        assert printed.out.startswith("no divergence up to where the recordings end: 1 record agree")
        assert f"whether the runs agree is not known: {second}, main: the last line is missing" in printed.err

    def test_without_a_rank_have_exit_code_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for folder, ranks in (("a", 2), ("b", 1)):
            for rank in range(ranks):
                write(tmp_path / folder, line("Net"), name=f"rank{rank}")
        first, second = tmp_path / "a", tmp_path / "b"
        assert self.code(first, second) == self.code(second, first) == 2
        text = f"{second} has no recording of rank1: {first} has 2 processes, it has 1 process"
        assert capsys.readouterr().err.count(f"whether the runs agree is not known: {text}\n") == 2

    def test_without_a_rank_that_none_of_them_has_have_exit_code_2(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for folder in ("a", "b"):
            write(tmp_path / folder, line("Net"), name="rank0", size=6)
        assert self.code(tmp_path / "a", tmp_path / "b") == 2
        text = f"{tmp_path / 'a'} has no recording of rank1, rank2, rank3, 2 more, of 6 ranks: they recorded nothing"
        assert f"whether the runs agree is not known: {text} (and 1 other gap)" in capsys.readouterr().err

    def test_in_the_only_rank_that_was_to_be_recorded_agree(self, tmp_path: Path) -> None:
        options = {"limit": 1024, "ranks": "0"}
        for folder in ("a", "b"):
            write(tmp_path / folder, line("Net"), name="rank0", size=6, options=options)
        assert self.code(tmp_path / "a", tmp_path / "b") == 0

    def test_without_a_step_have_exit_code_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        first = write(tmp_path / "a", line("Net"), line("Net", step=2))
        second = write(tmp_path / "b", line("Net"))
        assert self.code(first, second) == 2
        assert f"{second}, main: was to record step 2 too, and did not" in capsys.readouterr().err

    def test_until_one_was_full_have_exit_code_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        first, second = write(tmp_path / "a", line("Net")), write(tmp_path / "b", line("Net"), end=False)
        with (second / "main.records.jsonl").open("a") as file:
            file.write(json.dumps({"end": True, "full": True}) + "\n")
        assert self.code(first, second) == 2
        assert "the limit of 1024 MB was reached, later records are missing" in capsys.readouterr().err

    def test_in_the_ranks_and_steps_that_one_was_to_have_agree(self, tmp_path: Path) -> None:
        for rank in range(2):
            write(tmp_path / "a", line("Net"), line("Net", step=2), name=f"rank{rank}")
        options = {"limit": 1024, "ranks": "0", "steps": "1"}
        write(tmp_path / "b", line("Net"), name="rank0", options=options)
        comparison = compared(tmp_path / "a", tmp_path / "b")
        assert (comparison.gaps, comparison.diverges) == ((), False)
        assert output.remarks(comparison) == [
            "only in the first recording: rank1",
            "only the first run has steps 2 in rank0",
        ]

    def test_in_nothing_diverge_also_if_one_was_killed(self, tmp_path: Path) -> None:
        assert self.code(write(tmp_path / "a", line("Net")), write(tmp_path / "b", line("Other"), end=False)) == 1


class TestOptions:
    @pytest.mark.parametrize(("text", "numbers"), [("1-3,7", [1, 2, 3, 7]), ("2", [2]), ("", list(range(1, 9)))])
    def test_name_numbers_and_ranges(self, text: str, numbers: list[int]) -> None:
        assert [number for number in range(1, 9) if number in Ranges(text, "steps", 1)] == numbers

    @pytest.mark.parametrize("text", ["0", "3-1", "a", "1;2", "-1"])
    def test_refuse_other_steps(self, text: str) -> None:
        with pytest.raises(SettingsError, match="expected numbers from 1 on"):
            RecordingOptions("records", steps=text)

    def test_name_the_nearest_key(self) -> None:
        with pytest.raises(SettingsError, match="record has no option 'step'; did you mean 'steps'"):
            RecordingOptions.of({"path": "records", "step": 1})

    @pytest.mark.parametrize("text", ["float31=1", "nan", "-1", "float32="])
    def test_refuse_other_tolerances(self, text: str) -> None:
        with pytest.raises(SettingsError, match="--rtol"):
            judging.parse_tolerances([text])

    def test_set_the_tolerance_of_one_dtype(self) -> None:
        assert judging.parse_tolerances(["float16=0.5"]) == {**TOLERANCES, "float16": 0.5}
