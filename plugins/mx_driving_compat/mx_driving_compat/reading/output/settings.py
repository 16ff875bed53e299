"""The ``[tool.patchcore]`` of a program, as lines of TOML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from mx_driving_compat.reading.calls.settings import Setting

__all__ = ["settings_lines"]

_LISTS = ("enable", "disable")


def settings_lines(settings: Iterable[Setting]) -> list[str]:
    """Return the settings as lines; one that may not hold is commented out, with the reason."""
    tables: dict[str, list[str]] = {}
    for setting in sorted(_merged(settings), key=lambda setting: setting.key not in _LISTS):
        table, _, key = setting.key.rpartition(".")
        line = f"{key} = {_toml(setting.value)}"
        if setting.doubt:
            line = f"# {line}  # line {setting.line}: {setting.doubt}"
        tables.setdefault(f"tool.patchcore.{table}" if table else "tool.patchcore", []).append(line)
    lines: list[str] = []
    for table in sorted(tables):
        # a table that is there counts, whatever is in it
        comment = "# " if all(line.startswith("# ") for line in tables[table]) else ""
        lines += [*([""] if lines else []), f"{comment}[{table}]", *tables[table]]
    return lines


def _merged(settings: Iterable[Setting]) -> Iterator[Setting]:
    """Lists of one key in one; of other keys the last."""
    merged: dict[tuple[str, str], Setting] = {}
    for setting in settings:
        key = (setting.key, setting.doubt)
        if key in merged and setting.key in _LISTS:
            setting = setting._replace(value=list(dict.fromkeys([*merged[key].value, *setting.value])))
        merged[key] = setting
    yield from merged.values()


def _toml(value: Any) -> str:
    """A literal as TOML; what JSON writes of texts, numbers, truth values and lists is TOML, too."""
    return json.dumps(value, ensure_ascii=False)
