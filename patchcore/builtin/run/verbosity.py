"""The amount of a run's output: at its end, and in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from patchcore.errors import SettingsError, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["QUIET", "check_level", "check_verbosity"]

#: The setting ``verbosity`` of ``-q``: only failures are printed. With 1, ``-v``, the patches are listed at the end;
#: with 2, ``-vv``, all of the report.
QUIET, _MOST = -1, 2


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
