"""The logger of patchcore, whose messages are fit for a terminal."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from patchcore.objects.printable import printable

if TYPE_CHECKING:
    from logging import Logger, LogRecord

__all__ = ["is_shown", "logger"]

#: The level of :mod:`logging`.
_WARNING = 30


@functools.cache
def logger() -> Logger:
    """Return the logger of patchcore. Processes that log nothing do without :mod:`logging`, which imports much."""
    from patchcore.stdlib import logging

    made = logging.getLogger("patchcore")
    made.addHandler(logging.NullHandler())
    made.addFilter(_make_printable)
    return made


def is_shown() -> bool:
    """True if the program has decided on the warnings of patchcore: it has configured a handler or a level."""
    ours = logger()  # which has one handler, that does nothing
    above = ours.parent.handlers if ours.parent is not None and ours.propagate else []
    return len(ours.handlers) > 1 or not ours.propagate or bool(above) or not ours.isEnabledFor(_WARNING)


def _make_printable(record: LogRecord) -> bool:
    """Make a message fit for a terminal, as the program's handlers may write to one; see :func:`printable`."""
    record.msg, record.args = printable(record.getMessage()), ()
    return True
