"""Printing: tables on a terminal, plain aligned lines in a pipe, JSON on request.

Whatever a command prints goes through here, because names and messages of others may hold control characters.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from patchcore.objects.printable import printable
from patchcore.report import SCHEMA_VERSION

__all__ = ["STYLES", "print_error", "print_json", "print_line", "print_table"]

#: How words that stand for an outcome are shown on a terminal.
STYLES = {
    **dict.fromkeys(("apply", "applied", "on", "ok", "agrees"), "green"),
    "pending": "cyan",
    "skipped": "yellow",
    **dict.fromkeys(("failed", "differs", "not reached"), "red"),
}


def print_json(content: Mapping[str, Any]) -> None:
    """Print ``content`` with ``schema_version`` to stdout."""
    from patchcore.stdlib import json  # for those who want it only

    print(json.dumps({"schema_version": SCHEMA_VERSION, **content}, indent=2, default=str))


def print_error(text: str, who: str = "patchcore: ") -> None:
    """Print a line to stderr, with the name of the program in front."""
    print(f"{who}{printable(text)}", file=sys.stderr, flush=True)


def print_line(text: str = "", style: str = "") -> None:
    """Print a line, or several: with a style of rich on a terminal, else plain."""
    text = printable(text)
    if style and sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console().print(Text(text, style=style), soft_wrap=True)
    else:
        print(text)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a title: a table on a terminal, else aligned columns with the last one left free.

    Args:
        title: printed first.
        columns: headings.
        rows: as many texts each as there are columns; a text may have several lines.
    """
    title, rows = printable(title), [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich(title, columns, rows)
        return
    print(title)
    lines = [columns, *(line for row in rows for line in _lines(row))]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns) - 1)]
    for line in lines:
        print("  " + "  ".join((*(text.ljust(width) for text, width in zip(line, widths)), line[-1])).rstrip())


def _lines(row: Sequence[str]) -> list[list[str]]:
    cells = [cell.splitlines() or [""] for cell in row]
    return [[cell[i] if i < len(cell) else "" for cell in cells] for i in range(max(map(len, cells)))]


def _print_rich(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    Console().print(table)
