"""Programs: what ``python SCRIPT``, ``python FOLDER``, ``python ARCHIVE`` and ``python -m MODULE`` would run.

What each of them finds in ``sys.argv``, ``sys.path`` and its own ``__main__`` module is written down in the Python
manual ("Command line and environment", ``runpy``, ``__main__``); tests/test_launch.py compares the two.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import pkgutil
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Optional

from patchcore.errors import SettingsError

__all__ = ["Module", "Program", "Script", "find_program"]


class Program:
    """A program and its arguments.

    Args:
        name: as given: the path of a script, folder or archive, or the name of a module.
        arguments: the program's own.
    """

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self.name = name
        self.arguments = list(arguments)

    def path(self) -> str:
        """Return ``name``, a path, as the interpreter makes it absolute: what is in it stays in it."""
        return os.path.join(os.getcwd(), self.name)

    def prepare(self) -> None:
        """Set ``sys.argv`` and ``sys.path`` as the interpreter does before it runs the program."""
        sys.argv = [self.name, *self.arguments]
        entry = self.path_entry()
        # the interpreter has put an entry of its own, or of the launcher's, in front, unless it was told not to
        sys.path[: 0 if _is_path_safe() else 1] = [] if entry is None else [entry]

    def path_entry(self) -> Optional[str]:
        """Return what the interpreter puts in front of ``sys.path`` for this program, ``None`` for nothing."""
        raise NotImplementedError

    def load(self) -> tuple[CodeType, dict[str, Any]]:
        """Return the program's code and the attributes of its ``__main__`` module.

        Raises:
            SettingsError: there is no such program.
            Exception: what finding it raised: a syntax error, an error in a package that a module is in.
        """
        raise NotImplementedError

    def run(self) -> None:
        """Run the program as ``__main__``, which it stays, so that threads, atexit functions and pickling find it."""
        code, attributes = self.load()
        main = ModuleType("__main__")
        vars(main).update(attributes, __builtins__=builtins)
        sys.modules["__main__"] = main
        exec(code, vars(main))


class Script(Program):
    """A Python source file."""

    def path_entry(self) -> Optional[str]:
        return None if _is_path_safe() else str(Path(self.name).resolve().parent)

    def load(self) -> tuple[CodeType, dict[str, Any]]:
        path = self.path()
        loader = SourceFileLoader("__main__", path)
        code = loader.source_to_code(loader.get_data(path), path)
        return code, {"__file__": path, "__cached__": None, "__loader__": loader, "__package__": None, "__spec__": None}


class Container(Program):
    """A folder or an archive with a ``__main__.py``."""

    def path_entry(self) -> Optional[str]:
        return self.path()

    def load(self) -> tuple[CodeType, dict[str, Any]]:
        spec = PathFinder.find_spec("__main__", [self.path()])
        if spec is None:
            raise SettingsError(
                f"can't find a __main__ module in {self.name!r}; expected a script, or a folder with one"
            )
        return _from_spec(spec)


class Module(Program):
    """A module, or a package with a ``__main__`` module."""

    def path_entry(self) -> Optional[str]:
        return None if _is_path_safe() else os.getcwd()

    def load(self) -> tuple[CodeType, dict[str, Any]]:
        spec = _find_module(self.name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = _find_module(f"{self.name}.__main__")
            if spec is None:
                raise SettingsError(f"{self.name!r} is a package without a __main__ module and cannot be run")
        if spec is None:
            raise SettingsError(f"no module named {self.name!r} in {os.getcwd()} or on sys.path")
        code, attributes = _from_spec(spec)
        sys.argv[0] = str(spec.origin)
        return code, attributes


def find_program(name: str, arguments: Sequence[str], *, as_module: bool) -> Program:
    """Return the program that ``name`` means, importing nothing.

    Args:
        name: path of a script, folder or archive, or the name of a module.
        arguments: the program's own.
        as_module: whether ``name`` is a module's, as after ``python -m``.

    Raises:
        SettingsError: there is none; says what to write instead.
    """
    if as_module:
        if name.endswith(".py"):
            raise SettingsError(f"-m takes the name of a module, found {name!r}; leave out -m, or write {name[:-3]!r}")
        return Module(name, arguments)
    if os.path.exists(name):
        return Script(name, arguments) if pkgutil.get_importer(name) is None else Container(name, arguments)
    command = shutil.which(name)
    if command is not None:
        raise SettingsError(
            f"{name} is a command ({command}), and patchcore run patches the Python program it runs itself, not the "
            f"processes that a command starts; run {name} as always and call patchcore.apply() first in its script"
        )
    raise SettingsError(
        f"can't find the script {name!r} in {os.getcwd()}; expected a Python file, or -m and a module's name"
    )


def _is_path_safe() -> bool:
    """Tell whether the interpreter was told to put nothing in front of ``sys.path`` (``-I``; ``-P``, Python 3.11)."""
    return bool(getattr(sys.flags, "safe_path", False) or sys.flags.isolated)


def _find_module(name: str) -> Optional[ModuleSpec]:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        # a parent that is missing, or is no package, not something that a parent imports in vain
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise


def _from_spec(spec: ModuleSpec) -> tuple[CodeType, dict[str, Any]]:
    loader: Any = spec.loader
    code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
    if code is None:
        raise SettingsError(f"{spec.name!r} ({spec.origin}) has no Python code and cannot be run")
    attributes = {"__file__": spec.origin, "__cached__": spec.cached, "__loader__": loader, "__spec__": spec}
    return code, {**attributes, "__package__": spec.parent}
