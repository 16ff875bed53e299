"""Rows for people: tables, rows with names that are never broken, and counts of what is not shown."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from patchcore.cli.output import print_line
from patchcore.objects.printable import printable

__all__ = ["STYLES", "count_of_patches", "print_counts", "print_rows", "print_table"]

#: How words that stand for an outcome are shown on a terminal.
STYLES = {
    **dict.fromkeys(("apply", "applied", "on", "ok", "agrees"), "green"),
    "pending": "cyan",
    "skipped": "yellow",
    **dict.fromkeys(("failed", "differs", "not reached"), "red"),
}


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print aligned rows, indented. On a terminal the last column ends where the terminal does; in a pipe it is whole.

    Args:
        rows: as many texts each; no text has more than one line.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in cells))]
    padded = [[*(f"{cell:<{width}}  " for cell, width in zip(row, widths)), row[-1]] for row in cells]
    if not sys.stdout.isatty():
        for texts in padded:
            print(f"  {''.join(texts)}".rstrip())
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for row, texts in zip(cells, padded):
        parts = [(text, STYLES.get(cell, "")) for text, cell in zip(texts, row)]
        console.print(Text.assemble("  ", *parts), no_wrap=True, overflow="ellipsis", crop=True)


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


def print_counts(reasons: Iterable[str]) -> None:
    """Print how many patches are not shown for each reason; those for other versions are counted together."""
    other = "for other versions of what is installed"
    for reason, count in Counter(other if ", found " in reason else reason for reason in reasons).items():
        print_line(f"  {count} {reason}")


def count_of_patches(count: int) -> str:
    """Return ``1 patch`` or ``2 patches``."""
    return f"{count} patch{'' if count == 1 else 'es'}"


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
