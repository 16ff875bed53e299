"""Findings in a program: immutable records with their place."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["LEVELS", "NEEDS_A_PERSON", "Finding"]

#: The kinds of finding, in the order of the reports.
LEVELS = {
    "error": "a file that could not be read, parsed or written",
    "unsupported": "no counterpart on an NPU",
    "unknown": "a name of torch.cuda that no rule knows",
    "operator": "a CUDA operator or kernel in C++ or CUDA source",
    "review": "not certain enough to be rewritten, or a person must decide",
    "change": "rewritten",
    "precision": "may compute other results",
    "performance": "a faster way may exist",
}

#: The levels that make ``patchcore migrate`` exit with 1: the program is not going to run as it is.
NEEDS_A_PERSON = ("error", "unsupported", "unknown", "operator")


class Finding(NamedTuple):
    """One thing found in one place.

    Args:
        file: its path, from where the command runs; with ``/``.
        line, column: from 1.
        rule: id of the rule.
        level: one of :data:`LEVELS`.
        before: the code that was found.
        after: the new code; empty where nothing was changed.
        note: the advice.
    """

    file: str
    line: int
    column: int
    rule: str
    level: str
    before: str
    after: str = ""
    note: str = ""

    @property
    def place(self) -> str:
        """``file:line:column``, as editors open it."""
        return f"{self.file}:{self.line}:{self.column}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON view."""
        return self._asdict()
