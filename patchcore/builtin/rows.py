"""Rows for people: names that are never broken, and a last column that is cut to the width of the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from patchcore.cli.output import STYLES, print_line
from patchcore.objects.printable import printable

__all__ = ["print_rows"]


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print aligned rows, indented. On a terminal the last column ends where the terminal does; in a pipe it is whole.

    Args:
        rows: as many texts each; no text has more than one line.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)] if rows else []
    for row in rows:
        cells = [f"{cell:<{width}}  " for cell, width in zip(row, widths)]
        if not sys.stdout.isatty():
            print_line("  " + "".join([*cells, row[-1]]).rstrip())
            continue
        from rich.console import Console
        from rich.text import Text

        parts = [(text, STYLES.get(cell, "")) for text, cell in zip([*cells, row[-1]], row)]
        Console().print(Text.assemble("  ", *parts), no_wrap=True, overflow="ellipsis", crop=True)
