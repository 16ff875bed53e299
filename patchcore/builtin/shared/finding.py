"""The record of a fault, as ``patchcore check`` and ``patchcore report`` list them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Finding"]


class Finding(NamedTuple):
    """A fault of an environment or of a run.

    Args:
        kind: a word; the commands list theirs.
        subject: a patch, library, plugin, setting or file.
        message: one line.
        processes: of a run, the processes that have it, in words.
    """

    kind: str
    subject: str
    message: str
    processes: str = ""
