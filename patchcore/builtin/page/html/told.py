"""What plugins tell besides patches: data that is a list of flat dictionaries becomes a table, all else lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from patchcore.builtin.html import Content, Element, badge, code, fold, folded, h, section, table
from patchcore.builtin.page.html.parts import Links
from patchcore.builtin.page.merge import Process
from patchcore.builtin.page.model import Run
from patchcore.builtin.page.words import counted

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
    return section("told", "Told by plugins", content)


def _lines(run: Run, title: str) -> Element:
    holders: dict[str, dict[int, Process]] = {}
    for process in run.processes:
        for line in (line for part in process.content["sections"] if part["title"] == title for line in part["lines"]):
            holders.setdefault(line, {})[id(process)] = process
    rows = [(folded(line), run.who(list(processes.values()))) for line, processes in holders.items()]
    return table(f"{title}, line by line", ("What", "Processes"), rows)


def _rows(run: Run, title: str, links: Links) -> Content:
    """Return tables of the data of a section: of each file where its rows have one; ``None`` where it is not flat."""
    counts: dict[tuple[tuple[str, Any], ...], int] = {}
    holders: dict[tuple[tuple[str, Any], ...], dict[int, Process]] = {}
    columns: dict[str, None] = {}
    for process in run.processes:
        for part in process.content["sections"]:
            if part["title"] != title:
                continue
            if not _is_flat(part["data"]):
                return None
            for row in part["data"]:
                columns.update(dict.fromkeys(row))
                key = tuple((name, value) for name, value in row.items() if name != "count")
                counts[key] = counts.get(key, 0) + int(row.get("count", 0))
                holders.setdefault(key, {})[id(process)] = process
    found = [(dict(key), count, list(holders[key].values())) for key, count in counts.items()]
    if not {"file", "line"} <= columns.keys():
        return _table(run, f"{title}, row by row", list(columns), found, links)
    files: dict[str, list[_Row]] = {}
    for row, count, processes in found:
        files.setdefault(str(row.get("file", "")), []).append((row, count, processes))
    others = ["line", *(name for name in columns if name not in ("file", "line"))]
    parts = []
    for number, (file, rows) in enumerate(sorted(files.items())):
        rows.sort(key=lambda row: (_line_number(row[0]), *(str(value) for value in row[0].values())))
        total = f"{counted(len(rows), 'row')}, {sum(count for _, count, _ in rows):,} in all"
        whole = len(rows) <= _OPEN_ROWS and number < _OPEN_FILES
        body = _table(run, [code(file), ", by line"], others, rows, links)
        parts.append(fold([code(file), " ", h("span", total, class_="quiet")], body, open=whole))
    return parts


def _line_number(row: Mapping[str, Any]) -> float:
    line = row.get("line")
    return line if isinstance(line, (int, float)) else 0  # a plugin may tell a range, as text


def _table(
    run: Run,
    caption: Content,
    columns: Sequence[str],
    rows: Sequence[_Row],
    links: Links,
) -> Element:
    named = [name for name in columns if name != "count"]
    counts = "count" in columns
    heads = [name.replace("_", " ").capitalize() for name in named]
    cells = [
        (*(_cell(row.get(name), links) for name in named), run.who(processes), *([f"{count:,}"] if counts else []))
        for row, count, processes in rows
    ]
    return table(caption, (*heads, "Processes", *(["Count"] if counts else [])), cells, numeric=int(counts))


def _cell(value: Any, links: Links) -> Content:
    text = "" if value is None else str(value)
    return links.code(text) if text and len(text) < 200 else folded(text)


def _is_flat(data: Any) -> bool:
    """Tell whether ``data`` is a list of dictionaries of texts and numbers."""
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(row, Mapping) for row in data)
        and all(not isinstance(value, (list, Mapping)) for row in data for value in row.values())
        and all(isinstance(row.get("count", 0), int) for row in data)
    )
