"""Compare what a page shows of a command with what the command prints, on whatever machine and at whatever speed.

Neither the CPU nor the load may decide:

- A number with two or more decimals is measured. It may differ by two units of its last place, or by five thousandths:
  the kernels of another CPU round differently, and training widens that. Every other number is exact: ``12 composite``,
  ``1e-05``, ``2.13.0``.
- Durations, points in time, sizes of files, process numbers, identifiers and host names are masked.
- The width of columns and the length of rules (``=====``) depend on what is masked, and do not count.
- Without a GPU, the CPU build of torch refuses CUDA in other words than its CUDA build: these two lines are the same.
- torch warns of Python 3.13.0, and with numpy 2 the patch numpy.compat is among those that a run has not hit.
- ``...`` in what is shown stands for anything, as in doctest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Optional

#: What no two runs have in common, and what it becomes. The first three are columns and sentences of our own reports.
MASKS = (
    (r"^ *(\d+) +(main|launcher|rank|worker) +\d+ +\S+", r" \1 \2 PID HOST"),
    (r"\b(main|launcher|rank|worker) \d+ on [\w.-]+", r"\1 PID on HOST"),
    (r"\breport-(\d+)-\d+-[0-9a-f]{6}\b", r"report-\1-PID-NAME"),
    (r"\b[0-9a-f]{2}/[0-9a-f]{64}\b", "KEY"),
    (r"(?<![\w.])[0-9a-f]{8}\b", "ID"),
    (r"\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}", "TIME"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "TIME"),
    (r"(?<![\w.])(?:\d+(?:\.\d+)?|\.\.\.) ?(?:s|ms|us|µs|ns|min)\b(?: \(\d+:\d\d:\d\d\))?", "DURATION"),
    (r"(?<![\w.])\d+\.\d [kM]B\b", "SIZE"),
    (r"^AssertionError: Torch not compiled with CUDA enabled$", "NO GPU"),
    (r"^RuntimeError: Found no NVIDIA driver on your system\. .*$", "NO GPU"),
    (r"^.*RuntimeWarning: Guards may run slower on Python 3\.13\.0\..*\n +warnings\.warn\(\n", ""),
    (r"(?<=never hit in this process: )numpy\.compat, ", ""),
)

#: How far a measured number may be from what is shown: units of its last place, or a share of it.
UNITS = 2
SHARE = Decimal("0.005")

_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
#: Spaces; a rule; a number that is part neither of a name nor of a version; anything else.
_TOKENS = re.compile(
    rf"(?P<space> +)|(?P<rule>([^\w\s.])\3\3+|_{{3,}})|(?P<number>(?<![\w.]){_NUMBER}(?!\w|\.\d))|(?P<text>\w+|.|\n)"
)


def masked(text: str) -> str:
    """Return ``text`` without what differs from run to run."""
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


def difference(shown: str, printed: str) -> Optional[str]:
    """Return the first part of what is shown that was not printed, or ``None`` where all of it was.

    Args:
        shown: by a page.
        printed: by the command that the page names.
    """
    printed = masked(printed)
    parts = masked(shown).split("...")
    position = 0
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        end = _Part(part, is_last=is_last).find(printed, position, anywhere=number > 0)
        if end is None:
            return part
        position = end
    return None


def same(shown: str, printed: str) -> bool:
    """Tell whether a command printed what a page shows of it."""
    return difference(shown, printed) is None


def is_close(shown: str, printed: str, *, is_cut: bool = False) -> bool:
    """Tell whether a number may be printed where another is shown: nearly equal if it is measured, or else equal.

    Args:
        shown, printed: as they are written. How many decimals they have tells whether they are measured, and how
            exactly.
        is_cut: whether only the beginning of the number is shown.
    """
    if len(_decimals(shown)) < 2:
        return printed.startswith(shown) if is_cut else shown == printed
    # %g drops zeros at the end: 0.010 is shown as 0.01, and 0.0097 may be printed.
    if len(_decimals(printed)) > len(_decimals(shown)) + 2 and not is_cut:
        return False
    expected, found = Decimal(shown), Decimal(printed)
    last_place = Decimal((0, (1,), int(expected.as_tuple().exponent)))
    return abs(found - expected) <= max(UNITS * last_place, SHARE * abs(expected))


def _decimals(number: str) -> str:
    return re.split(r"[eE]", number)[0].partition(".")[2]


class _Part:
    """What is shown before, between or after ellipses.

    Args:
        text: with no ellipsis inside.
        is_last: whether no ellipsis follows it.
    """

    def __init__(self, text: str, *, is_last: bool) -> None:
        self._numbers: list[str] = []
        pattern = "".join(self._patterns(text)) + (r"\Z" if is_last else "")
        self._pattern = re.compile(pattern, flags=re.DOTALL)
        # 0.0073... is the beginning of a number.
        self._is_cut = bool(self._numbers) and not is_last and text.endswith(self._numbers[-1])

    def _patterns(self, text: str) -> Iterator[str]:
        for token in _TOKENS.finditer(text):
            kind = token.lastgroup
            if kind == "space":
                yield " +"
            elif kind == "rule":
                yield re.escape(token.group()[0]) + "+"  # pytest's closing line has one where it is long
            elif kind == "number":
                self._numbers.append(token.group())
                yield f"({_NUMBER})"
            else:
                yield re.escape(token.group())

    def find(self, printed: str, position: int, *, anywhere: bool) -> Optional[int]:
        """Return where the first place that agrees ends, ``None`` where there is none.

        Args:
            printed: what a command printed, masked.
            position: where to begin.
            anywhere: whether something may stand between ``position`` and the place.
        """
        while position <= len(printed):
            match = self._pattern.search(printed, position) if anywhere else self._pattern.match(printed, position)
            if match is None or self._agrees(match):
                return None if match is None else match.end()
            if not anywhere:
                return None
            position = match.start() + 1
        return None

    def _agrees(self, match: re.Match[str]) -> bool:
        last = len(self._numbers) - 1
        pairs = enumerate(zip(self._numbers, match.groups()))
        return all(is_close(*pair, is_cut=self._is_cut and number == last) for number, pair in pairs)
