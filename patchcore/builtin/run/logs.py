"""What a program of a run sees of patchcore: lines on stderr."""

from __future__ import annotations

import logging
from typing import Optional

from patchcore.builtin.run.verbosity import QUIET
from patchcore.settings import Settings
from patchcore.stderr import say

__all__ = ["level_of", "log_to_stderr"]


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
