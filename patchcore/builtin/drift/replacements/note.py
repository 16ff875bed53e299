"""The remarks on a replacement, and the kinds of findings about targets."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KINDS", "LIBRARY_COUNTS", "Note"]

#: The end of the note on a name that a patch adds and that the library has itself now.
LIBRARY_COUNTS = "create=True leaves that of the library"

#: The kinds of findings about targets that have changed, the gravest first.
KINDS = ("gone", "signature", "reads", "copy", "body")


class Note(NamedTuple):
    """A remark on the replacement of a target, read from sources.

    Args:
        kind: of the finding; empty if it is shown and is no finding.
        text: one line.
        advice: the next step.
        difference: a diff of three, for a copy.
        replaces_change: true if it says all that there is to say on the change of the target.
    """

    kind: str
    text: str
    advice: str = ""
    difference: str = ""
    replaces_change: bool = False
