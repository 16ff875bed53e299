"""Owners: which distribution a file, a module or an object belongs to.

An owner is a text. The standard library has one owner for each top-level module, ``python:json``, so that one part of
it that patches another is seen. An installed package has its top-level name, ``torch``. Code that is not installed has
the top-level name that an import uses, ``megatron``, or the name of its file. :func:`same_distribution` joins top-level
packages of one distribution (``setuptools`` and ``pkg_resources``).
"""

from __future__ import annotations

import builtins
import functools
import os
import re
import sys
import types
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Optional

from patchcore.objects.binding import wrapped_callable
from patchcore.objects.modules import is_class, namespace_of, qualified_name
from patchcore.planning.distributions import headers
from patchcore.stdlib import metadata

__all__ = [
    "C_CODE",
    "PYTHON",
    "UNKNOWN",
    "describe_owner",
    "file_of_module",
    "inside_of",
    "owner_of",
    "owner_of_file",
    "owner_of_module",
    "replaces_python",
    "same_distribution",
    "version_of_owner",
]

#: The beginning of the owners of the standard library.
PYTHON = "python:"
#: The owner of a C function, or a class made by C code, that does not name its module.
C_CODE = "<C>"
UNKNOWN = "<unknown>"

_STDLIB = os.path.dirname(os.__file__) + os.sep
_INSTALLED = ("site-packages", "dist-packages")
# Python 3.9 has no `sys.stdlib_module_names`; its built-in modules have no file, all others are in `_STDLIB`.
_NAMES: frozenset[str] = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))


@functools.cache
def owner_of_file(file: str) -> str:
    """Return the owner of a source file; ``<string>`` and the like are not known."""
    if file.startswith("<frozen "):
        return PYTHON + _top(file[len("<frozen ") : -1])
    if file.startswith("<"):
        return UNKNOWN
    parts = file.split(os.sep)
    for folder in _INSTALLED:
        if folder in parts[:-1]:
            return _top(parts[len(parts) - parts[::-1].index(folder)])
    if file.startswith(_STDLIB):
        return PYTHON + _top(file[len(_STDLIB) :].replace(f"lib-dynload{os.sep}", "").split(os.sep)[0])
    return _owner_on_path(os.path.abspath(file))


def _owner_on_path(file: str) -> str:
    """Return the owner of a file that is not installed: the top-level package by which it is imported."""
    folder = os.path.dirname(file)
    name = os.path.basename(file)
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
    roots = [root for root in map(os.path.abspath, sys.path) if f"{folder}{os.sep}".startswith(root + os.sep)]
    if roots and folder not in roots:  # a namespace package has no __init__.py
        name = folder[len(max(roots, key=len)) + 1 :].split(os.sep)[0]
    return _top(name)


def _top(name: str) -> str:
    return name.partition(".")[0].strip("_") or name


@functools.cache
def _file_of_module(name: str) -> Optional[str]:
    return file_of_module(name)


def file_of_module(name: str) -> Optional[str]:
    """Return the file of a loaded module, ``None`` if it has none."""
    space = namespace_of(sys.modules.get(name)) or {}
    file = space.get("__file__")
    if file is None and name == "__main__":  # `pymain_run_file` removes the name when the program has ended
        file = getattr(space.get("__loader__"), "path", None)
    return file if isinstance(file, str) else None


@functools.cache
def owner_of_module(name: str) -> str:
    """Return the owner of module ``name``, which is loaded or was."""
    top = name.partition(".")[0]
    if name in sys.builtin_module_names or (top in _NAMES and _file_of_module(name) is None):
        return PYTHON + _top(top)
    file = _file_of_module(name) or _file_of_module(top)
    return owner_of_file(file) if file is not None else _top(top)


def replaces_python(name: str, module: Any) -> bool:
    """True if ``module`` has the name of a module of the standard library and the file of another distribution."""
    file = (namespace_of(module) or {}).get("__file__") if issubclass(type(module), ModuleType) else None
    if not isinstance(file, str) or "." in name or owner_of_file(file).startswith(PYTHON):
        return False
    places = (f"{_STDLIB}{name}", f"{_STDLIB}{name}.py")
    return name in _NAMES or any(map(os.path.exists, places))  # Python 3.9 has no list of the names


