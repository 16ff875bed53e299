"""Settings that are tables with a path, ``profiling`` and ``record``: how options and values of both are read."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Callable, Optional

from patchcore import SettingsError
from patchcore.plugin import Choice, check_path, did_you_mean

__all__ = ["EnterInTable", "check_keys", "enable_own_patches", "read_table"]


class EnterInTable(argparse.Action):
    """Enters the value of an option in the table that is the setting ``dest``.

    A subclass has the prefix of the options, ``--profile``: this option is the key ``path``, ``--profile-level`` is
    ``level``.
    """

    prefix: str

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Optional[str] = None) -> None:
        key = str(option).replace(self.prefix, "").lstrip("-").replace("-", "_") or "path"
        value = self.const if self.nargs == 0 else values
        setattr(namespace, self.dest, {**(getattr(namespace, self.dest) or {}), key: value})


def read_table(
    value: Any, where: str, directory: Optional[Path], verb: str, option_of: Callable[[str], str]
) -> Optional[dict[str, Any]]:
    """Return the table that a setting is: a table, or the path alone. Return ``None`` for an empty path.

    Args:
        value: of the setting.
        where: the place of the setting, for errors.
        directory: that a relative path starts from.
        verb: the option of the path without dashes, ``profile``.
        option_of: returns the option for a key.

    Raises:
        SettingsError: the path is none, or options of the command line leave it out.
    """
    table = dict(value) if isinstance(value, Mapping) else {"path": value}
    if "path" in table:
        table["path"] = check_path(table["path"], f"{where}.path", directory)
        if table["path"] is None:
            return None
    elif where.startswith("command line") and table:
        option = option_of(next(iter(table)))
        raise SettingsError(f"{option} says how to {verb}, and --{verb} DIR is missing")
    return table


def check_keys(values: Mapping[str, Any], options: Any, name: str, example: str) -> None:
    """Raise unless each key of a table is a field, and the path is one of them.

    Args:
        values: the table.
        options: the data class that is made from it.
        name: of the setting.
        example: a path, for the error.

    Raises:
        SettingsError: a key means nothing, or ``path`` is missing.
    """
    from dataclasses import fields  # for those who set the table

    known = [field.name for field in fields(options)]
    for key in values:
        if key not in known:
            raise SettingsError(f"{name} has no option {key!r}{did_you_mean(str(key), known)}")
    if "path" not in values:
        raise SettingsError(f"{name} has no path, the directory for the records; write path={example!r}")


def enable_own_patches(value: Any, origin: str) -> Iterable[Choice]:
    """Enable the patches that a setting needs: ``--disable '*' --profile DIR`` records the program without patches.

    Args:
        value: of the setting.
        origin: the place of the setting.
    """
    return [] if value is None else [Choice(True, "patchcore.torch", origin, strength=None)]
