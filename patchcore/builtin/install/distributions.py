"""The distributions of this project: their commands, options and patches, and the modules that they are for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Optional

from patchcore.objects.modules import find_module
from patchcore.planning.distributions import version_of

__all__ = ["CORE", "Distribution", "Module", "known_distributions", "known_modules"]

#: The distribution that this file is in.
CORE = "patchcore"


class Distribution(NamedTuple):
    """A distribution of this project with a plugin.

    Args:
        name: for pip.
        folder: where a checkout has it.
        plugin: the name of its entry point.
        brings: its purpose, in a few words.
        imports: the modules whose import in a program makes it useful.
        versions: the oldest and newest versions of libraries that any of its patches is for, as specifiers.
        commands, options: those that it adds; the options are for ``run`` and ``verify``.
        without: the module that it stands in for: it is not suggested if that can be imported.
        needs: the distributions of this project that it needs besides the core.
        uses: the libraries without which it has no use: requirements for pip, by module.
        compat: the name that ``patchcore run --compat`` has for it; empty for none.
        gives: the modules that programs can import under an option of ``patchcore run``, each with the option.
    """

    name: str
    folder: str
    plugin: str
    brings: str
    imports: tuple[str, ...] = ()
    versions: Mapping[str, str] = MappingProxyType({})
    commands: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    without: str = ""
    needs: tuple[str, ...] = ()
    uses: Mapping[str, str] = MappingProxyType({})
    compat: str = ""
    gives: Mapping[str, str] = MappingProxyType({})

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


class Module(NamedTuple):
    """A module of a library that distributions of this project are for.

    Args:
        name: for ``import``.
        install: the requirements of each ``pip install`` that it takes, one after the other.
        programs: that come with it.
        note: how else it is installed.
        compiles: the library that is compiled then, with a C++ compiler; empty if nothing is.
    """

    name: str
    install: tuple[tuple[str, ...], ...] = ()
    programs: tuple[str, ...] = ()
    note: str = ""
    compiles: str = ""


def known_distributions() -> list[Distribution]:
    """Return the distributions, read from the file beside this module."""
    return [Distribution(name, **described) for name, described in _file()["distributions"].items()]


def known_modules() -> list[Module]:
    """Return the modules, read from the file beside this module."""
    return [Module(name, **described) for name, described in _file()["modules"].items()]


@cache
def _file() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(__file__).with_name("distributions.json").read_text(encoding="utf-8"))
    return content
