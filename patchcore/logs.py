"""The logger of patchcore, whose messages are fit for a terminal."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from patchcore.objects.printable import printable

if TYPE_CHECKING:
    from logging import Logger, LogRecord

__all__ = ["logger"]


@functools.cache
def logger() -> Logger:
    """Return the logger of patchcore. Processes that log nothing do without :mod:`logging`, which imports much."""
    from patchcore.stdlib import logging

    made = logging.getLogger("patchcore")
    made.addHandler(logging.NullHandler())
    made.addFilter(_make_printable)
    return made


def _make_printable(record: LogRecord) -> bool:
    """Make a message fit for a terminal, as the program's handlers may write to one; see :func:`printable`."""
    record.msg, record.args = printable(record.getMessage()), ()
    return True
