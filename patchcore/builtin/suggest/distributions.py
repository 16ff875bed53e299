"""The distributions of this project: what each of them brings, and for which imports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Optional

from patchcore.objects.modules import find_module
from patchcore.planning.distributions import version_of

__all__ = ["Distribution", "describe_source", "known_distributions"]

#: The commands that plugins add options to.
_WITH_OPTIONS = ("run", "verify")


class Distribution(NamedTuple):
    """A distribution of this project with a plugin.

    Args:
        name: for pip.
        plugin: the name of its entry point.
        brings: what it is good for, in a few words.
        imports: the modules whose import in a program makes it useful.
        versions: the oldest and newest versions of libraries that any of its patches is for, as specifiers.
        commands, options: those that it adds; the options are for ``run`` and ``verify``.
        without: the module in whose place it comes: it is not suggested where that can be imported.
    """

    name: str
    plugin: str
    brings: str
    imports: tuple[str, ...] = ()
    versions: Mapping[str, str] = MappingProxyType({})
    commands: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    without: str = ""

    @property
    def version(self) -> Optional[str]:
        """The installed version, ``None`` if it is not installed."""
        return version_of(self.name)

    def matching(self, imports: Iterable[str]) -> list[str]:
        """Return those of its imports that are among ``imports``, or have modules there."""
        names = [f"{name}." for name in imports]
        return [own for own in self.imports if any(name.startswith(f"{own}.") for name in names)]

    @property
    def has_room(self) -> bool:
        """False where the module is there that it takes the place of."""
        return not (self.without and find_module(self.without))


def known_distributions() -> list[Distribution]:
    """Return the distributions, read from the file beside this module."""
    text = Path(__file__).with_name("distributions.json").read_text(encoding="utf-8")
    return [Distribution(name, **described) for name, described in json.loads(text).items()]


def describe_source(name: str, command: str) -> Optional[str]:
    """Return which distribution brings a command or an option, and how to get it; ``None`` for an unknown name.

    Args:
        name: of the command, or the option with its dashes.
        command: the command that the option was given to, empty if ``name`` is that of a command.
    """
    for distribution in known_distributions():
        if name in (distribution.options if command in _WITH_OPTIONS else () if command else distribution.commands):
            found = distribution.version
            if found is None:
                return f"it comes with {distribution.name}: python -m pip install {distribution.name}"
            return (
                f"it comes with {distribution.name} {found}, which is installed, but its plugin "
                f"{distribution.plugin} is not loaded (see --plugin, PATCHCORE_PLUGINS, patchcore doctor)"
            )
    return None
