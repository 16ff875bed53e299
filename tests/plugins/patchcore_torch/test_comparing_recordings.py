"""What ``patchcore compare`` makes of recordings, with files that are written here: no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchcore import SettingsError
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
            f"{second}, main: the last line is missing: the process was killed, or is still running",
        ]

    def test_of_a_process_that_was_started_again_has_the_steps_of_the_last_attempt(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "a", line("Net"), line("Net", 2.0, step=2), end=False)
        write(folder, line("Net", 3.0, step=2), attempt=2)
        records = reading.read(folder).processes["main"].records
        assert [(record.key.step, record.numbers[0]) for record in records] == [(1, 1.0), (2, 3.0)]

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
