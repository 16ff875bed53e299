"""Finds the module that defines a name which a package provides lazily (PEP 562), without running the package's code.

Packages whose ``__getattr__`` imports a submodule when a name is used keep a table of names and modules: an attribute
``_import_structure`` or ``_class_to_module``, a dictionary in the closure of ``__getattr__``, as ``lazy_loader`` makes
it, or any other dictionary beside ``__getattr__``.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any, Optional

from patchcore.objects.modules import ABSENT, closed_over, find_module, mro_lookup, namespace_of

__all__ = ["has_getattr", "lazy_home", "lazy_import"]

#: How deep dictionaries may lie in each other: some packages have one for each set of optional libraries.
_DEEPEST = 2

_CONTAINERS = (list, tuple, set, frozenset)


def has_getattr(module: Any) -> bool:
    """Return true for a module that may provide names which are not in its namespace."""
    if not issubclass(type(module), ModuleType):
        return False
    return "__getattr__" in (namespace_of(module) or {}) or mro_lookup(type(module), "__getattr__") is not ABSENT


def lazy_home(package: str, module: Any, name: str) -> Optional[str]:
    """Return the module that a package imports to provide ``name``; ``None`` if no table of the package has it.

    Args:
        package: its name.
        module: the package, whose body has run.
        name: is not in its namespace yet.
    """
    if not has_getattr(module):
        return None
    for table in _tables(module):
        for found in _homes(table, name, _DEEPEST):
            home = f"{package}.{found.lstrip('.')}" if not found.startswith(f"{package}.") else found
            if find_module(home):
                return home
    return None


def lazy_import(package: str, module: Any) -> Optional[str]:
    """Return the module that ``__getattr__`` of a package imports; ``None`` if its code names none, or several.

    It may be the one that defines a name that no table has.

    Args:
        package: its name.
        module: the package.
    """
    function = (namespace_of(module) or {}).get("__getattr__")
    if type(function) is not FunctionType:
        return None
    code = function.__code__
    names = {name.lstrip(".") for name in (*code.co_names, *code.co_consts) if type(name) is str}
    names = {name for name in names if all(map(str.isidentifier, name.split(".")))}
    inside = {name if name.startswith(f"{package}.") else f"{package}.{name}" for name in names}
    found = [name for name in sorted(inside) if find_module(name)]
    return found[0] if len(found) == 1 else None


def _tables(module: Any) -> Iterator[dict[Any, Any]]:
    """Yield the dictionaries in the namespace of a module, and those in the closure of its ``__getattr__``."""
    space = namespace_of(module) or {}
    function = space.get("__getattr__")
    closed = closed_over(function) if type(function) is FunctionType else ()
    for value in (*closed, *list(space.values())):
        if type(value) is dict:
            yield value


def _homes(table: dict[Any, Any], name: str, depth: int) -> Iterator[str]:
    """Yield the modules that a table of names and modules has for ``name``, as it writes them."""
    for key, value in list(table.items()):
        if type(key) is str and key == name:
            where = value[0] if type(value) in (list, tuple) and value else value
            if type(where) is str:
                yield where.partition(":")[0]
        elif type(key) is str and type(value) in _CONTAINERS:
            if any(type(each) is str and each == name for each in value):
                yield key
        elif type(value) is dict and depth:
            yield from _homes(value, name, depth - 1)
