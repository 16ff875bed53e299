"""Sharing out repetitions between the Pythons that run the same tests, so that two of them together try all."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["EVERYTHING", "in_turn"]

_T = TypeVar("_T")

#: Set to try everything on this Python, which takes many minutes.
EVERYTHING = bool(os.environ.get("PATCHCORE_TEST_EVERYTHING"))


def in_turn(items: Sequence[_T], turn: int = 0) -> list[_T]:
    """Return half of ``items``, the other half on Python 3.12 and newer; all where everything is to be tried.

    Args:
        items: in an order that is the same on each Python.
        turn: shifts the part, for callers that are repeated and share out the same items.
    """
    if EVERYTHING:
        return list(items)
    return list(items[(sys.version_info.minor // 4 + turn) % 2 :: 2])
