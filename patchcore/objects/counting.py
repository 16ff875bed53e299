"""Counters: how often the target of a change is called through it, and which way ``when_call`` sends the calls."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import Callable, Optional

__all__ = ["Counter", "Tally"]


class Tally:
    """A number that any thread adds to.

    Attributes:
        tick: adds 1. A plain function, which code that counts calls before it goes on, so that no frame of it is left
            on the stack.
    """

    def __init__(self) -> None:
        numbers = itertools.count()  # next() of it is one step of the interpreter: no thread loses another's

        def tick() -> None:
            next(numbers)

        # torch.compile (torch 2.0 and later, ``assume_constant_result`` in torch/_dynamo/decorators.py) calls such a
        # function once, while it traces, and puts neither the call nor a guard on the number into the compiled code
        tick._dynamo_marked_constant = True  # type: ignore[attr-defined]
        self.tick: Callable[[], None] = tick
        self._numbers = numbers
        self._start = 0
        self._lock = threading.RLock()

    @property
    def value(self) -> int:
        """How often :attr:`tick` was called in this process."""
        with self._lock:
            found = next(self._numbers) - self._start
            self._start += 1  # reading has counted, too
        return found

    def reset(self) -> None:
        """Start again at 0, in a process that was forked: another thread of the parent may have held the lock."""
        self._lock = threading.RLock()
        found = self.value  # which counts as well
        self._start += found


class Counter:
    """Counts, in this process, the calls of a target that come through one change.

    Args:
        branches: whether some of them go to the original, as ``when_call`` decides.

    Attributes:
        in_use: true if a function that counts was made; for a class in its slot, a change makes none.
        replacement, original: the calls that went there; ``original`` is ``None`` without branches.

    Examples:
        >>> from patchcore.plugin import Counter, wrap_raw
        >>> counter = Counter()
        >>> price = wrap_raw(lambda: 3, lambda original: original(), in_class=False, counter=counter)
        >>> price(), counter.calls
        (3, 1)
    """

    def __init__(self, *, branches: bool = False) -> None:
        self.in_use = False
        self.replacement = Tally()
        self.original: Optional[Tally] = Tally() if branches else None
        _counters.add(self)

    @property
    def calls(self) -> int:
        """The number of all calls."""
        return self.replacement.value + (self.original.value if self.original is not None else 0)

    @property
    def replaced(self) -> Optional[int]:
        """The number of calls of the replacement; ``None`` if every call is one."""
        return self.replacement.value if self.original is not None else None

    @property
    def tick(self) -> Callable[[], None]:
        """The function that counts a call of the replacement, for a function that is being made."""
        self.in_use = True
        return self.replacement.tick

    @property
    def ticks(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """The functions that count a call of the replacement and one of the original; only for a counter of both."""
        assert self.original is not None
        return self.tick, self.original.tick

    def reset(self) -> None:
        """Start again at 0."""
        for tally in (self.replacement, self.original):
            if tally is not None:
                tally.reset()


_counters: weakref.WeakSet[Counter] = weakref.WeakSet()


def _start_again() -> None:
    for counter in list(_counters):
        counter.reset()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_start_again)
