"""The output of patchcore in a program of a run: lines on stderr, and the settings for their amount."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional

from patchcore.errors import SettingsError, did_you_mean
from patchcore.objects.printable import without_addresses
from patchcore.settings import Settings
from patchcore.stderr import print_message

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["QUIET", "check_level", "check_verbosity", "level_of", "log_to_stderr"]

#: The setting ``verbosity`` of ``-q``: only failures are printed. With 1, ``-v``, the patches are listed at the end;
#: with 2, ``-vv``, all of the report.
QUIET, _MOST = -1, 2


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

    Example:
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


def check_verbosity(value: Any, where: str, directory: Optional[Path]) -> int:
    """Return the amount of output at a run's end, from -1 to 2: a ``check`` of :class:`patchcore.settings.Setting`."""
    try:
        return max(QUIET, min(int(value), _MOST))
    except (TypeError, ValueError):
        raise SettingsError(f"{where} = {value!r}; expected -1 (quiet), 0, 1 or 2") from None


def check_level(value: Any, where: str, directory: Optional[Path]) -> str:
    """Return a level of :mod:`logging` in capitals: a ``check`` of :class:`patchcore.settings.Setting`."""
    levels = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    if not isinstance(value, str) or value.upper() not in levels:
        raise SettingsError(
            f"{where} = {value!r}; expected one of {', '.join(levels)}{did_you_mean(str(value), levels)}"
        )
    return value.upper()
