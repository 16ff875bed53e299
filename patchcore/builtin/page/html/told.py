"""What plugins report besides patches: data that is a list of flat dictionaries becomes a table, all else lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

from patchcore.builtin.page.merge import Process
from patchcore.builtin.page.places import LinesOfProgram, is_flat, lines_of_program

__all__ = ["Record", "Records", "Told", "told_by_plugins"]


@dataclass
class Record:
    """One row of the data of a section.

    Args:
        texts: one for each column.
        processes: that have it.
        count: how often all of them together.
    """

    texts: Sequence[str]
    processes: list[Process] = field(default_factory=list)
    count: int = 0


class Records(NamedTuple):
    """The data of a section that says nothing about lines of the program.

    Args:
        columns: names of the texts of each row.
        rows: in order.
        counts: whether the section says how often.
    """

    columns: list[str]
    rows: list[Record]
    counts: bool


class Told(NamedTuple):
    """The sections of all processes with one title.

    Args:
        title: of the sections.
        marks: of the sections.
        lines: each with the processes that have it.
        program: the data by lines of the program, ``None`` if it says nothing about them.
        records: the data as a table, ``None`` if it is of another form.
    """

    title: str
    marks: list[str]
    lines: list[tuple[str, list[Process]]]
    program: Optional[LinesOfProgram]
    records: Optional[Records]


def told_by_plugins(processes: Sequence[Process]) -> list[Told]:
    """Return the sections of the reports of a run, put together by title."""
    titles: dict[str, list[tuple[Process, Any]]] = {}
    for process in processes:
        for part in process.content["sections"]:
            titles.setdefault(part["title"], []).append((process, part))
    told = []
    for title, parts in titles.items():
        marks = list(dict.fromkeys(part["mark"] for _, part in parts if part["mark"]))
        lines: dict[str, dict[int, Process]] = {}
        for process, part in parts:
            for line in part["lines"]:
                lines.setdefault(line, {})[id(process)] = process
        by_line = [(line, list(holders.values())) for line, holders in lines.items()]
        program = lines_of_program(processes, title)
        told.append(Told(title, marks, by_line, program, None if program else _records(parts)))
    return told


def _records(parts: Sequence[tuple[Process, Any]]) -> Optional[Records]:
    if not all(is_flat(part["data"]) for _, part in parts):
        return None
    columns = list(dict.fromkeys(name for _, part in parts for row in part["data"] for name in row))
    counts = "count" in columns
    columns = [name for name in columns if name != "count"]
    found: dict[tuple[str, ...], Record] = {}
    for process, part in parts:
        for row in part["data"]:
            texts = tuple("" if row.get(name) is None else str(row[name]) for name in columns)
            record = found.setdefault(texts, Record(texts))
            record.count += int(row.get("count", 0))
            if not record.processes or record.processes[-1] is not process:
                record.processes.append(process)
    return Records(columns, list(found.values()), counts)
