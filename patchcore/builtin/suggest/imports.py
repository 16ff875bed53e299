"""The imports of a project, read from its sources without running them."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from patchcore.builtin.shared.sources import parse_source

__all__ = ["Imports", "find_imports"]

#: Folders with code of others, or without code.
_PASSED_OVER = ("__pycache__", "node_modules", "site-packages", "dist-packages")


class Imports(NamedTuple):
    """The modules that the files of a project import.

    Args:
        names: dotted names of modules; of ``from a import b`` both ``a`` and ``a.b``.
        files: how many files were read.
        unreadable: the files that are not Python, or cannot be read.
    """

    names: frozenset[str]
    files: int
    unreadable: tuple[Path, ...]

    @property
    def roots(self) -> frozenset[str]:
        """The top-level modules among the names."""
        return frozenset(name.partition(".")[0] for name in self.names)


def find_imports(path: Path) -> Imports:
    """Return the imports of a file, or of the files of a folder.

    Virtual environments, hidden folders and those of packages that were installed are passed over.
    """
    names: set[str] = set()
    files, unreadable = 0, []
    for source in [path] if path.is_file() else _sources(path):
        try:
            names.update(_names(source.read_bytes()))
            files += 1
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            unreadable.append(source)
    return Imports(frozenset(names), files, tuple(unreadable))


def _sources(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_own(Path(where, name)))
        yield from (Path(where, name) for name in sorted(files) if name.endswith(".py"))


def _is_own(folder: Path) -> bool:
    named = folder.name.startswith(".") or folder.name in _PASSED_OVER
    return not named and not (folder / "pyvenv.cfg").exists()


def _names(source: bytes) -> Iterator[str]:
    for node in ast.walk(parse_source(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
