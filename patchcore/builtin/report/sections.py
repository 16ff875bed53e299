"""The sections that plugins add to reports, merged over the processes of a run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

from patchcore.builtin.report.reading import Process
from patchcore.objects.printable import counted

__all__ = ["PluginSection", "Row", "Table", "plugin_sections"]

#: Columns that make up the place of a row, and the one that is added up.
_PLACE, _COUNT, _KIND = ("file", "line"), "count", "kind"
_MOST_ENTRIES = 4  # of one row; processes may pass a device each


@dataclass
class Row:
    """A row of a table: one line of the program, however many processes reached it, or else one entry.

    Args:
        file, line: where it is, if the table is about lines of the program.
        entries: texts by column. Processes may differ, and a line may have several entries.
        processes: that have the row, by ``id``.
        count: how often all of them together.
    """

    file: str
    line: Any
    entries: dict[tuple[tuple[str, str], ...], None] = field(default_factory=dict)
    processes: dict[int, Process] = field(default_factory=dict)
    count: int = 0

    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        """Return the texts of each column: one if all entries have the same, else those of the first few entries."""
        entries = [dict(entry) for entry in self.entries]
        return [_cell([entry.get(column, "") for entry in entries]) for column in columns]


class Table(NamedTuple):
    """The data of a section.

    Args:
        columns: names of the texts of each row.
        rows: by file and line, if it is about lines of the program.
        counts: true if the section has numbers.
        of_lines: whether it is about lines of the program.
    """

    columns: list[str]
    rows: list[Row]
    counts: bool
    of_lines: bool

    @property
    def kinds(self) -> dict[str, int]:
        """How many rows there are of each kind, if the section has a column ``kind``; a row may be of several."""
        if _KIND not in self.columns:
            return {}
        found = [kind for row in self.rows for kind in {dict(entry).get(_KIND, "") for entry in row.entries}]
        return {kind: found.count(kind) for kind in sorted(set(found))}

    @property
    def summary(self) -> str:
        """How many lines there are, of which kinds, and how often the program reached them."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
        total = f"; {sum(row.count for row in self.rows):,} in all" if self.counts else ""
        return f"{counted(len(self.rows), 'line')}{f': {kinds}' if kinds else ''}{total}"

    def by_file(self) -> Iterator[Table]:
        """Yield the rows of each file."""
        for _, rows in itertools.groupby(self.rows, lambda row: row.file):
            yield self._replace(rows=list(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON view."""
        rows = [
            {
                "file": row.file,
                "line": row.line,
                "entries": [{name: dict(entry).get(name, "") for name in self.columns} for entry in row.entries],
                **({_COUNT: row.count} if self.counts else {}),
                "processes": [str(process) for process in row.processes.values()],
            }
            for row in self.rows
        ]
        return {"lines": len(self.rows), "kinds": self.kinds, "rows": rows}


class PluginSection(NamedTuple):
    """The sections of all processes with one title.

    Args:
        title: of the sections.
        marks: of the sections.
        lines: the processes that have each line.
        table: the data, ``None`` if it is no list of flat dictionaries everywhere.
    """

    title: str
    marks: list[str]
    lines: dict[str, list[Process]]
    table: Optional[Table]


def plugin_sections(processes: Sequence[Process]) -> list[PluginSection]:
    """Return the sections of the reports of a run, by title."""
    titles: dict[str, list[tuple[Process, Mapping[str, Any]]]] = {}
    for process in processes:
        for part in process.content["sections"]:
            titles.setdefault(part["title"], []).append((process, part))
    found = []
    for title, parts in titles.items():
        lines: dict[str, dict[int, Process]] = {}
        for process, part in parts:
            for line in part["lines"]:
                lines.setdefault(line, {})[id(process)] = process
        marks = list(dict.fromkeys(part["mark"] for _, part in parts if part["mark"]))
        table = _table(parts) if all(_is_flat(part["data"]) for _, part in parts) else None
        found.append(PluginSection(title, marks, {line: [*having.values()] for line, having in lines.items()}, table))
    return found


def _table(parts: Sequence[tuple[Process, Mapping[str, Any]]]) -> Table:
    of_lines = all(row.keys() >= set(_PLACE) for _, part in parts for row in part["data"])
    others = {*_PLACE, _COUNT} if of_lines else {_COUNT}
    found: dict[Any, Row] = {}
    columns: dict[str, None] = {}
    counts = False
    for process, part in parts:
        for row in part["data"]:
            counts = counts or _COUNT in row
            texts = {name: "" if value is None else str(value) for name, value in row.items() if name not in others}
            columns.update(dict.fromkeys(texts))
            entry = tuple(texts.items())
            place = (str(row["file"]), row["line"]) if of_lines else ("", None)
            here = found.setdefault(place if of_lines else entry, Row(*place))
            here.entries[entry] = None
            here.processes[id(process)] = process
            here.count += int(row.get(_COUNT, 0))
    rows = list(found.values())
    if of_lines:
        rows.sort(key=lambda row: (row.file, row.line if isinstance(row.line, (int, float)) else 0, str(row.line)))
    return Table(list(columns), rows, counts, of_lines)


def _is_flat(data: Any) -> bool:
    """True if ``data`` is a list of dictionaries of texts and numbers."""
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(row, Mapping) for row in data)
        and all(not isinstance(value, (list, Mapping)) for row in data for value in row.values())
        and all(isinstance(row.get(_COUNT, 0), int) for row in data)
    )


def _cell(texts: Sequence[str]) -> list[str]:
    if len(set(texts)) == 1:
        return [texts[0]]
    more = len(texts) - _MOST_ENTRIES
    return [*texts[:_MOST_ENTRIES], *([f"and {more} more"] if more > 0 else [])]
