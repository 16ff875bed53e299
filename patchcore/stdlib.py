"""Gives functions of patchcore the modules of the standard library that they import when they are called.

A patch may make ``json.dumps`` return bytes. patchcore writes its reports with the same function, and must not run the
patch. The built-in plugin ``stdlib`` therefore gives patchcore's modules private copies of the standard library while
such a patch is in force. It replaces the modules that are imported at the top of a module of patchcore. A function that
imports later has to import from here::

    from patchcore.stdlib import json
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Optional

if TYPE_CHECKING:  # by the names that functions import; the others are in LATER
    import difflib as difflib
    import graphlib as graphlib
    import heapq as heapq
    import inspect as inspect
    import json as json
    import logging as logging
    import pathlib as pathlib
    import pkgutil as pkgutil
    import textwrap as textwrap
    import traceback as traceback
    from importlib import metadata as metadata

__all__ = ["LATER", "OWN", "add_own", "loaded", "take_from"]

#: The modules that functions of patchcore import when they are called, by the name that the functions use.
_NAMES = ("difflib", "graphlib", "heapq", "inspect", "json", "logging", "pathlib", "pkgutil", "textwrap", "traceback")
LATER = {"metadata": "importlib.metadata", **dict(zip(_NAMES, _NAMES))}

#: The packages of patchcore: names bound by value in their modules never follow a patch. See :func:`add_own`.
OWN = {"patchcore", "patchcore_startup"}

_take: Callable[[str], ModuleType] = import_module


def add_own(package: str) -> None:
    """Keep the modules of a top-level package from running patches of the standard library, like patchcore's own.

    A plugin that works while the patches it has applied are in force calls this for its package.

    Examples:
        >>> from patchcore.plugin import add_own
        >>> add_own("shop_npu_patches")
    """
    OWN.add(package)


def take_from(function: Callable[[str], ModuleType]) -> None:
    """Get modules by calling ``function`` with their names from now on, instead of importing them."""
    global _take
    _take = function


def loaded(name: str) -> Optional[ModuleType]:
    """Return the module ``name`` that patchcore uses, maybe its private copy; ``None`` if it is not imported."""
    return _take(name) if name in sys.modules else None


def __getattr__(name: str) -> ModuleType:
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _take(LATER[name])
