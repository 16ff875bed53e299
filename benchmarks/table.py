"""The table: what every row found, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.measure import Samples
from benchmarks.rows import Row, duration

__all__ = ["lines", "summary"]

_COLUMNS = ("WHAT", "OURS", "AGAINST", "THEIRS", "RATIO", "QUARTILES", "LIMIT", "VERDICT")


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table, aligned, under a heading for each subject."""
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *cells)]
    yield _line(_COLUMNS, widths)
    subject = ""
    for row, line in zip(rows, cells):
        if row.subject != subject:
            subject = row.subject
            yield subject
        yield _line(line, widths)


def summary(rows: Sequence[Row]) -> str:
    """Return one sentence: how many limits are met and missed."""
    met, missed = (sum(row.met is answer for row in rows) for answer in (True, False))
    open_ = len(rows) - met - missed
    return f"{met} limits met, {missed} missed; {open_} rows without a limit, not judged or skipped"


def _cells(row: Row) -> tuple[str, ...]:
    if row.ours is None or row.theirs is None or row.ratio is None:
        return row.what, "", row.alternative, "", "", "", row.limit, row.verdict
    low, high = row.ratio.quartiles
    ratio, quartiles = f"{row.ratio.median:.2f}x", f"{low:.2f}-{high:.2f}"
    return row.what, _time(row.ours), row.alternative, _time(row.theirs), ratio, quartiles, row.limit, row.verdict


def _time(samples: Samples) -> str:
    return f"{duration(samples.median)} ±{samples.spread:.0%}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()
