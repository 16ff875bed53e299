"""What plugins tell besides patches: data that is a list of flat dictionaries becomes a table, all else lines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from patchcore.builtin.html import Content, Element, badge, code, fold, folded, h, section, table
from patchcore.builtin.page.html.parts import Links
from patchcore.builtin.page.merge import Process
from patchcore.builtin.page.model import Run
from patchcore.builtin.page.places import LinesOfProgram, Row, is_flat, lines_of_program
from patchcore.objects.printable import printable

__all__ = ["told_section"]

#: What one row says, how often in all, and in which processes.
_Row = tuple[Mapping[str, Any], int, list[Process]]

_OPEN_ROWS = 60  # a file with more lines is folded away
_OPEN_FILES = 4


def told_section(run: Run, links: Links) -> Optional[Element]:
    """Return the section, ``None`` when no plugin has told anything."""
    titles: dict[str, dict[str, None]] = {}
    for process in run.processes:
        for part in process.content["sections"]:
            marks = titles.setdefault(part["title"], {})
            if part["mark"]:
                marks[part["mark"]] = None
    if not titles:
        return None
    content = []
    for title, marks in titles.items():
        rows = _rows(run, title, links)
        shown = _lines(run, title) if rows is None else rows
        content.append(h("section", h("h3", title, [[" ", badge(mark, "mark")] for mark in marks]), shown))
    return section("told", "Reports of plugins", content)


def _lines(run: Run, title: str) -> Element:
    holders: dict[str, dict[int, Process]] = {}
    for process in run.processes:
        for line in (line for part in process.content["sections"] if part["title"] == title for line in part["lines"]):
            holders.setdefault(line, {})[id(process)] = process
    rows = [(folded(line), run.who(list(processes.values()))) for line, processes in holders.items()]
    return table(f"{title}, line by line", ("What", "Processes"), rows)


def _rows(run: Run, title: str, links: Links) -> Content:
    """Return tables of the data of a section: of each file where its rows have one; ``None`` where it is not flat."""
    lines = lines_of_program(run.processes, title)
    if lines is not None:
        return _files(run, lines, links)
    counts: dict[tuple[tuple[str, Any], ...], int] = {}
    holders: dict[tuple[tuple[str, Any], ...], dict[int, Process]] = {}
    columns: dict[str, None] = {}
    for process in run.processes:
        for part in process.content["sections"]:
            if part["title"] != title:
                continue
            if not is_flat(part["data"]):
                return None
            for row in part["data"]:
                columns.update(dict.fromkeys(row))
                key = tuple((name, value) for name, value in row.items() if name != "count")
                counts[key] = counts.get(key, 0) + int(row.get("count", 0))
                holders.setdefault(key, {})[id(process)] = process
    found = [(dict(key), count, list(holders[key].values())) for key, count in counts.items()]
    return _table(run, f"{title}, row by row", list(columns), found, links)


def _files(run: Run, lines: LinesOfProgram, links: Links) -> Content:
    """Return one table for each file, with one row for each of its lines."""
    files: dict[str, list[Row]] = {}
    for row in lines.rows:
        files.setdefault(row.file, []).append(row)
    heads = ["Line", *map(_heading, lines.columns), "Processes", *(["Count"] if lines.counts else [])]
    parts: list[Content] = [h("p", f"{lines.summary}.")]
    for number, (file, rows) in enumerate(files.items()):
        folder, name = os.path.split(file)
        cells = [
            (
                code(f"{name}:{row.line}"),
                *(_cells(texts, links) for texts in row.cells),
                run.who(row.processes),
                *([f"{row.count:,}"] if lines.counts else []),
            )
            for row in rows
        ]
        body = table([code(file), ", by line"], heads, cells, numeric=int(lines.counts))
        whole = len(rows) <= _OPEN_ROWS and number < _OPEN_FILES
        total = lines._replace(rows=rows).summary
        part = fold([code(file), " ", h("span", total, class_="quiet")], body, open=whole)
        part.set("data-folder", printable(file[: len(file) - len(name)] if folder else ""))  # the search reads it
        parts.append(part)
    return parts


def _cells(texts: Sequence[str], links: Links) -> Content:
    first, *others = (_cell(text, links) for text in texts)
    return [first, [(h("br"), other) for other in others]]


def _heading(column: str) -> str:
    return column.replace("_", " ").capitalize()


def _table(
    run: Run,
    caption: Content,
    columns: Sequence[str],
    rows: Sequence[_Row],
    links: Links,
) -> Element:
    named = [name for name in columns if name != "count"]
    counts = "count" in columns
    heads = list(map(_heading, named))
    cells = [
        (*(_cell(row.get(name), links) for name in named), run.who(processes), *([f"{count:,}"] if counts else []))
        for row, count, processes in rows
    ]
    return table(caption, (*heads, "Processes", *(["Count"] if counts else [])), cells, numeric=int(counts))


def _cell(value: Any, links: Links) -> Content:
    text = "" if value is None else str(value)
    return links.code(text) if text and len(text) < 200 else folded(text)
