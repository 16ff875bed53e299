"""Times an original and a replacement on a device: both in one process, in turns."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import Any, Callable, NamedTuple, Optional

from patchcore.builtin.verify.framework import Execution
from patchcore.errors import CONTAINED, describe_error

__all__ = ["Speed", "compare_speed"]

#: How often original and replacement take turns, and the most calls of a turn.
TURNS, MOST_CALLS = 3, 10

#: Seconds after which a turn makes no further call.
TURN_LIMIT = 0.1


class Speed(NamedTuple):
    """How long a call takes, with its backward pass where it has one.

    Args:
        size: of the case, ``None`` where the check draws cases of one size only.
        original, replacement: medians in seconds, ``None`` where it was not timed.
        reason: why there is no ratio, else empty.
    """

    size: Optional[str] = None
    original: Optional[float] = None
    replacement: Optional[float] = None
    reason: str = ""

    @property
    def ratio(self) -> Optional[float]:
        """How many times as long as the replacement the original takes, ``None`` where not both were timed."""
        return self.original / self.replacement if self.original and self.replacement else None


def compare_speed(
    patched: Callable[[], AbstractContextManager[Any]],
    prepare: Callable[[], Execution],
    device: str,
    wait: Callable[[], None],
) -> Speed:
    """Time a call with and without a patch.

    Each turn begins with a call that is not timed; :data:`TURN_LIMIT` and :data:`MOST_CALLS` limit its length. Drawing
    and copying are not timed: ``wait`` is called before and after the timed calls.

    Args:
        patched: makes a context in which the patch is in force.
        prepare: makes the call ready, before each turn.
        device: where it runs.
        wait: returns when the device has done its work.
    """
    original: list[float] = []
    replacement: list[float] = []
    turns: tuple[tuple[str, list[float], Callable[[], AbstractContextManager[Any]]], ...] = (
        ("original", original, nullcontext),
        ("replacement", replacement, patched),
    )
    for _ in range(TURNS):
        for who, seconds, context in turns:
            try:
                with CONTAINED, context():
                    seconds += _take_turn(prepare, wait)
            except Exception as error:
                return Speed(reason=f"the {who} does not run on {device}: {describe_error(error)}")
    return Speed(original=median(original), replacement=median(replacement))


def _take_turn(prepare: Callable[[], Execution], wait: Callable[[], None]) -> list[float]:
    end = time.perf_counter() + TURN_LIMIT
    _timed(prepare(), wait)
    seconds = [_timed(prepare(), wait)]
    while time.perf_counter() < end and len(seconds) < MOST_CALLS:
        seconds.append(_timed(prepare(), wait))
    return seconds


def _timed(execution: Execution, wait: Callable[[], None]) -> float:
    """Make the call; return the seconds that forward and backward pass took, without the weights between them."""
    forward = _stopped(execution.forward, wait)
    execution.weigh()
    return forward + _stopped(execution.backward, wait)


def _stopped(step: Callable[[], None], wait: Callable[[], None]) -> float:
    wait()
    start = time.perf_counter()
    step()
    wait()
    return time.perf_counter() - start
