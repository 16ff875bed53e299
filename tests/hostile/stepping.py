"""Two threads in a chosen order: each pauses at a chosen line of the code that is looked at."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any, NamedTuple, Optional

__all__ = ["Order", "Stepper", "lines_of", "run_in_order"]

#: Seconds that a thread is given to end or to get to its line before the other goes on. Where it takes longer, because
#: it waits for the other thread or because the machine is busy, the two run as they like: any order must do.
GRACE = 0.02


class Stepper:
    """Runs a function in a thread that pauses when it comes to a line for the first time.

    Args:
        function: to run.
        files: ends of the names of the files whose lines count.
        pause_at: the number of the line among those that the thread comes to, ``None`` to run through.
    """

    def __init__(self, function: Callable[[], Any], files: Collection[str], pause_at: Optional[int] = None) -> None:
        self._function = function
        self._files = tuple(files)
        self._pause_at = pause_at
        self.lines: dict[tuple[str, int], None] = {}
        self.error: Optional[BaseException] = None
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def to_its_line(self) -> None:
        """Start the thread; return when it has come to its line, has ended, or is waiting for something."""
        self._thread.start()
        self._reached.wait(GRACE if self._pause_at is not None else 300)

    def to_its_end(self) -> None:
        """Let the thread go on from its line; return when it has ended, or is waiting for something."""
        self._go_on.set()
        self._thread.join(GRACE)

    def end(self) -> None:
        """Wait for the thread; raise what it has raised."""
        self._go_on.set()
        self._thread.join(300)
        assert not self._thread.is_alive(), "deadlock"
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        sys.settrace(self._trace)
        try:
            self._function()
        except BaseException as error:
            self.error = error
        finally:
            sys.settrace(None)
            self._reached.set()

    def _trace(self, frame: FrameType, event: str, value: Any) -> Any:
        return self._at_line if frame.f_code.co_filename.endswith(self._files) else None

    def _at_line(self, frame: FrameType, event: str, value: Any) -> Any:
        line = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and line not in self.lines:
            if len(self.lines) == self._pause_at:
                self._reached.set()
                self._go_on.wait(300)
            self.lines[line] = None
        return self._at_line


def lines_of(function: Callable[[], Any], files: Collection[str]) -> int:
    """Return how many lines of ``files`` a thread comes to that runs ``function`` alone."""
    stepper = Stepper(function, files)
    stepper.to_its_line()
    stepper.end()
    return len(stepper.lines)


class Order(NamedTuple):
    """An order of two threads: ``first`` to a line, ``second`` to a line, ``first`` to its end, ``second`` to its end.

    Args:
        swapped: whether the second function is the one that begins.
        first, second: the numbers of the lines.
    """

    swapped: bool
    first: int
    second: int


def run_in_order(order: Order, one: Stepper, other: Stepper) -> None:
    """Run two steppers in an order, to their ends."""
    first, second = (other, one) if order.swapped else (one, other)
    first.to_its_line()
    second.to_its_line()
    first.to_its_end()
    second.to_its_end()
    first.end()
    second.end()
