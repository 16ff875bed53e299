"""Settings: command line > environment > ``[tool.patchcore]`` in pyproject.toml > default, each with its origin."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from patchcore.errors import DeclarationError, SettingsError, did_you_mean

__all__ = ["POLICIES", "Choice", "LocalModule", "Settings", "check_training"]

#: What to do about a patch that fails: log and go on, undo everything and raise, or go on without a word.
POLICIES = ("warn", "raise", "ignore")

_OPTIONS = {
    "plugins": "--plugin",
    "modules": "--module",
    "on_failure": "--strict",
    "report_dir": "--report-dir",
    "use_profile": "--use-profile",
    "profiling": "--profile",
    "compat": "--compat",
}
_KEYS = (
    "plugins",
    "modules",
    "enable",
    "disable",
    "on_failure",
    "report_dir",
    "log",
    "options",
    "use_profile",
    "profiling",
    "brake",
    "step",
    "compat",
    "count",
)
_VARIABLES = {f"PATCHCORE_{key.upper()}": key for key in _KEYS if key != "options"}
#: The table of named tables, each of which may have any key but ``use_profile``.
_PROFILES = "profiles"


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


class LocalModule(NamedTuple):
    """A module that implements hooks without being packaged.

    Args:
        name: dotted name.
        directory: where it is imported from before all other places, ``None`` for wherever ``sys.path`` has it.
    """

    name: str
    directory: Optional[str] = None


@dataclass(frozen=True)
class Settings:
    """What a user decided, from every source.

    Args:
        plugins: names of the plugins to load, ``None`` for all that are installed.
        modules: local modules that are plugins, from every source, weakest first.
        choices: what was enabled and disabled, weakest source first.
        on_failure: ``warn``, ``raise`` or ``ignore``.
        report_dir: where each process writes its report, ``None`` for nowhere.
        log: level of the ``patchcore`` logger, ``None`` to leave it alone.
        options: per patch name, values that override the patch's own options.
        use_profile: the table of ``[tool.patchcore.profiles]`` that lies over ``[tool.patchcore]``, ``None`` for none.
        profiling: which training steps to record, as :class:`patchcore.builtin.training.options.ProfilingOptions` has it.
        brake: the training step after which the program ends; ``"auto"`` for when profiling is complete.
        step: targets of the functions each call of which is a training step; empty for those that are known.
        compat: the names of the interfaces of other patchers that programs find, see the hook ``register_compat``.
            Those programs apply patches themselves: without further choices none are applied before.
        count: whether the calls of patched targets are counted.
        origins: for each field that is not a default, which source decided it.
    """

    plugins: Optional[tuple[str, ...]] = None
    modules: tuple[LocalModule, ...] = ()
    choices: tuple[Choice, ...] = ()
    on_failure: str = "warn"
    report_dir: Optional[str] = None
    log: Optional[str] = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    use_profile: Optional[str] = None
    profiling: Optional[Mapping[str, Any]] = None
    brake: Union[int, str, None] = None
    step: tuple[str, ...] = ()
    compat: tuple[str, ...] = ()
    count: bool = False
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
            start: directory from which pyproject.toml is looked for upwards, before it is from the current one.

        Raises:
            SettingsError: unreadable file, unknown key or profile (with the nearest one) or impossible value, saying
                where.
        """
        environ = os.environ if environ is None else environ
        here = _current_directory()
        given = {key: value for key, value in (arguments or {}).items() if value is not None}
        sources = [_Source(v, {k: environ[v]}, _ENVIRONMENT, here) for v, k in _VARIABLES.items() if v in environ]
        sources.append(_Source(origin, given, _ARGUMENTS, here))
        profile = _last(sources, "use_profile")
        found = next(filter(None, map(_find_table, (start, here))), None)
        if found is None and profile:
            raise SettingsError(
                f"there is no profile {profile!r}: no pyproject.toml at or above {start or here} has [tool.patchcore]"
            )
        tables = [] if found is None else _with_profile(*found, profile)
        return check_training(_merge([*tables, *sources]))

    @classmethod
    def of(cls, given: Mapping[str, Any], *, origin: str) -> Settings:
        """Return the settings that a program gives by key; relative paths are relative to the current directory.

        Args:
            given: values as in ``[tool.patchcore]``.
            origin: what to call the program in errors.

        Raises:
            SettingsError: see :meth:`load`.
        """
        return _merge([_Source(origin, given, _ARGUMENTS, _current_directory())])

    @classmethod
    def from_dict(cls, view: Mapping[str, Any]) -> Settings:
        """Return the settings that ``dataclasses.asdict`` described, whatever JSON has made of its tuples.

        Raises:
            TypeError, KeyError, ValueError: these are no settings.
        """
        plugins = view["plugins"]
        return cls(
            **{
                **view,
                "plugins": None if plugins is None else tuple(plugins),
                "modules": tuple(LocalModule(*module) for module in view["modules"]),
                "choices": tuple(Choice(*choice) for choice in view["choices"]),
                "step": tuple(view["step"]),
                "compat": tuple(view["compat"]),
            }
        )


