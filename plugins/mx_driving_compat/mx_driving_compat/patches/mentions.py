"""Finds the packages that a function will change when it patches by hand, by reading its code.

A function that was registered for mmcv, and imports mmdet and sets something there, changes mmdet. Its changes of
packages named here can be reverted; see :class:`patchcore.Call`.
"""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from patchcore.plugin import module_file

__all__ = ["mentioned_packages"]

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

#: Packages that a migration never changes, or that must not be reverted with it.
_OTHERS = frozenset(("builtins", "patchcore", "pluggy", "mx_driving", "mx_driving_compat", "__main__", "__mp_main__"))


def mentioned_packages(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the top-level packages that a function, or a function that it calls, imports or names.

    Functions that it merely defines run later, and do not count.

    Args:
        function: of the migration.
    """
    found = {_root(name) for name in _names(function, set())} - _OTHERS - {""}
    return tuple(sorted(name for name in found if not _is_standard(name)))


def _names(function: Any, seen: set[int]) -> Iterator[str]:
    """Yield the full names of modules that the code of ``function`` mentions."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    code: CodeType = function.__code__
    for text in code.co_consts:
        if isinstance(text, str) and _DOTTED.fullmatch(text) and _root(text) in sys.modules:
            yield text
    yield from (step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    for name in (*code.co_names, *code.co_freevars):
        if name in cells:
            try:
                value = cells[name].cell_contents
            except ValueError:  # not bound yet
                continue
        elif name in function.__globals__:
            value = function.__globals__[name]
        else:
            continue
        yield from _names_of(value, function, seen)


def _names_of(value: Any, function: FunctionType, seen: set[int]) -> Iterator[str]:
    kind = type(value)
    if issubclass(kind, ModuleType):
        yield value.__name__
    elif issubclass(kind, FunctionType) and value.__module__ == function.__module__:
        yield from _names(value, seen)
    elif issubclass(kind, (type, FunctionType)) and _root(value.__module__) != _root(function.__module__):
        yield value.__module__ or ""


def _is_standard(name: str) -> bool:
    """Return whether a top-level module is part of Python."""
    if sys.version_info >= (3, 10):
        return name in sys.stdlib_module_names
    import sysconfig

    folder = sysconfig.get_path("stdlib")
    file = module_file(name) or ""
    return name in sys.builtin_module_names or (file.startswith(folder) and "-packages" not in file)


def _root(name: Any) -> str:
    return name.partition(".")[0] if isinstance(name, str) else ""
