"""What a program of a run sees of patchcore: lines on stderr."""

from __future__ import annotations

import logging
import os
import sys
from typing import Optional

from patchcore.builtin.run.verbosity import QUIET
from patchcore.objects.printable import printable
from patchcore.process import process_rank, rank_variable
from patchcore.settings import Settings

__all__ = ["level_of", "log_to_stderr", "say"]


def say(text: str) -> None:
    """Write a line to what is stderr now, if it is anything; a process does not fail for what it has to say."""
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
        else:  # what a full disk does not take is not to wait in a buffer: it would change the exit code
            os.write(descriptor, line.encode(getattr(stream, "encoding", None) or "utf-8", "backslashreplace"))
    except (AttributeError, OSError, ValueError):
        pass


class _StderrHandler(logging.Handler):
    """Writes to stderr while the program has not set up logging; after that the records go where the program's go."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            say(self.format(record))


def log_to_stderr(level: Optional[str] = None) -> None:
    """Show the ``patchcore`` log on stderr, from ``level`` on, warnings by default; calling it again sets the level."""
    logger = logging.getLogger("patchcore")
    if level is not None:
        logger.setLevel(level)
    if not any(isinstance(handler, _StderrHandler) for handler in logger.handlers):
        logger.addHandler(_StderrHandler())


def level_of(settings: Settings) -> Optional[str]:
    """Return the level from which on the log is shown, ``None`` for the default: errors only where ``-q`` was given."""
    level: Optional[str] = settings.get("log")
    return level or ("ERROR" if settings.get("verbosity") == QUIET else None)
