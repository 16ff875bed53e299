"""Lines that patchcore itself writes to stderr.

A library logs. But a patch that fails under the policy ``warn`` has no other effect than a message, and a program that
has not configured :mod:`logging` would never show it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator

from patchcore.logs import is_shown
from patchcore.objects.printable import printable
from patchcore.process import process_rank, rank_variable

__all__ = ["hidden_failures", "print_message", "show_failure"]

#: The failed patch or program, by the line that was written about it.
_failed: dict[str, str] = {}

#: The process that wrote these lines: a forked child has a copy of them.
_process = 0

_hidden = False


def print_message(text: str) -> None:
    """Write a line to the current ``sys.stderr``. Errors of writing are ignored, so that they cannot end the program.

    Args:
        text: of the line. The name of the program, and the rank in a job of several, are written before it.

    Examples:
        >>> import contextlib, io
        >>> from patchcore.plugin import print_message
        >>> with contextlib.redirect_stderr(io.StringIO()) as shown:
        ...     print_message("3 prices")
        >>> shown.getvalue()
        'patchcore: 3 prices\\n'
    """
    stream = sys.stderr
    rank = f" [rank {process_rank()}]" if rank_variable() is not None else ""
    line = f"patchcore{rank}: {printable(text)}\n"
    try:
        stream.flush()
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):  # there is none, it is closed, or somebody reads it in this process
        descriptor = None
    try:
        if descriptor is None:
            stream.write(line)
        else:  # unbuffered: text that a full disk refuses would fail again at exit and change the exit code
            os.write(descriptor, line.encode(getattr(stream, "encoding", None) or "utf-8", "backslashreplace"))
    except (AttributeError, OSError, ValueError):
        pass


@contextlib.contextmanager
def hidden_failures() -> Iterator[None]:
    """Silence :func:`show_failure` in this block, for a command that prints failures itself."""
    global _hidden
    before, _hidden = _hidden, True
    try:
        yield
    finally:
        _hidden = before


def show_failure(name: str, message: str) -> None:
    """Write that something failed to stderr, if the program has not configured logging, and each line once only.

    When the process ends, one more line has the names of all that failed.

    Args:
        name: of the patch or plugin that failed.
        message: one line.
    """
    global _process
    if _hidden or is_shown():
        return
    if _process != os.getpid():
        _process = os.getpid()
        _failed.clear()
        atexit.register(_sum_up, _process)
    if message not in _failed:
        _failed[message] = name
        print_message(message)


def _sum_up(process: int) -> None:
    if process == os.getpid():  # a forked child calls the functions of its parent, too
        names = dict.fromkeys(_failed.values())
        print_message(f"failed in this process, and not in force: {', '.join(names)}")
