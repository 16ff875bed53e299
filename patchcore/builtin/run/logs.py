"""The output of patchcore in a program of a run: lines on stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Optional

from patchcore.builtin.run.verbosity import QUIET
from patchcore.objects.printable import without_addresses
from patchcore.settings import Settings
from patchcore.stderr import print_message

__all__ = ["level_of", "log_to_stderr"]


class _StderrHandler(logging.Handler):
    """Writes to stderr while the program has not set up logging; after that the records go where the program's go."""

    def __init__(self) -> None:
        super().__init__()
        self.known: frozenset[str] = frozenset()  # first lines of messages that another process has written

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            text = self.format(record)
            if without_addresses(text.partition("\n")[0]) not in self.known:
                print_message(text)


_HANDLER = _StderrHandler()


def log_to_stderr(level: Optional[str] = None, known: Iterable[str] = ()) -> None:
    """Show the ``patchcore`` log on stderr; calling it again sets the level.

    Args:
        level: from which on messages are shown, warnings by default.
        known: first lines of messages that are not shown, because the user has seen them.

    Examples:
        >>> import subprocess, sys
        >>> code = "from patchcore.plugin import log_to_stderr; log_to_stderr('INFO')"
        >>> subprocess.run([sys.executable, "-c", code], check=True).returncode
        0
    """
    logger = logging.getLogger("patchcore")
    if level is not None:
        logger.setLevel(level)
    _HANDLER.known = frozenset(map(without_addresses, known))
    if _HANDLER not in logger.handlers:
        logger.addHandler(_HANDLER)


def level_of(settings: Settings) -> Optional[str]:
    """Return the level from which on the log is shown, ``None`` for the default: errors only where ``-q`` was given."""
    level: Optional[str] = settings.get("log")
    return level or ("ERROR" if settings.get("verbosity") == QUIET else None)
