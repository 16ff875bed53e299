"""What got better and worse between two results that ``--json`` has saved."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from benchmarks.measure import Samples
from benchmarks.rows import Row, duration

__all__ = [
    "BETTER",
    "SAME",
    "SCHEMA_VERSION",
    "UNCLEAR",
    "WORSE",
    "Change",
    "UnreadableResult",
    "changes",
    "lines",
    "read",
]

#: Version of the JSON that is written; raised when a key changes its meaning or goes.
SCHEMA_VERSION = 1
#: Changes below this are not told, however little the rounds differ.
_LEAST = 1.1
#: What became of a row.
BETTER, WORSE, UNCLEAR, SAME = "better", "worse", "unclear", "same"


class UnreadableResult(Exception):
    """A file is no result of these benchmarks."""


class Change(NamedTuple):
    """A row that both results have.

    Args:
        before, after: the row.
        factor: what the measure is now, over what it was.
        verdict: ``better`` or ``worse`` where the quartiles of the two do not overlap and the change is 10 % or more,
            ``unclear`` where they do overlap, else ``same``.
    """

    before: Row
    after: Row
    factor: float
    verdict: str


def read(file: Path) -> list[Row]:
    """Return the rows of a saved result.

    Raises:
        UnreadableResult: the file cannot be read, or is something else.
    """
    try:
        content = json.loads(file.read_text())
        if content["schema_version"] != SCHEMA_VERSION:
            raise UnreadableResult(
                f"{file} has schema_version {content['schema_version']!r}, this is {SCHEMA_VERSION}; measure again, "
                "with both commits checked out in turn"
            )
        return [Row.from_dict(view) for view in content["rows"]]
    except OSError as error:
        raise UnreadableResult(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnreadableResult(f"{file} is no result of python -m benchmarks --json FILE") from None


def changes(before: Sequence[Row], after: Sequence[Row]) -> Iterator[Change]:
    """Yield the rows that were measured in both results, with what became of each.

    Ratios are compared: the alternative was measured in the same rounds, so a machine that is slower, or busy, slows
    both. Where there is no alternative, the times are compared.
    """
    known = {_name(row): row for row in before}
    for row in after:
        old = known.get(_name(row))
        pair = None if old is None else _measures(old, row)
        if old is not None and pair is not None and min(pair[0].median, pair[1].median) > 0:
            factor = pair[1].median / pair[0].median
            yield Change(old, row, factor, _verdict(*pair, factor))


def lines(before: Sequence[Row], after: Sequence[Row]) -> Iterator[str]:
    """Yield what got worse, what got better, and how many rows did neither or are in one result only."""
    found = sorted(changes(before, after), key=lambda change: -change.factor)
    for verdict, ordered in ((WORSE, found), (BETTER, found[::-1])):
        told = [change for change in ordered if change.verdict == verdict]
        yield f"{verdict}: {len(told)}"
        for change in told:
            yield f"  {_sentence(change)}"
    counted = {verdict: sum(change.verdict == verdict for change in found) for verdict in (SAME, UNCLEAR)}
    yield f"about the same: {counted[SAME]}; within the noise: {counted[UNCLEAR]}"
    compared = {_name(change.after) for change in found}
    for text, rows in (("only in the old result", before), ("only in the new result", after)):
        left = [row for row in rows if _name(row) not in compared]
        yield f"{text}, or not measured in the other: {len(left)}"


def _name(row: Row) -> tuple[str, str, str]:
    return row.subject, row.what, row.alternative


def _measures(before: Row, after: Row) -> Optional[tuple[Samples, Samples]]:
    if before.ratio is not None and after.ratio is not None:
        return before.ratio, after.ratio
    return None if before.ours is None or after.ours is None else (before.ours, after.ours)


def _verdict(before: Samples, after: Samples, factor: float) -> str:
    if 1 / _LEAST < factor < _LEAST:
        return SAME
    (old_low, old_high), (new_low, new_high) = before.quartiles, after.quartiles
    if factor > 1:
        return WORSE if new_low > old_high else UNCLEAR
    return BETTER if new_high < old_low else UNCLEAR


def _sentence(change: Change) -> str:
    before, after = change.before, change.after
    assert before.ours is not None
    assert after.ours is not None
    times = f"{duration(before.ours.median)} -> {duration(after.ours.median)}"
    if before.ratio is not None and after.ratio is not None:
        times += f"; against {after.alternative}: {before.ratio.median:.2f}x -> {after.ratio.median:.2f}x"
    limit = f"; limit {after.limit} {'met' if after.met else 'MISSED'}" if after.met is not None else ""
    return f"{change.factor:.2f}x  {after.subject}: {after.what}, {times}{limit}"
