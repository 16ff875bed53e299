"""Modules of the standard library that functions of patchcore import when they are called.

A patch may make ``json.dumps`` return bytes. patchcore writes its reports with the same function, and must not run the
patch: the built-in plugin ``stdlib`` gives patchcore's modules copies of their own then. It finds what is imported at
the top of a module; a function that imports later takes the module from here::

    from patchcore.stdlib import json
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Optional

if TYPE_CHECKING:  # by the names that functions import; the others are in LATER
    import difflib as difflib
    import inspect as inspect
    import json as json
    import logging as logging
    import pkgutil as pkgutil
    import textwrap as textwrap
    import traceback as traceback
    from importlib import metadata as metadata

__all__ = ["LATER", "OWN", "add_own", "loaded", "take_from"]

#: Imported by functions of patchcore when they are called, by the names that these use.
LATER = {
    "difflib": "difflib",
    "inspect": "inspect",
    "json": "json",
    "logging": "logging",
    "metadata": "importlib.metadata",
    "pkgutil": "pkgutil",
    "textwrap": "textwrap",
    "traceback": "traceback",
}

#: The packages of patchcore: names bound by value in their modules never follow a patch. See :func:`add_own`.
OWN = {"patchcore", "patchcore_startup"}

_take: Callable[[str], ModuleType] = import_module


def add_own(package: str) -> None:
    """Treat a top-level package as one of patchcore's own: its modules never run a patch of the standard library.

    For a plugin that applies patches itself, and works while they are in force.
    """
    OWN.add(package)


def take_from(function: Callable[[str], ModuleType]) -> None:
    """Take modules from ``function``, called with their names, instead of importing them."""
    global _take
    _take = function


def loaded(name: str) -> Optional[ModuleType]:
    """Return module ``name`` of the standard library as patchcore is to use it, ``None`` if nobody has imported it."""
    return _take(name) if name in sys.modules else None


def __getattr__(name: str) -> ModuleType:
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _take(LATER[name])
