"""Rows for people: tables, lines and counts. On a terminal no word is broken, so that names and paths can be copied."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from patchcore.cli.output import print_line
from patchcore.objects.printable import printable

__all__ = ["STYLES", "print_counts", "print_rows", "print_table", "print_text"]

#: How words that stand for an outcome are shown on a terminal.
STYLES = {
    **dict.fromkeys(("apply", "applied", "ok", "agrees"), "green"),
    "pending": "cyan",
    "skipped": "yellow",
    **dict.fromkeys(("failed", "differs", "not reached"), "red"),
}

#: In front of every row, between two columns, and in front of the rows below the cell that they begin with.
_INDENT, _GAP, _BELOW = 2, 2, 6

#: The fewest characters that the last column is wrapped into; where there is less room, it goes below the row.
_NARROW = 24


def print_rows(rows: Sequence[Sequence[str]], *, whole: bool = False) -> None:
    """Print aligned rows, indented.

    On a terminal that is too narrow the last cell of a row ends after a whole word, with an ellipsis. In a pipe nothing
    is cut.

    Args:
        rows: as many texts each; no text has more than one line.
        whole: print every cell to its end on a terminal too, on several lines if necessary.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        _print_plain(cells)
    elif whole:
        _Layout.of((), cells).print(cells)
    else:
        widths = [max(map(_length, column)) for column in zip(*(row[:-1] for row in cells))]
        _print_lines(_cut(row, widths) for row in cells)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a title and headings.

    If a row is too wide for a terminal, its last cell is wrapped between words or goes below the row. If the other
    cells are too wide, the first one goes above the rows that begin with it, or the widest ones go below. In a pipe the
    last column is left free.

    Args:
        title: printed first.
        columns: headings.
        rows: as many texts each as there are columns; a text may have several lines.

    Examples:
        >>> from patchcore.plugin import print_table
        >>> print_table("Prices", ("GOODS", "PRICE"), [("tea", "3"), ("coffee", "4")])
        Prices
        GOODS   PRICE
        tea     3
        coffee  4
    """
    title, cells = printable(title), [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        print(title)
        _print_plain([columns, *(line for row in cells for line in _lines(row))])
        return
    print_text(title, style="bold")
    _Layout.of(columns, cells).print(cells)


def print_text(text: str, *, style: str = "", indent: int = 0) -> None:
    """Print a line; on a terminal with line breaks between words, so it does not suit text that readers copy.

    Args:
        text: one line.
        style: of rich, for a terminal.
        indent: spaces in front of the second line and those after it.

    Examples:
        >>> from patchcore.plugin import print_text
        >>> print_text("3 prices")
        3 prices
    """
    if sys.stdout.isatty():
        first, *rest = _wrapped(printable(text), _width(), indent) or [""]
        text = "\n".join([first, *(" " * indent + line for line in rest)])
    print_line(text, style)


def print_counts(reasons: Iterable[str]) -> None:
    """Print how many patches are not shown for each reason; those for other versions are counted together."""
    other = "for other versions of the installed libraries"
    for reason, count in Counter(other if ", found " in reason else reason for reason in reasons).items():
        print_text(f"  {count} {reason}", indent=4)


#: Pieces of text, each with its style.
_Line = list[tuple[str, str]]


class _Layout(NamedTuple):
    """Where the cells of a table go on a terminal; the last cell of a row goes beside the others where it has room.

    Args:
        columns: headings; none for rows without them.
        widths: of the columns that are beside each other, by their numbers, without the last one.
        below: numbers of the columns whose cells have lines of their own below the row.
        leads: true if the first cell has a line of its own above the rows that begin with it.
        width: of the terminal.
    """

    columns: Sequence[str]
    widths: dict[int, int]
    below: list[int]
    leads: bool
    width: int

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> _Layout:
        """Return the layout of ``rows`` on this terminal."""
        width = _width()
        lines = [line[:-1] for row in [columns, *rows] if row for line in _lines(row)]
        widths = {number: max(map(_length, column)) for number, column in enumerate(zip(*lines))}
        others = {number: taken for number, taken in widths.items() if number}
        if _taken(widths) <= width:
            return cls(columns, widths, [], False, width)
        if len(others) > 1 and _BELOW + _taken(others) <= width:
            return cls(columns, others, [], True, width)
        below = []
        while len(widths) > 1 and _taken(widths) > width:
            widest = max(list(widths)[1:], key=lambda number: widths[number])
            below.append(widest)
            del widths[widest]
        return cls(columns, widths, sorted(below), False, width)

    def print(self, rows: Iterable[Sequence[str]]) -> None:
        """Print the headings, if there are any, and the rows."""
        if self.columns:
            _print_lines([(text, "bold") for text, _ in line] for line in self._row(self.columns, self.leads))
        before = None
        for row in rows:
            _print_lines(self._row(row, self.leads and row[0] != before))
            before = row[0]

    def _row(self, row: Sequence[str], leads: bool) -> Iterator[_Line]:
        """Yield the lines of one row."""
        if leads:
            yield [(" " * _INDENT + row[0], "")]
        indent = _BELOW if self.leads else _INDENT
        room = self.width - indent - sum(width + _GAP for width in self.widths.values())
        beside = [(row[number].splitlines(), width, row[number]) for number, width in self.widths.items()]
        last, below = row[-1], [] if row is self.columns else self.below
        parts = [part for line in last.splitlines() for part in _wrapped(line, room)]
        fits = max(map(_length, parts), default=0) <= room and (room >= _NARROW or len(parts) < 2)
        is_beside = fits and not self.below
        if is_beside:
            beside.append((parts, 0, last))
        for number in range(max(1, *(len(cell) for cell, _, _ in beside))):
            line = [
                (_padded(cell[number] if number < len(cell) else "", width + _GAP), STYLES.get(whole, ""))
                for cell, width, whole in beside
            ]
            yield _stripped([(" " * indent, ""), *line])
        if not is_beside and not (self.below and row is self.columns):
            below = [*below, len(row) - 1]
        labels = {number: self.columns[number] for number in below} if self.columns and len(below) > 1 else {}
        deep = indent + 4 + max((len(label) + _GAP for label in labels.values()), default=0)
        for number in below:
            front = " " * (indent + 4) + labels.get(number, "")
            for text in row[number].splitlines():
                for part in _wrapped(text, self.width - deep):
                    yield [(front.ljust(deep), "dim" if labels else ""), (part, STYLES.get(row[number], ""))]
                    front = ""


def _cut(row: Sequence[str], widths: Sequence[int]) -> _Line:
    """Return the line of a row whose last cell ends where the terminal does; a first word without room goes below."""
    line: _Line = [(" " * _INDENT, "")]
    line += ((_padded(text, width + _GAP), STYLES.get(text, "")) for text, width in zip(row, widths))
    width = _width()
    room = width - sum(_length(text) for text, _ in line)
    text = row[-1]
    if _length(text) > room:
        first, *more = _wrapped(text, room - 2) or [""]
        if _length(first) + 2 * bool(more) > room:
            line.append(("\n" + " " * _BELOW, ""))
            first, *more = _wrapped(text, width - _BELOW - 2)
        text = f"{first} …" if more else first
    return [*line, (text, STYLES.get(row[-1], ""))]


def _print_plain(rows: Sequence[Sequence[str]]) -> None:
    """Print aligned rows of one line each; the last column is left free."""
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows))]
    for row in rows:
        cells = (*(f"{text:<{width}}" for text, width in zip(row, widths)), row[-1])
        print(f"{' ' * _INDENT}{(' ' * _GAP).join(cells)}".rstrip())


def _print_lines(lines: Iterable[_Line]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for line in lines:
        console.print(Text.assemble(*line), soft_wrap=True)


def _lines(row: Sequence[str]) -> list[list[str]]:
    cells = [cell.splitlines() or [""] for cell in row]
    return [[cell[i] if i < len(cell) else "" for cell in cells] for i in range(max(map(len, cells)))]


def _wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """Return a line in parts of at most ``width`` characters, ``indent`` less after the first, unless a word is longer.

    Only spaces separate words: a name with hyphens is one.
    """
    parts: list[str] = []
    part = ""
    for word in re.findall(r"\s*\S+", text):
        if part and _length(part + word) > width - (indent if parts else 0):
            parts.append(part)
            part = word.lstrip()
        else:
            part += word
    return [*parts, part] if part else parts


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _length(text))


def _taken(widths: dict[int, int]) -> int:
    """Return how much of a line the columns beside each other take."""
    return _INDENT + sum(widths.values()) + _GAP * (len(widths) - 1)


def _stripped(line: _Line) -> _Line:
    """Return a line without spaces at its end."""
    while len(line) > 1 and not line[-1][0].strip():
        line = line[:-1]
    *pieces, (text, style) = line
    return [*pieces, (text.rstrip(), style)]


def _length(text: str) -> int:
    """Return how many columns of a terminal a text takes; those of Chinese and Japanese take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _width() -> int:
    return shutil.get_terminal_size().columns
