"""What sections say about lines of the program: one row for each line, whatever the number of processes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

from patchcore.builtin.page.merge import Process
from patchcore.objects.printable import counted

__all__ = ["LinesOfProgram", "Row", "is_flat", "lines_of_program"]

#: Columns that make up the place of a row, and the one that is added up.
_PLACE, _COUNT, _KIND = ("file", "line"), "count", "kind"
_MOST_ENTRIES = 4  # of one row; processes may pass a device each


@dataclass(frozen=True)
class Row:
    """One line of the program.

    Args:
        file, line: where it is.
        entries: what processes have there: a text for each column. Processes may differ, and a line may have several.
        processes: that reached the line.
        count: how often all of them did together.
    """

    file: str
    line: Any
    entries: Sequence[tuple[str, ...]]
    processes: list[Process]
    count: int

    @property
    def cells(self) -> list[list[str]]:
        """The texts of each column: one if all entries have the same, else those of the first few entries in order."""
        return [_cell(column) for column in zip(*self.entries)]


class LinesOfProgram(NamedTuple):
    """The rows of one section.

    Args:
        title: of the section.
        columns: names of the texts of each row.
        rows: by file and line.
        counts: whether the section says how often.
    """

    title: str
    columns: list[str]
    rows: list[Row]
    counts: bool

    @property
    def kinds(self) -> dict[str, int]:
        """How many lines there are of each kind, if the section has a column ``kind``; a line may be of several."""
        if _KIND not in self.columns:
            return {}
        at = self.columns.index(_KIND)
        found = [kind for row in self.rows for kind in {entry[at] for entry in row.entries}]
        return {kind: found.count(kind) for kind in sorted(set(found))}

    @property
    def summary(self) -> str:
        """How many lines there are, of which kinds, and how often the program reached them."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
        total = f"; {sum(row.count for row in self.rows):,} in all" if self.counts else ""
        return f"{counted(len(self.rows), 'line')}{f': {kinds}' if kinds else ''}{total}"

    def by_file(self) -> list[LinesOfProgram]:
        """Return the rows of each file."""
        return [self._replace(rows=list(rows)) for _, rows in itertools.groupby(self.rows, lambda row: row.file)]

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        rows = [
            {
                "file": row.file,
                "line": row.line,
                "entries": [dict(zip(self.columns, entry)) for entry in row.entries],
                **({_COUNT: row.count} if self.counts else {}),
                "processes": [str(process) for process in row.processes],
            }
            for row in self.rows
        ]
        return {"title": self.title, "lines": len(self.rows), "kinds": self.kinds, "rows": rows}


@dataclass
class _Found:
    rows: dict[tuple[tuple[str, str], ...], None] = field(default_factory=dict)
    processes: dict[int, Process] = field(default_factory=dict)
    count: int = 0


def lines_of_program(processes: Sequence[Process], title: str) -> Optional[LinesOfProgram]:
    """Return what the section ``title`` of these processes says about lines; ``None`` if its data is of another form.

    Args:
        processes: of a run.
        title: of a section.
    """
    found: dict[tuple[str, Any], _Found] = {}
    columns: dict[str, None] = {}
    counts = False
    for process in processes:
        for part in process.content["sections"]:
            if part["title"] != title:
                continue
            if not is_flat(part["data"]) or not all(row.keys() >= set(_PLACE) for row in part["data"]):
                return None
            for row in part["data"]:
                counts = counts or _COUNT in row
                told = {name: _text(value) for name, value in row.items() if name not in (*_PLACE, _COUNT)}
                columns.update(dict.fromkeys(told))
                here = found.setdefault((str(row["file"]), row["line"]), _Found())
                here.rows[tuple(told.items())] = None
                here.processes[id(process)] = process
                here.count += int(row.get(_COUNT, 0))
    if not found:
        return None
    rows = [
        Row(file, line, [_entry(told, columns) for told in here.rows], list(here.processes.values()), here.count)
        for (file, line), here in found.items()
    ]
    rows.sort(key=lambda row: (row.file, row.line if isinstance(row.line, (int, float)) else 0, str(row.line)))
    return LinesOfProgram(title, list(columns), rows, counts)


def is_flat(data: Any) -> bool:
    """Return True if ``data`` is a list of dictionaries of texts and numbers."""
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(row, Mapping) for row in data)
        and all(not isinstance(value, (list, Mapping)) for row in data for value in row.values())
        and all(isinstance(row.get(_COUNT, 0), int) for row in data)
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _entry(told: Iterable[tuple[str, str]], columns: Iterable[str]) -> tuple[str, ...]:
    texts = dict(told)
    return tuple(texts.get(column, "") for column in columns)


def _cell(texts: Sequence[str]) -> list[str]:
    if len(set(texts)) == 1:
        return [texts[0]]
    more = len(texts) - _MOST_ENTRIES
    return [*texts[:_MOST_ENTRIES], *([f"and {more} more"] if more > 0 else [])]
