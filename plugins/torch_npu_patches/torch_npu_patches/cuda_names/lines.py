"""The lines that compare with ``"cuda"`` or look for CUDA: whether each was edited, and how often it ran."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from torch_npu_patches.cuda_names.running import COUNTS
from torch_npu_patches.transfer_to_npu.audit import is_installed

__all__ = ["LINES", "Line", "clear", "forget", "found", "note", "rows"]


class Line(NamedTuple):
    """A line of a program that compares something with CUDA, or checks for CUDA.

    Args:
        file, line: where.
        before: the expression in the source.
        after: the expression that runs in its place; empty for a line that was left alone.
        why: why it was left alone; empty for one that was edited.
        runs: how often it ran; a line that was left alone is not counted.
        hides: whether the line checks for CUDA and gets false, so that its function takes its branch for NPUs.
    """

    file: str
    line: int
    before: str
    after: str = ""
    why: str = ""
    runs: int = 0
    hides: bool = False

    @property
    def installed(self) -> bool:
        """True if the line belongs to an installed package, not to the program."""
        return is_installed(self.file)

    def __str__(self) -> str:
        if self.why:
            return f"{self.file}:{self.line}: {self.before}: left alone, {self.why}"
        return f"{self.file}:{self.line}: {self.before} -> {self.after}, {self.runs}x"


#: By number: edited lines pass their numbers to :mod:`torch_npu_patches.cuda_names.running`.
LINES: list[Line] = []
_numbers: dict[tuple[str, int, bool], int] = {}  # by file, line, and whether it was edited


def note(line: Line) -> int:
    """Keep ``line`` and return its number; several expressions of one line have one number."""
    key = line.file, line.line, not line.why
    number = _numbers.get(key)
    if number is None:
        number = _numbers[key] = len(LINES)
        LINES.append(line)
    elif line.before not in LINES[number].before.split("; "):
        known = LINES[number]
        texts = [f"{old}; {new}" if new else old for old, new in zip(known[2:4], line[2:4])]
        LINES[number] = known._replace(before=texts[0], after=texts[1])
    return number


def found() -> list[Line]:
    """Return the lines of the modules that were compiled so far, by file and line, with their counts."""
    counted = [line._replace(runs=COUNTS.get(number, 0)) for number, line in enumerate(LINES) if line.file]
    return sorted(counted)


def forget(file: str) -> None:
    """Forget the lines of ``file``: it is about to be read again."""
    for key in [key for key in _numbers if key[0] == file]:
        LINES[_numbers.pop(key)] = Line("", 0, "")


def clear() -> None:
    """Forget how often lines ran."""
    COUNTS.clear()


def rows(lines: list[Line]) -> list[dict[str, Any]]:
    """Return ``lines`` as rows of a report."""
    return [
        {"file": line.file, "line": line.line, "cuda": line.before, "npu": line.after or line.why, "count": line.runs}
        for line in lines
    ]


if hasattr(os, "register_at_fork"):  # a worker reports only the lines that it ran itself
    os.register_at_fork(after_in_child=clear)
