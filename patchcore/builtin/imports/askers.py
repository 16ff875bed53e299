"""Finds modules that were imported before a stub or dummy was there, and that import its name: they go on without it.

``try: import fast_attention`` in a library decides once, when the library is imported. A patch that makes the name
importable after that changes nothing there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Optional

from patchcore.builtin.shared.sources import parse_source
from patchcore.objects.modules import is_initializing, loaded_modules, module_file

__all__ = ["askers"]

#: An import statement at the beginning of a line: the module that it names.
_IMPORT = re.compile(rb"\n[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)")  # a line break is found faster than ^

#: By name of a module, the module and the top-level packages that import statements of its source name.
_roots: dict[str, tuple[ModuleType, frozenset[str]]] = {}


def askers(name: str) -> list[str]:
    """Return the names of the loaded modules whose body imports module ``name``, or a module inside it.

    Searches the source of each loaded module once in a process, and parses those that name the package. Modules of the
    standard library and of patchcore, modules without a source, and modules that are being imported now, are left out.
    """
    root = name.partition(".")[0]
    found = []
    for module_name, module in loaded_modules().items():
        if root in _imported_roots(module_name, module) and not is_initializing(module):
            source = _source(module_name)
            if source is not None and name in _imported(source):
                found.append(module_name)
    return found


def _imported_roots(name: str, module: ModuleType) -> frozenset[str]:
    known = _roots.get(name)
    if known is None or known[0] is not module:
        source = None if name.partition(".")[0] in _LEFT_OUT else _source(name)
        words = _IMPORT.findall(b"\n" + source) if source is not None else ()
        known = _roots[name] = module, frozenset(map(bytes.decode, words))
    return known[1]


def _source(name: str) -> Optional[bytes]:
    file = module_file(name)
    if file is None or not file.endswith(".py"):
        return None
    try:
        with open(file, "rb") as stream:
            return stream.read()
    except OSError:
        return None


def _imported(source: bytes) -> set[str]:
    """Return the modules that the body of a module imports, with the packages around them."""
    try:
        tree = parse_source(source)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    names: set[str] = set()
    for statement in _statements(tree.body):
        if isinstance(statement, ast.Import):
            names.update(alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            names.add(statement.module)
            names.update(f"{statement.module}.{alias.name}" for alias in statement.names)
    return {".".join(name.split(".")[:end]) for name in names for end in range(1, name.count(".") + 2)}


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run at the import of a module: not those of functions, nor those for type checkers."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            yield from _statements(statement.orelse)
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from _statements(handler.body)


#: Top-level packages that import no library.
_LEFT_OUT = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names)) | {
    "patchcore",
    "patchcore_startup",
}