def owner_of(value: Any) -> str:
    """Return the owner of the definition of ``value``, an object in a namespace. No code of its own runs."""
    value = inside_of(value)
    kind = type(value)
    if kind is FunctionType:
        return _of_code(value.__code__, value.__globals__)
    if issubclass(kind, ModuleType):
        name = (namespace_of(value) or {}).get("__name__")
        return owner_of_module(name) if isinstance(name, str) else UNKNOWN
    if is_class(value):
        module = qualified_name(value)[0] or "builtins"
        return C_CODE if module == "builtins" and not _is_of_python(value) else owner_of_module(module)
    name = _module_named_by(value)
    return C_CODE if name is None else owner_of_module(name)


def _is_of_python(value: type) -> bool:
    """True for a class of the interpreter; C code of libraries makes classes that name no module, as Python's do."""
    return any(found is value for space in (builtins, types) for found in vars(space).values())


def inside_of(value: Any) -> Any:
    """Return the function in a descriptor, a bound method or a partial object."""
    for _ in range(100):
        kind = type(value)
        if issubclass(kind, (staticmethod, classmethod, property, functools.cached_property)):
            inner = wrapped_callable(value)
        elif kind is functools.partial:
            inner = value.func
        elif kind is MethodType:
            inner = value.__func__
        elif kind is FunctionType and _is_general(value.__code__.co_filename):
            inner = value.__dict__.get("__wrapped__")  # of a decorator such as `contextlib.contextmanager`
        else:
            return value
        if inner is value or inner is None:
            return value
        value = inner
    return value


def _is_general(file: str) -> bool:
    """True for files with decorators for everybody: of the standard library, and its additions."""
    owner = owner_of_file(file)
    return owner.startswith(PYTHON) or owner == "typing_extensions"


def _of_code(code: CodeType, names: dict[str, Any]) -> str:
    owner = owner_of_file(code.co_filename)
    if owner != UNKNOWN:
        return owner
    name = names.get("__name__")  # generated code belongs to the module that it runs in
    return owner_of_module(name) if isinstance(name, str) and name in sys.modules else C_CODE


def _module_named_by(value: Any) -> Optional[str]:
    """Return the module that an object written in C, or an instance, comes from."""
    kind = type(value)
    name = _plain(value, "__module__")
    if not isinstance(name, str):
        home = _plain(value, "__objclass__") or _plain(value, "__self__")
        if is_class(home):
            name = qualified_name(home)[0]
        elif issubclass(type(home), ModuleType):
            name = (namespace_of(home) or {}).get("__name__")
    if not isinstance(name, str) or name not in sys.modules:
        if kind.__module__ == "builtins":
            return None
        name = kind.__module__
    return name if isinstance(name, str) and name in sys.modules else None


def _plain(value: Any, name: str) -> Any:
    """Return an attribute that the interpreter keeps, without a ``__getattr__`` of the object."""
    try:
        return object.__getattribute__(value, name)
    except Exception:
        return None


@functools.cache
def _providers() -> dict[str, tuple[str, str]]:
    """Return name and version of the distribution of each installed top-level package, the first on the path."""
    found: dict[str, tuple[str, str]] = {}
    for distribution in metadata.distributions():
        try:
            known = headers(distribution)
            declared = (distribution.read_text("top_level.txt") or "").split()
            if not declared:  # lines such as `torch/nn/modules/linear.py,sha256=...,4711`
                record = distribution.read_text("RECORD") or ""
                declared = re.findall(r"^([A-Za-z_]\w*)(?:/|\.[\w.-]+,)", record, re.MULTILINE)
            for name in set(declared):
                found.setdefault(_top(name), (known["Name"], known["Version"]))
        except Exception:  # the remainder of a broken installation provides nothing
            continue
    return found


def _provider(owner: str) -> Optional[tuple[str, str]]:
    return _providers().get(owner)


@functools.cache
def same_distribution(one: str, other: str) -> bool:
    """True if two owners are one, or top-level packages of one distribution."""
    if one == other:
        return True
    provider = _provider(one)
    return provider is not None and provider == _provider(other)


def describe_owner(owner: str) -> str:
    """Return an owner for people: ``torch 2.7.0``, ``Python (json)``, ``megatron``."""
    if owner == UNKNOWN:
        return "unknown"
    if owner.startswith(PYTHON):
        return f"Python ({owner[len(PYTHON) :]})"
    provider = _provider(owner)
    return owner if provider is None else " ".join(provider)


def version_of_owner(owner: str) -> str:
    """Return the version of the distribution of an owner, empty if it is not installed."""
    provider = _provider(owner)
    return "" if provider is None else provider[1]
