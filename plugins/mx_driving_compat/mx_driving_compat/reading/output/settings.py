"""Writes settings as lines of TOML for the program's ``[tool.patchcore]``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from mx_driving_compat.reading.calls.settings import Setting

__all__ = ["settings_lines"]

_LISTS = ("enable", "disable")


def settings_lines(settings: Iterable[Setting]) -> list[str]:
    """Return the settings as lines; a doubtful one is commented out, with the reason."""
    tables: dict[str, list[str]] = {}
    for setting in sorted(_merged(settings), key=lambda setting: setting.key not in _LISTS):
        table, _, key = setting.key.rpartition(".")
        line = f"{key} = {_toml(setting.value)}"
        if setting.doubt:
            line = f"# {line}  # line {setting.line}: {setting.doubt}"
        tables.setdefault(f"tool.patchcore.{table}" if table else "tool.patchcore", []).append(line)
    lines: list[str] = []
    for table in sorted(tables):
        # Even an empty table would count, so its header is commented out with its lines.
        comment = "# " if all(line.startswith("# ") for line in tables[table]) else ""
        lines += [*([""] if lines else []), f"{comment}[{table}]", *tables[table]]
    return lines


def _merged(settings: Iterable[Setting]) -> Iterator[Setting]:
    """Merge lists of the same key; of other keys use the last value."""
    merged: dict[tuple[str, str], Setting] = {}
    for setting in settings:
        key = (setting.key, setting.doubt)
        if key in merged and setting.key in _LISTS:
            setting = setting._replace(value=list(dict.fromkeys([*merged[key].value, *setting.value])))
        merged[key] = setting
    yield from merged.values()


def _toml(value: Any) -> str:
    """Return a literal as TOML: texts, numbers, truth values and lists are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)
