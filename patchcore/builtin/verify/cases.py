"""Drawing cases from the functions that checks declare."""

from __future__ import annotations

import random
from typing import Any, Optional

from patchcore.builtin.verify.check import Case, Check, Size
from patchcore.declare.changes import Skip
from patchcore.objects.generated import signature_of

__all__ = ["NothingToDraw", "draw", "takes"]


class NothingToDraw(Exception):
    """A check cannot be run here; the text is the reason that its function returned in a :class:`Skip`."""


def draw(check: Check, make: Any, seed: str, *, size: Optional[Size] = None, dtype: Optional[str] = None) -> Case:
    """Draw the case that ``seed`` stands for.

    Args:
        check: whose case it is, for messages.
        make: its function, imported.
        seed: any text; the same text gives the same case.
        size, dtype: handed on where the function takes them; ``None`` leaves it to the function.

    Raises:
        NothingToDraw: the function returned a :class:`Skip`.
        TypeError: the function returned something else than a :class:`Case`.
    """
    offered = {"size": size, "dtype": dtype}
    wanted = {name: value for name, value in offered.items() if value is not None and takes(make, name)}
    case = make(random.Random(seed), **wanted)
    if isinstance(case, Skip):
        raise NothingToDraw(case.reason)
    if not isinstance(case, Case):
        raise TypeError(f"check {check}: {make!r} returns {type(case).__name__}, expected patchcore.Case")
    return case


def takes(make: Any, argument: str) -> bool:
    """Return whether a function that draws cases has an argument of this name, besides the first."""
    return argument in list(signature_of(make).parameters)[1:]
