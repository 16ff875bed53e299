"""Settings: command line > environment > ``[tool.patchcore]`` in pyproject.toml > default, each with its origin."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from patchcore.errors import SettingsError, did_you_mean

__all__ = ["POLICIES", "Choice", "Settings"]

#: What to do about a patch that fails: log and go on, undo everything and raise, or go on without a word.
POLICIES = ("warn", "raise", "ignore")

_OPTIONS = {"plugins": "--plugin", "on_failure": "--strict", "report_dir": "--report-dir"}
_KEYS = ("plugins", "enable", "disable", "on_failure", "report_dir", "log", "options")
_VARIABLES = {f"PATCHCORE_{key.upper()}": key for key in _KEYS if key != "options"}


class Choice(NamedTuple):
    """One name that a user enabled or disabled.

    Args:
        enable: whether it was enabled.
        name: a patch, legacy name, target or plugin, or ``*``.
        origin: where that was said, for messages.
        strength: choices of one source have the same; what a stronger source says overrules a weaker one.
    """

    enable: bool
    name: str
    origin: str
    strength: int = 0


@dataclass(frozen=True)
class Settings:
    """What a user decided, from every source.

    Args:
        plugins: names of the plugins to load, ``None`` for all that are installed.
        choices: what was enabled and disabled, weakest source first.
        on_failure: ``warn``, ``raise`` or ``ignore``.
        report_dir: where each process writes its report, ``None`` for nowhere.
        log: level of the ``patchcore`` logger, ``None`` to leave it alone.
        options: per patch name, values that override the patch's own options.
        origins: for each field that is not a default, which source decided it.
    """

    plugins: Optional[tuple[str, ...]] = None
    choices: tuple[Choice, ...] = ()
    on_failure: str = "warn"
    report_dir: Optional[str] = None
    log: Optional[str] = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(
        cls,
        *,
        arguments: Optional[Mapping[str, Any]] = None,
        origin: str = "argument",
        environ: Optional[Mapping[str, str]] = None,
        start: Optional[Path] = None,
    ) -> Settings:
        """Read every source and lay the stronger over the weaker.

        Args:
            arguments: the strongest source, by key; ``None`` values count as not given.
            origin: what to call that source, ``"command line"`` say.
            environ: environment variables, ``os.environ`` by default.
            start: directory from which pyproject.toml is looked for upwards, the current one by default.

        Raises:
            SettingsError: unreadable file, unknown key (with the nearest one) or impossible value, saying where.
        """
        environ = os.environ if environ is None else environ
        sources: list[_Source] = []
        found = _find_table(start)
        if found is not None:
            path, table = found
            sources.append(_Source(f"{path} [tool.patchcore]", table, _PYPROJECT))
        for variable, key in _VARIABLES.items():
            if variable in environ:
                sources.append(_Source(variable, {key: environ[variable]}, _ENVIRONMENT))
        given = {key: value for key, value in (arguments or {}).items() if value is not None}
        sources.append(_Source(origin, given, _ARGUMENTS))
        return _merge(sources)


class _Source(NamedTuple):
    origin: str
    given: Mapping[str, Any]
    strength: int


_PYPROJECT, _ENVIRONMENT, _ARGUMENTS = range(3)


def _find_table(start: Optional[Path]) -> Optional[tuple[Path, Mapping[str, Any]]]:
    """Return the nearest pyproject.toml at or above ``start`` that has a ``[tool.patchcore]`` table, and the table."""
    try:
        nearest = (start or Path.cwd()).absolute()
    except OSError:  # the working directory was deleted
        return None
    for folder in (nearest, *nearest.parents):
        path = folder / "pyproject.toml"
        if os.path.isfile(path):  # Path.is_file raises where a parent may not be entered
            table = _read_table(path)
            if table is not None:
                return path, table
    return None


def _read_table(path: Path) -> Optional[Mapping[str, Any]]:
    try:
        content = path.read_bytes()
        if b"patchcore" not in content:  # the parser takes milliseconds to import
            return None
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        tool = tomllib.loads(content.decode("utf-8")).get("tool")
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    table = tool.get("patchcore") if isinstance(tool, Mapping) else None
    if table is not None and not isinstance(table, Mapping):
        raise SettingsError(f"{path}: tool.patchcore = {table!r}; expected a table, [tool.patchcore]")
    return table


def _merge(sources: Sequence[_Source]) -> Settings:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    choices: list[Choice] = []
    for source in sources:
        for key, value in source.given.items():
            if key not in _KEYS:
                raise SettingsError(f"{source.origin}: unknown setting {key!r}{did_you_mean(key, _KEYS)}")
            checked: Any = _CHECKS[key](value, f"{source.origin}: {key}")
            origin = _spelled(source.origin, key)
            if key in ("enable", "disable"):
                choices += (Choice(key == "enable", name, origin, source.strength) for name in checked)
            else:
                values[key], origins[key] = checked, origin
    return Settings(choices=tuple(choices), origins=origins, **values)


def _spelled(origin: str, key: str) -> str:
    return _OPTIONS.get(key, f"--{key}") if origin == "command line" else origin


def _names(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise SettingsError(f"{where} = {value!r}; expected a list of names")
    return tuple(value)


def _policy(value: Any, where: str) -> str:
    if value not in POLICIES:
        raise SettingsError(
            f"{where} = {value!r}; expected one of {', '.join(POLICIES)}{did_you_mean(str(value), POLICIES)}"
        )
    return str(value)


def _text(value: Any, where: str) -> Optional[str]:
    if not isinstance(value, (str, os.PathLike)):
        raise SettingsError(f"{where} = {value!r}; expected text")
    return os.fsdecode(value) or None


def _level(value: Any, where: str) -> Optional[str]:
    levels = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    if not isinstance(value, str) or value.upper() not in levels:
        raise SettingsError(
            f"{where} = {value!r}; expected one of {', '.join(levels)}{did_you_mean(str(value), levels)}"
        )
    return value.upper()


def _options(value: Any, where: str) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping) or not all(isinstance(table, Mapping) for table in value.values()):
        raise SettingsError(
            f'{where} = {value!r}; expected a table per patch, [tool.patchcore.options."library.patch"]'
        )
    return {name: dict(table) for name, table in value.items()}


_CHECKS = {
    "plugins": _names,
    "enable": _names,
    "disable": _names,
    "on_failure": _policy,
    "report_dir": _text,
    "log": _level,
    "options": _options,
}
