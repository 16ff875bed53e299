"""Progress with an estimate of the time that is left: on stderr of a terminal only, for work of more than 2 s."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

from patchcore.cli.output import print_error
from patchcore.objects.printable import printable

__all__ = ["Progress", "progress"]

#: Seconds after which a bar is shown.
AFTER = 2.0


class Progress:
    """Shows the progress of work, see :func:`progress`.

    Args:
        bar: of rich, ``None`` where nothing is shown.
    """

    def __init__(self, bar: Optional[Any] = None) -> None:
        self._bar = bar

    def describe(self, text: str) -> None:
        """Show ``text`` as the present step."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=_plain(text))

    def advance(self, *, more: bool = False) -> None:
        """Count one step as done.

        Args:
            more: there will be another one, even if it was not expected.
        """
        if self._bar is not None:
            (task,) = self._bar.tasks
            steps = max(task.total, task.completed + 2) if more else task.total
            self._bar.update(task.id, advance=1, total=steps)

    def expect(self, steps: int) -> None:
        """Correct how many steps there are, as far as they are known by now."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=steps)

    def say(self, text: str, style: str = "") -> None:
        """Print a line on stderr, above the bar."""
        if self._bar is None:
            print_error(text, who="")
        else:
            from rich.text import Text

            self._bar.console.print(Text(printable(text), style=style))


@contextmanager
def progress(what: str, steps: int) -> Iterator[Progress]:
    """Show in the block how many of its steps are done, and how long the others may take.

    Args:
        what: the text for the first step.
        steps: how many there are.

    Examples:
        >>> from patchcore.plugin import progress
        >>> with progress("reading prices", steps=3) as bar:
        ...     bar.describe("reading the price of tea")
    """
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
    )
    bar = bars.Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(_plain(what), total=steps)
    timer = threading.Timer(AFTER, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield Progress(bar)
    finally:
        timer.cancel()
        timer.join()  # it may be starting the bar
        bar.stop()


def _plain(text: str) -> str:
    """Return a text without markup for rich."""
    from rich.markup import escape

    return escape(printable(text))