def check_training(settings: Settings) -> Settings:
    """Return ``settings`` if profiling and brake fit together.

    Raises:
        SettingsError: the brake would end the program before anything is recorded, or never.
    """
    if settings.brake is not None:
        from patchcore.builtin.training.options import ProfilingOptions, brake_step

        profiling = settings.profiling
        brake_step(settings.brake, None if profiling is None else ProfilingOptions.of(profiling))
    return settings


class _Source(NamedTuple):
    origin: str
    given: Mapping[str, Any]
    strength: int
    directory: Optional[Path]  # what relative paths in it are relative to


_PYPROJECT, _PROFILE, _ENVIRONMENT, _ARGUMENTS = range(4)


def _current_directory() -> Optional[Path]:
    try:
        return Path.cwd()
    except OSError:  # it was deleted
        return None


def _last(sources: Sequence[_Source], key: str) -> Any:
    return next((source.given[key] for source in reversed(sources) if key in source.given), None)


def _with_profile(path: Path, table: Mapping[str, Any], chosen: Any) -> list[_Source]:
    """Return the table of a pyproject.toml, and over it the profile that is chosen, there or by a stronger source."""
    where = f"{path} [tool.patchcore]"
    profiles = table.get(_PROFILES, {})
    if not isinstance(profiles, Mapping) or not all(isinstance(profile, Mapping) for profile in profiles.values()):
        raise SettingsError(f"{where}: profiles = {profiles!r}; expected tables, [tool.patchcore.profiles.NAME]")
    base = {key: value for key, value in table.items() if key != _PROFILES}
    sources = [_Source(where, base, _PYPROJECT, path.parent)]
    name = _text(base.get("use_profile", "") if chosen is None else chosen, f"{where}: use_profile", None)
    if name is None:
        return sources
    if name not in profiles:
        known = ", ".join(profiles) or "none"
        raise SettingsError(f"{path} has no profile {name!r} (it has: {known}){did_you_mean(name, profiles)}")
    origin = f"{path} [tool.patchcore.profiles.{name}]"
    if "use_profile" in profiles[name]:
        raise SettingsError(f"{origin}: use_profile cannot be set in a profile")
    return [*sources, _Source(origin, profiles[name], _PROFILE, path.parent)]


def _find_table(start: Optional[Path]) -> Optional[tuple[Path, Mapping[str, Any]]]:
    """Return the nearest pyproject.toml at or above ``start`` that has a ``[tool.patchcore]`` table, and the table."""
    if start is None:
        return None
    nearest = start.absolute()
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
    except (OSError, ValueError, RecursionError) as error:  # the last of a thousand lists in each other
        raise SettingsError(f"{path} cannot be read: {error}") from error
    table = tool.get("patchcore") if isinstance(tool, Mapping) else None
    if table is not None and not isinstance(table, Mapping):
        raise SettingsError(f"{path}: tool.patchcore = {table!r}; expected a table, [tool.patchcore]")
    return table


def _merge(sources: Sequence[_Source]) -> Settings:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    choices: list[Choice] = []
    modules: dict[str, LocalModule] = {}
    for source in sources:
        for key, value in source.given.items():
            if key not in _KEYS:
                raise SettingsError(f"{source.origin}: unknown setting {key!r}{did_you_mean(key, _KEYS)}")
            checked: Any = _CHECKS[key](value, f"{source.origin}: {key}", source.directory)
            origin = _spelled(source.origin, key)
            if key in ("enable", "disable"):
                choices += (Choice(key == "enable", name, origin, source.strength) for name in checked)
            elif key == "modules":
                modules.update((module.name, module) for module in checked)
                origins[key] = origin
            else:
                values[key], origins[key] = checked, origin
    if values.get("compat"):  # whatever is chosen is stronger
        choices.insert(0, Choice(False, "*", f"{origins['compat']} {','.join(values['compat'])}", -1))
    return Settings(choices=tuple(choices), modules=tuple(modules.values()), origins=origins, **values)


