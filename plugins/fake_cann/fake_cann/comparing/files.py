"""Files of results: written, read, and held beside each other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fake_cann.comparing.running import EQUAL, Results
from fake_cann.errors import FakeCannError
from patchcore.plugin import counted, write_whole

__all__ = ["Comparison", "Difference", "compare", "read", "summary", "write"]

#: In the first line of a file; another number for rows of other keys.
_FORMAT = 1
_KEYS = ("case", "type", "sample", "outcome")


def write(path: Path, results: Results) -> None:
    """Write results: a line of JSON for the device, and one for each case.

    Raises:
        OSError: the file cannot be written.
    """
    first = {"fake_cann_cases": _FORMAT, "complete": results.complete, **results.device}
    write_whole(path, "".join(json.dumps(each) + "\n" for each in (first, *results.rows)))


def read(path: Path) -> Results:
    """Return the results in a file.

    Raises:
        FakeCannError: it cannot be read, or is no such file.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        first, *rows = map(json.loads, lines)
    except OSError as error:
        raise FakeCannError(f"fake_cann: {path}: {error.strerror}") from None
    except ValueError as error:
        raise FakeCannError(f"fake_cann: {path} is no file of python -m fake_cann compare: {error}") from None
    if not isinstance(first, dict) or first.get("fake_cann_cases") != _FORMAT:
        raise FakeCannError(
            f"fake_cann: {path} is no file of python -m fake_cann compare, or of another version of it: "
            f"expected fake_cann_cases {_FORMAT} in its first line"
        )
    for number, row in enumerate(rows, 2):
        if not isinstance(row, dict) or not all(key in row for key in _KEYS):
            raise FakeCannError(f"fake_cann: {path}:{number}: expected an object with {', '.join(_KEYS)}")
    return Results(first, rows, bool(first.get("complete")))


def summary(results: Results) -> str:
    """Return the outcomes of the cases, in one line."""
    outcomes = Counter(row["outcome"] for row in results.rows)
    parts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    return f"{counted(len(results.rows), 'case')}: {parts or 'none ran'}{'' if results.complete else '; not complete'}"


def named(device: Mapping[str, Any]) -> str:
    """Return a device in words."""
    emulated = f", emulated ({device['emulated']})" if device.get("emulated") else ""
    versions = ", ".join(f"{name} {device.get(name, '?')}" for name in ("torch", "torch_npu", "python"))
    return f"{device.get('chip', 'unknown')}{emulated}: {versions}, {device.get('machine', '?')}"


class Difference(NamedTuple):
    """One case with other results on one of the devices.

    Args:
        key: name, type and number of the case.
        first, second: its outcome on each device.
    """

    key: tuple[str, str, int]
    first: str
    second: str


class Comparison(NamedTuple):
    """Two files beside each other.

    Args:
        same: how many cases had the same outcome, and results of the same types and shapes.
        differences: the cases that had not.
        other_inputs: how many cases had other arguments, as from another PyTorch: they are not compared.
        alone: how many cases are in the first file only, and in the second only.
    """

    same: int
    differences: tuple[Difference, ...]
    other_inputs: int
    alone: tuple[int, int]

    def lines(self, *, every: bool = False) -> Iterator[str]:
        """Yield the comparison as text: one line for each operator, or for each case.

        Args:
            every: a line for each case.
        """
        groups: dict[tuple[str, str, str], list[Difference]] = {}
        for each in self.differences:
            key = (each.key[0], each.first, each.second)
            groups.setdefault(key if not every else (*key[:1], str(each.key), ""), []).append(each)
        for (name, *_), some in groups.items():
            first = some[0]
            types = ", ".join(dict.fromkeys(each.key[1].replace("torch.", "") for each in some))
            yield f"{name} ({types}, {counted(len(some), 'case')})"
            yield f"    first:  {first.first}"
            yield f"    second: {first.second}"
        total = self.same + len(self.differences)
        yield f"{counted(total, 'case')} compared: {self.same} the same, {len(self.differences)} not"
        if self.other_inputs:
            yield f"{counted(self.other_inputs, 'case')} with other arguments, as from another PyTorch: not compared"
        if any(self.alone):
            yield f"{self.alone[0]} in the first file only, {self.alone[1]} in the second only"


def compare(first: Results, second: Results) -> Comparison:
    """Compare the results of two devices, case by case."""
    left, right = _by_key(first.rows), _by_key(second.rows)
    same, other_inputs, differences = 0, 0, []
    for key, row in left.items():
        if key not in right:
            continue
        other = right[key]
        if row.get("inputs", 0) != other.get("inputs", 0) and "inputs" in row and "inputs" in other:
            other_inputs += 1
        elif _essence(row) == _essence(other):
            same += 1
        else:
            differ_in_kind = row["outcome"] == other["outcome"]  # both are equal to the CPU's, of other types or shapes
            differences.append(Difference(key, *(_in_words(each, results=differ_in_kind) for each in (row, other))))
    alone = len(left.keys() - right.keys()), len(right.keys() - left.keys())
    return Comparison(same, tuple(differences), other_inputs, alone)


def _by_key(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(row["case"], row["type"], row["sample"]): row for row in rows}


def _essence(row: Mapping[str, Any]) -> tuple[str, Any]:
    return row["outcome"], row.get("results") if row["outcome"] == EQUAL else None


def _in_words(row: Mapping[str, Any], *, results: bool) -> str:
    """Return the outcome of a case with the reason, or with the types and shapes of its results."""
    if row["outcome"] != EQUAL:
        return f"{row['outcome']}: {row.get('why', '')}"
    found = [f"{dtype.replace('torch.', '')} {shape}" for dtype, shape in row.get("results", ())]
    return f"{EQUAL} to the CPU's: {', '.join(found)}" if results else f"{EQUAL} to the CPU's"
