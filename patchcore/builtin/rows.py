"""Rows for people: names that are never broken, texts as wide as the terminal, and counts of what is not shown."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from patchcore.cli.output import STYLES, print_line
from patchcore.objects.printable import printable

__all__ = ["count_of_patches", "print_counts", "print_rows"]


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


def print_counts(reasons: Iterable[str]) -> None:
    """Print how many patches are not shown for each reason; those for other versions are counted together."""
    other = "for other versions of what is installed"
    for reason, count in Counter(other if ", found " in reason else reason for reason in reasons).items():
        print_line(f"  {count} {reason}")


def count_of_patches(count: int) -> str:
    """Return ``1 patch`` or ``2 patches``."""
    return f"{count} patch{'' if count == 1 else 'es'}"