def _spelled(origin: str, key: str) -> str:
    return _OPTIONS.get(key, f"--{key}") if origin == "command line" else origin


def _names(value: Any, where: str, directory: Optional[Path]) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise SettingsError(f"{where} = {value!r}; expected a list of names")
    return tuple(value)


def _modules(value: Any, where: str, directory: Optional[Path]) -> tuple[LocalModule, ...]:
    names = _names(value, where, directory)
    for name in names:
        if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
            path = name[:-3] if name.endswith(".py") else name
            dotted = ".".join(part for part in path.replace(os.sep, "/").split("/") if part not in ("", ".", ".."))
            hint = f", such as {dotted!r}" if all(part.isidentifier() for part in dotted.split(".")) else ""
            raise SettingsError(f"{where} = {value!r}; expected the dotted name of a module{hint}, found {name!r}")
    return tuple(LocalModule(name, None if directory is None else str(directory)) for name in names)


def _policy(value: Any, where: str, directory: Optional[Path]) -> str:
    if value not in POLICIES:
        raise SettingsError(
            f"{where} = {value!r}; expected one of {', '.join(POLICIES)}{did_you_mean(str(value), POLICIES)}"
        )
    return str(value)


def _path(value: Any, where: str, directory: Optional[Path]) -> Optional[str]:
    text = _text(value, where, directory)
    return text if text is None or directory is None else os.path.join(directory, text)


def _text(value: Any, where: str, directory: Optional[Path]) -> Optional[str]:
    if not isinstance(value, (str, os.PathLike)):
        raise SettingsError(f"{where} = {value!r}; expected text")
    return os.fsdecode(value) or None


def _switch(value: Any, where: str, directory: Optional[Path]) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() not in _SWITCHES:
        raise SettingsError(f"{where} = {value!r}; expected true or false")
    return _SWITCHES[str(value).strip().lower()]


def _level(value: Any, where: str, directory: Optional[Path]) -> Optional[str]:
    levels = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    if not isinstance(value, str) or value.upper() not in levels:
        raise SettingsError(
            f"{where} = {value!r}; expected one of {', '.join(levels)}{did_you_mean(str(value), levels)}"
        )
    return value.upper()


def _options(value: Any, where: str, directory: Optional[Path]) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping) or not all(isinstance(table, Mapping) for table in value.values()):
        raise SettingsError(
            f'{where} = {value!r}; expected a table per patch, [tool.patchcore.options."library.patch"]'
        )
    return {name: dict(table) for name, table in value.items()}


def _profiling(value: Any, where: str, directory: Optional[Path]) -> Optional[Mapping[str, Any]]:
    """A table, or the path alone; an empty path for none."""
    from patchcore.builtin.training.options import ProfilingOptions  # for those who profile

    table = dict(value) if isinstance(value, Mapping) else {"path": value}
    if "path" in table:
        table["path"] = _path(table["path"], f"{where}.path", directory)
        if table["path"] is None:
            return None
    return ProfilingOptions.of(table).to_dict()


def _brake(value: Any, where: str, directory: Optional[Path]) -> Union[int, str, None]:
    from patchcore.builtin.training.options import check_brake

    return None if value == "" else check_brake(value)


def _steps(value: Any, where: str, directory: Optional[Path]) -> tuple[str, ...]:
    from patchcore.builtin.training.loops import user_loop

    names = _names(value, where, directory)
    for name in names:
        try:
            user_loop(name)
        except DeclarationError as error:
            raise SettingsError(f"{where}: {error}") from error
    return names


#: What an environment variable may say.
_SWITCHES = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("", "0", "false", "no", "off"), False)}

_CHECKS = {
    "plugins": _names,
    "modules": _modules,
    "enable": _names,
    "disable": _names,
    "on_failure": _policy,
    "report_dir": _path,
    "log": _level,
    "options": _options,
    "use_profile": _text,
    "profiling": _profiling,
    "brake": _brake,
    "step": _steps,
    "compat": _names,
    "count": _switch,
}
