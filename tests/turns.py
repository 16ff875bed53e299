"""Sharing out repetitions between the Pythons that run the same tests, so that together they try all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["EVERYTHING", "in_turn"]

_T = TypeVar("_T")

#: Set to try everything on this Python, which takes many minutes.
EVERYTHING = bool(os.environ.get("PATCHCORE_TEST_EVERYTHING"))

#: The Pythons of the session hostile in noxfile.py, each with the part that it takes; others take the last.
_PARTS = {(3, 9): 0, (3, 11): 1}


def in_turn(items: Sequence[_T], turn: int = 0) -> list[_T]:
    """Return a third of ``items``, another one on each of the three Pythons; all where everything is to be tried.

    Args:
        items: in an order that is the same on each Python.
        turn: shifts the part, for callers that are repeated and share out the same items.
    """
    if EVERYTHING:
        return list(items)
    return list(items[(_PARTS.get(sys.version_info[:2], 2) + turn) % 3 :: 3])
