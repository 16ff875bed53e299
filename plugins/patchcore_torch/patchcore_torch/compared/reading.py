"""Reads recordings, also those of a process that was killed, or that is still writing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from patchcore import SettingsError
from patchcore_torch.recording.records import FILES, FORMAT, MOST_RANKS

__all__ = ["Key", "Process", "Record", "Recording", "read"]


class Key(NamedTuple):
    """What a record is of: two recordings have the same keys where they computed the same things.

    Args:
        step: of training, from 1.
        phase: ``forward``, ``gradient``, ...
        name: of the module or parameter.
        call: which one of the module in this step, from 1.
        item: ``output``, ``input[0]``, ``value``, ...
        operator: for a record of an operator, else empty.
    """

    step: int
    phase: str
    name: str
    call: int
    item: str
    operator: str

    def __str__(self) -> str:
        call = f", call {self.call}" if self.call > 1 else ""
        what = f"{self.operator} in " if self.operator else ""
        return f"step {self.step}, {self.phase}: {self.item} of {what}{self.name}{call}"


class Record(NamedTuple):
    """A tensor of a recording.

    Args:
        key: what it is of.
        dtype: its name.
        shape: as numbers.
        device: its kind.
        numbers: as in :data:`patchcore_torch.recording.records.NAMES`.
        bad: how many values are infinite or no number.
        kind: the class of the module or optimizer, ``module:Class``.
        place: ``file:line in function``, where the call stands; empty for those of optimizers.
        file: with the tensor itself, ``None`` if it was not kept.
    """

    key: Key
    dtype: str
    shape: tuple[int, ...]
    device: str
    numbers: tuple[float, ...]
    bad: int
    kind: str
    place: str
    file: Any

    @classmethod
    def of(cls, line: Mapping[str, Any], folder: Path) -> Record:
        """Return the record of a line of a file in ``folder``.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        key = Key(
            int(line["step"]),
            str(line["phase"]),
            str(line["name"]),
            int(line["call"]),
            str(line["item"]),
            str(line.get("operator", "")),
        )
        file = line.get("file")
        return cls(
            key,
            str(line["dtype"]),
            tuple(int(size) for size in line["shape"]),
            str(line["device"]),
            tuple(float(number) for number in line["numbers"]),
            int(line["bad"]),
            str(line.get("kind", "")),
            str(line.get("at", "")),
            None if file is None else _inside(folder, str(file)),
        )


def _inside(folder: Path, name: str) -> Path:
    """Return a file of a recording; a recording may come from anybody, and names no file outside its folder."""
    path = (folder / name).resolve()
    if folder.resolve() not in path.parents:
        raise ValueError(f"{name!r} is outside {folder}")
    return path


class Process(NamedTuple):
    """The recording of one process.

    Args:
        name: ``main`` or ``rank3``.
        size: how many ranks its job had.
        records: in the order of execution.
        complete: whether it was recorded to the end: its last line is there, and no step is left of an earlier attempt
            that was killed in it.
        attempts: how many times it was started.
        full: whether it reached its limit of megabytes.
        unseen: how many tensors could not be described.
        patches: those that were applied, with their targets; empty if the last line is missing.
        facts: of its first line.
    """

    name: str
    size: int
    records: tuple[Record, ...]
    complete: bool
    attempts: int
    full: bool
    unseen: int
    patches: Mapping[str, tuple[str, ...]]
    facts: Mapping[str, Any]


class Recording(NamedTuple):
    """A folder that ``patchcore run --record`` has written.

    Args:
        folder: its path.
        processes: by their names.
    """

    folder: Path
    processes: Mapping[str, Process]


def read(folder: Path) -> Recording:
    """Read a recording.

    Args:
        folder: with one file for each process, or several for one that was started again: the steps of the last
            attempt count.

    Raises:
        SettingsError: there is none, or a file is none of ours.
    """
    if not folder.is_dir():
        raise SettingsError(f"{folder} is no folder; make a recording: patchcore run --record {folder} PROGRAM")
    attempts: dict[str, list[tuple[int, Process]]] = {}
    for path in sorted(folder.glob(FILES)):
        number, process = _read_file(path)
        attempts.setdefault(process.name, []).append((number, process))
    if not attempts:
        raise SettingsError(f"{folder} has no recording ({FILES}); make one: patchcore run --record {folder} PROGRAM")
    return Recording(
        folder, {name: _joined([p for _, p in sorted(found, key=_number)]) for name, found in attempts.items()}
    )


def _number(attempt: tuple[int, Process]) -> int:
    return attempt[0]


def _joined(attempts: list[Process]) -> Process:
    last = attempts[-1]
    records: tuple[Record, ...] = ()
    cut: set[int] = set()  # steps in which an attempt was killed
    for process in attempts:
        again = {record.key.step for record in process.records}
        records = (*(record for record in records if record.key.step not in again), *process.records)
        cut -= again
        if again and not process.complete:
            cut.add(max(again))
    return last._replace(records=records, complete=last.complete and not cut, attempts=len(attempts))


def _read_file(path: Path) -> tuple[int, Process]:
    try:
        lines = _lines(path)
        first = next(lines, None)
        if first is None:
            raise SettingsError(f"{path} has no whole line: the process was killed when it began; delete the file")
        if first.get("format") != FORMAT:
            raise SettingsError(f"{path} has format {first.get('format')!r}; this patchcore-torch reads {FORMAT}")
        records, last = [], {}
        for line in lines:
            if line.get("end") is True:
                last = line
            else:
                records.append(Record.of(line, path.parent))
        patches = {str(name): tuple(map(str, targets)) for name, targets in dict(last.get("patches", {})).items()}
        process = Process(
            str(first["process"]),
            _size(first),
            tuple(records),
            bool(last),
            1,
            last.get("full") is True,
            int(last.get("unseen", 0)),
            patches,
            first,
        )
        return int(first["attempt"]), process
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SettingsError(
            f"{path} is not what patchcore run --record wrote ({type(error).__name__}: {error})"
        ) from error


def _size(header: Mapping[str, Any]) -> int:
    size = int(header.get("size", 1))
    if not 1 <= size <= MOST_RANKS:
        raise ValueError(f"size={size}; expected a number of ranks")
    return size


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for text in file:
            if not text.endswith("\n"):
                return  # the process was killed, or is about to write the rest
            yield json.loads(text)
