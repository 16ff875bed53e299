"""The lines that compare with ``"cuda"`` or look for CUDA: whether each was edited, and how often it ran."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch_npu_patches.cuda_names.running import COUNTS
from torch_npu_patches.transfer_to_npu.audit import is_installed

__all__ = ["LINES", "Line", "clear", "found", "keep", "lines_of", "note", "place_of", "rows"]


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


#: By file, line, and whether the line was edited.
LINES: dict[tuple[str, int, bool], Line] = {}


def place_of(file: str, line: int) -> str:
    """Return the text by which edited code counts a line; see :data:`torch_npu_patches.cuda_names.running.COUNTS`."""
    return f"{file}:{line}"


def note(notes: list[Any], line: Line) -> str:
    """Append a line to the notes of a source (:attr:`patchcore.Source.notes`), and return its place."""
    notes.append((line.line, line.before, line.after, line.why, line.hides))
    return place_of(line.file, line.line)


def keep(file: str, notes: Sequence[Any]) -> None:
    """Keep the lines of a source, from its notes. For :class:`patchcore.Rules`."""
    _add(LINES, file, notes)


def lines_of(file: str, notes: Sequence[Any]) -> list[Line]:
    """Return the lines of a source, from its notes, in order."""
    found: dict[tuple[str, int, bool], Line] = {}
    _add(found, file, notes)
    return sorted(found.values())


def _add(lines: dict[tuple[str, int, bool], Line], file: str, notes: Sequence[Any]) -> None:
    """Add the lines of a source to ``lines``. Several expressions of one line become one :class:`Line`."""
    for number, before, after, why, hides in notes:
        key = file, number, not why
        known = lines.get(key)
        if known is None:
            lines[key] = Line(file, number, before, after, why, hides=hides)
        elif before not in known.before.split("; "):
            texts = [f"{old}; {new}" if new else old for old, new in zip(known[2:4], (before, after))]
            lines[key] = known._replace(before=texts[0], after=texts[1])


def found() -> list[Line]:
    """Return the lines of the modules that were compiled so far, by file and line, with their counts."""
    return sorted(
        line._replace(runs=COUNTS.get(place_of(*line[:2]), 0) if line.after else 0) for line in LINES.values()
    )


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
