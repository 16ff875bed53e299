"""Reads settings: command line > environment > ``[tool.patchcore]`` in pyproject.toml > default.

Each value keeps its origin, so that errors and ``patchcore doctor`` can name the source.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from patchcore.errors import SettingsError, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from patchcore.declare.patch import Patch

__all__ = ["POLICIES", "Choice", "LocalModule", "Setting", "Settings", "check_names", "check_path", "check_text"]

#: The policies for a patch that fails: log it and go on, undo everything and raise, or go on silently.
POLICIES = ("warn", "raise", "ignore")

#: The key of the table of variants. A variant may have any key but ``variant``.
_VARIANTS = "variants"


class Choice(NamedTuple):
    """One name that a user enabled or disabled.

    Args:
        enable: whether it was enabled.
        name: a patch, legacy name, target or plugin, or ``*``.
        origin: the source of the choice, for messages.
        strength: of the source. A choice of a stronger source wins over one of a weaker source. ``None`` is as strong
            as the strongest of the other choices.

    Examples:
        >>> import patchcore as pc
        >>> from patchcore.plugin import Choice
        >>> def disable_all(value, origin):
        ...     return [Choice(False, "*", origin)] if value else []
        >>> fewer = pc.Setting("shop_off", lambda value, where, folder: value, choices=disable_all)
        >>> fewer.choices(True, "the command line")[0].name
        '*'
    """

    enable: bool
    name: str
    origin: str
    strength: Optional[int] = 0


class LocalModule(NamedTuple):
    """A module that implements hooks without being packaged.

    Args:
        name: dotted name.
        directory: the folder that is searched first for it, ``None`` to search ``sys.path`` only.
    """

    name: str
    directory: Optional[str] = None


class Setting(NamedTuple):
    """A setting of a plugin: a key of ``[tool.patchcore]`` and an environment variable ``PATCHCORE_<KEY>``.

    Args:
        key: its name, ``"report_dir"``.
        check: called with a value, the words that name its source in errors, and the folder that relative paths are
            relative to (``None`` for none). Returns the value to use, or raises :class:`~patchcore.SettingsError`. The
            value must survive JSON, because each process of a run gets it.
        default: the value if no source sets it.
        option: how the command line spells it, ``"--report-dir"``; by default ``--`` and the key.
        choices: called with a checked value and its origin. Returns the choices that the value implies.
        agree: called with the values of all settings of plugins, by key. Raises :class:`~patchcore.SettingsError` if
            this setting contradicts another one.
        affects_patches: true if the value changes which edits patches make. A lock file then has it, and
            ``patchcore run --locked`` refuses another value.

    Examples:
        >>> import patchcore as pc
        >>> def positive(value, where, folder):
        ...     if int(value) < 1:
        ...         raise pc.SettingsError(f"{where}: must be at least 1, got {value!r}")
        ...     return int(value)
        >>> pc.Setting("shop_prices", positive, default=10).key
        'shop_prices'
    """

    key: str
    check: Callable[[Any, str, Optional[Path]], Any]
    default: Any = None
    option: Optional[str] = None
    choices: Optional[Callable[[Any, str], Iterable[Choice]]] = None
    agree: Optional[Callable[[Mapping[str, Any]], None]] = None
    affects_patches: bool = False


class Given(NamedTuple):
    """An unchecked value for a setting of a plugin; :meth:`Settings.complete` checks it once plugins are loaded.

    Args:
        key, value: the setting and its value.
        source: the words that name the source in errors.
        directory: the folder that relative paths are relative to.
    """

    key: str
    value: Any
    source: str
    directory: Optional[Path]


class Settings(NamedTuple):
    """The settings of a user, merged from every source.

    :meth:`get` returns any setting; those of plugins are in :attr:`values`.

    Args:
        plugins: names of the plugins to load, ``None`` for all that are installed. ``no:NAME`` leaves one out, a
            built-in one (``no:patchcore.report``) or an installed one.
        modules: local modules that are plugins, from every source, weakest first.
        choices: the names that were enabled and disabled, weakest source first.
        on_failure: ``warn``, ``raise`` or ``ignore``.
        options: per name or legacy name of a patch, values that override the patch's own options.
        variant: the table of ``[tool.patchcore.variants]`` that is applied on top of ``[tool.patchcore]``, ``None``
            for none.
        count: whether the calls of patched targets are counted.
        library_versions: by package, the version that it counts as: that of a development build says little.
        values: the settings of plugins, by key.
        origins: the source of each setting that is not a default.
        given: values of settings of plugins that are not checked yet.

    Examples:
        >>> import patchcore as pc
        >>> settings = pc.Settings.load(arguments={"on_failure": "raise"}, origin="this script")
        >>> settings.on_failure
        'raise'
    """

    plugins: Optional[tuple[str, ...]] = None
    modules: tuple[LocalModule, ...] = ()
    choices: tuple[Choice, ...] = ()
    on_failure: str = "warn"
    options: Mapping[str, Mapping[str, Any]] = {}
    variant: Optional[str] = None
    count: bool = False  # type: ignore[assignment]
    library_versions: Mapping[str, str] = {}
    values: Mapping[str, Any] = {}
    origins: Mapping[str, str] = {}
    given: tuple[Given, ...] = ()

    @classmethod
    def load(
        cls,
        *,
        arguments: Optional[Mapping[str, Any]] = None,
        origin: str = "argument",
        environ: Optional[Mapping[str, str]] = None,
        start: Optional[Path] = None,
    ) -> Settings:
        """Read every source; the value of a stronger source wins.

        Keys that the core does not know are kept until the plugins are loaded, see :meth:`complete`.

        Args:
            arguments: the strongest source, by key; ``None`` values count as not given.
            origin: the words that name that source in errors, such as ``"command line"``.
            environ: environment variables, ``os.environ`` by default.
            start: the folder at or above which pyproject.toml is looked for first; after that, the current folder.

        Raises:
            SettingsError: a file cannot be read, a variant is unknown, or a value is impossible, with the place.
        """
        environ = os.environ if environ is None else environ
        here = _current_directory()
        given = {key: value for key, value in (arguments or {}).items() if value is not None}
        own = [f"{_PREFIX}{key.upper()}" for key in KEYS]
        others = sorted(variable for variable in environ if variable.startswith(_PREFIX) and variable not in own)
        sources = [
            _Source(variable, {variable[len(_PREFIX) :].lower(): environ[variable]}, _ENVIRONMENT, here)
            for variable in (*own, *others)
            if variable in environ and variable not in OTHER_VARIABLES
        ]
        sources.append(_Source(origin, given, _ARGUMENTS, here))
        variant = next((source.given["variant"] for source in reversed(sources) if "variant" in source.given), None)
        found = next(filter(None, map(find_table, (start, here))), None)
        if found is None and variant:
            raise SettingsError(
                f"there is no variant {variant!r}: no pyproject.toml at or above {start or here} has [tool.patchcore]"
            )
        tables = [] if found is None else _with_variant(*found, variant)
        return _merge([*tables, *sources])

    @classmethod
    def of(cls, given: Mapping[str, Any], *, origin: str) -> Settings:
        """Return settings with the given values and no other source.

        Args:
            given: values as in ``[tool.patchcore]``. Relative paths are relative to the current folder.
            origin: the words that name the source in errors.

        Raises:
            SettingsError: see :meth:`load`.
        """
        return _merge([_Source(origin, given, _ARGUMENTS, _current_directory())])

    def with_given(self, given: Mapping[str, Any], *, origin: str) -> Settings:
        """Return these settings with further values for settings of plugins, which :meth:`complete` checks.

        Args:
            given: values as in ``[tool.patchcore]``.
            origin: the words that name their source in errors.
        """
        here = _current_directory()
        return self._replace(given=(*self.given, *(Given(key, value, origin, here) for key, value in given.items())))

    def with_values(self, **values: Any) -> Settings:
        """Return these settings with values for settings of plugins that need no check."""
        return self._replace(values={**self.values, **values})

    def complete(self, settings: Iterable[Setting]) -> Settings:
        """Return these settings with the values for settings of plugins checked.

        Args:
            settings: the settings that the loaded plugins have.

        Raises:
            SettingsError: a key is unknown, or a value is impossible; the message has the source and the nearest key.
        """
        known = {setting.key: setting for setting in settings}
        values = {key: setting.default for key, setting in known.items()}
        values.update((key, value) for key, value in self.values.items() if key in known)
        origins, implied = dict(self.origins), dict[str, tuple[Choice, ...]]()
        for key, value, source, directory in self.given:
            setting = known.get(key)
            if setting is None:
                if source.startswith(_PREFIX):
                    continue  # another program's, or of a plugin that is not loaded
                raise SettingsError(f"{source}: unknown setting {key!r}{did_you_mean(key, (*KEYS, *known))}")
            values[key] = setting.check(value, f"{source}: {key}", directory)
            origins[key] = _spelled(source, key, setting.option)
            if setting.choices is not None:
                implied[key] = tuple(setting.choices(values[key], origins[key]))
        for setting in known.values():
            if setting.agree is not None:
                setting.agree(values)
        choices = (*(choice for found in implied.values() for choice in found), *self.choices)
        return self._replace(values=values, origins=origins, choices=choices, given=())

    def options_of(self, patch: Patch) -> dict[str, Any]:
        """Return the options that are set for a patch under its name and, where that lacks them, its legacy names."""
        tables = (self.options.get(name, {}) for name in (*reversed(patch.legacy_names), patch.name))
        return {key: value for table in tables for key, value in table.items()}

    def get(self, key: str) -> Any:
        """Return the value of a setting, by key; ``None`` for one of a plugin that is not loaded."""
        return getattr(self, key) if key in KEYS else self.values.get(key)


class _Source(NamedTuple):
    origin: str
    given: Mapping[str, Any]
    strength: int
    directory: Optional[Path]  # the base of relative paths in it


_PYPROJECT, _VARIANT, _ENVIRONMENT, _ARGUMENTS = range(4)

_PREFIX = "PATCHCORE_"
#: Environment variables that are no settings.
OTHER_VARIABLES = ("PATCHCORE_OPTIONS", "PATCHCORE_SESSION", "PATCHCORE_CACHE")


def _current_directory() -> Optional[Path]:
    from patchcore.stdlib import pathlib  # the Patchers of a program may have settings without it

    try:
        return pathlib.Path.cwd()
    except OSError:  # it was deleted
        return None


def _with_variant(path: Path, table: Mapping[str, Any], chosen: Any) -> list[_Source]:
    """Return the sources in a pyproject.toml: its table, and the chosen variant, which is the stronger one."""
    where = f"{path} [tool.patchcore]"
    variants = table.get(_VARIANTS, {})
    if not isinstance(variants, Mapping) or not all(isinstance(variant, Mapping) for variant in variants.values()):
        raise SettingsError(f"{where}: variants = {variants!r}; expected tables, [tool.patchcore.variants.NAME]")
    base = {key: value for key, value in table.items() if key != _VARIANTS}
    sources = [_Source(where, base, _PYPROJECT, path.parent)]
    name = check_text(base.get("variant", "") if chosen is None else chosen, f"{where}: variant", None)
    if name is None:
        return sources
    if name not in variants:
        known = ", ".join(variants) or "none"
        raise SettingsError(f"{path} has no variant {name!r} (it has: {known}){did_you_mean(name, variants)}")
    origin = f"{path} [tool.patchcore.variants.{name}]"
    if "variant" in variants[name]:
        raise SettingsError(f"{origin}: variant cannot be set in a variant")
    return [*sources, _Source(origin, variants[name], _VARIANT, path.parent)]


def find_table(start: Optional[Path]) -> Optional[tuple[Path, Mapping[str, Any]]]:
    """Return the nearest pyproject.toml at or above ``start`` that has a ``[tool.patchcore]`` table, and the table."""
    if start is None:
        return None
    nearest = start.absolute()
    for folder in (nearest, *nearest.parents):
        path = folder / "pyproject.toml"
        if os.path.isfile(path):  # Path.is_file raises where a parent may not be entered
            table = read_table(path)
            if table is not None:
                return path, table
    return None


def read_table(path: Path) -> Optional[Mapping[str, Any]]:
    """Return the table ``[tool.patchcore]`` of a pyproject.toml, ``None`` where there is none."""
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
    given: list[Given] = []
    for source in sources:
        for key, value in source.given.items():
            if key not in KEYS:
                given.append(Given(key, value, source.origin, source.directory))
                continue
            checked: Any = KEYS[key](value, f"{source.origin}: {key}", source.directory)
            origin = _spelled(source.origin, key, _OPTIONS.get(key))
            if key in ("enable", "disable"):
                choices += (Choice(key == "enable", name, origin, source.strength) for name in checked)
            elif key == "modules":
                modules.update((module.name, module) for module in checked)
                origins[key] = origin
            else:
                values[key], origins[key] = checked, origin
    values.update(choices=tuple(choices), modules=tuple(modules.values()), given=tuple(given))
    return Settings(origins=origins, **values)


def _spelled(origin: str, key: str, option: Optional[str]) -> str:
    return (option or f"--{key.replace('_', '-')}") if origin == "command line" else origin


def check_names(value: Any, where: str, directory: Optional[Path]) -> tuple[str, ...]:
    """Return the names in a list, or in a text with commas: a ``check`` of :class:`Setting`.

    Examples:
        >>> from patchcore.plugin import check_names
        >>> check_names("till, price", "SHOP_NAMES", None)
        ('till', 'price')
    """
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise SettingsError(f"{where} = {value!r}; expected a list of names")
    return tuple(value)


def _modules(value: Any, where: str, directory: Optional[Path]) -> tuple[LocalModule, ...]:
    names = check_names(value, where, directory)
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


def check_path(value: Any, where: str, directory: Optional[Path]) -> Optional[str]:
    """Return a path, relative to the folder of its source: a ``check`` of :class:`Setting`.

    Examples:
        >>> from pathlib import Path
        >>> from patchcore.plugin import check_path
        >>> Path(check_path("prices", "SHOP_FOLDER", Path("/srv"))).name
        'prices'
    """
    text = check_text(value, where, directory)
    return text if text is None or directory is None else os.path.join(directory, text)


def check_text(value: Any, where: str, directory: Optional[Path]) -> Optional[str]:
    """Return a text, ``None`` for an empty one: a ``check`` of :class:`Setting`."""
    if not isinstance(value, (str, os.PathLike)):
        raise SettingsError(f"{where} = {value!r}; expected a string")
    return os.fsdecode(value) or None


def _switch(value: Any, where: str, directory: Optional[Path]) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() not in _SWITCHES:
        raise SettingsError(f"{where} = {value!r}; expected true or false")
    return _SWITCHES[str(value).strip().lower()]


def _options(value: Any, where: str, directory: Optional[Path]) -> Mapping[str, Mapping[str, Any]]:
    if not isinstance(value, Mapping) or not all(isinstance(table, Mapping) for table in value.values()):
        raise SettingsError(
            f'{where} = {value!r}; expected a table per patch, [tool.patchcore.options."library.patch"]'
        )
    return {name: dict(table) for name, table in value.items()}


def _library_versions(value: Any, where: str, directory: Optional[Path]) -> Mapping[str, str]:
    """Return versions by package; an environment variable has them as ``shop=1.2,till=3``."""
    from packaging.version import InvalidVersion, Version  # for those who set any

    expected = 'expected a table, {shop = "1.2"}, or a text, "shop=1.2"'
    if isinstance(value, str):
        pairs = [entry.partition("=") for entry in value.split(",") if entry.strip()]
        value = {name.strip(): version.strip(" =") if equals else None for name, equals, version in pairs}
    if not isinstance(value, Mapping):
        raise SettingsError(f"{where} = {value!r}; {expected}")
    for package, version in value.items():
        if not isinstance(package, str) or not package.isidentifier() or not isinstance(version, str):
            raise SettingsError(f"{where}: {package} = {version!r}; {expected}, with packages as they are imported")
        try:
            Version(version)
        except InvalidVersion:
            raise SettingsError(f"{where}: {version!r} of {package} is no version (PEP 440)") from None
    return dict(value)


#: The texts that mean true and false in environment variables.
_SWITCHES = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("", "0", "false", "no", "off"), False)}

#: The settings of the core, each with its check.
KEYS = {
    "plugins": check_names,
    "modules": _modules,
    "enable": check_names,
    "disable": check_names,
    "on_failure": _policy,
    "options": _options,
    "variant": check_text,
    "count": _switch,
    "library_versions": _library_versions,
}
_OPTIONS = {"plugins": "--plugin", "modules": "--module", "on_failure": "--strict"}
