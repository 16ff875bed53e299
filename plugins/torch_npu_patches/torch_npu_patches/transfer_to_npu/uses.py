"""Finds the names of torch.cuda without a counterpart that a program uses, in the sources of its loaded modules."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from patchcore.plugin import namespace_of, parse_source
from torch_npu_patches.transfer_to_npu.audit import is_installed
from torch_npu_patches.transfer_to_npu.namespace import without_counterpart

__all__ = ["Use", "uses_without_counterpart"]

_found: dict[str, tuple[Use, ...]] = {}  # by file: each is read once


class Use(NamedTuple):
    """A line of the program that names something.

    Args:
        name: in torch.cuda.
        file, line: where.
    """

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: torch.cuda.{self.name}"


def uses_without_counterpart() -> list[Use]:
    """Return the lines of the program with a name of torch.cuda that torch.npu has nothing for, by file and line.

    Installed packages and the standard library are no part of the program. Imports torch and torch_npu.
    """
    names: list[str] = []
    found: list[Use] = []
    for file in sorted(filter(None, map(_own_file, list(sys.modules.values())))):
        if file not in _found:
            names = names or without_counterpart()
            _found[file] = tuple(_uses(file, names))
        found += _found[file]
    return sorted(found, key=lambda use: (use.file, use.line, use.name))


def _own_file(module: object) -> str:
    """Return the source of a module of the program; empty for other modules."""
    space = namespace_of(module) or {}  # a lazily loaded module stays unloaded
    # CPython deletes __file__ of __main__ before functions of atexit run; the loader stays
    file = space.get("__file__") or getattr(space.get("__loader__"), "path", None)
    if not isinstance(file, str) or not file.endswith(".py"):
        return ""
    root = str(space.get("__name__", "")).partition(".")[0]
    ours = root in ("patchcore", "patchcore_startup", "torch_npu", "torch_npu_patches", "npu_emulator")
    return "" if ours or is_installed(file) else file


def _uses(file: str, names: Collection[str]) -> Iterator[Use]:
    try:
        source = Path(file).read_bytes()
        if b"cuda" not in source or not any(name.encode() in source for name in names):
            return
        tree = parse_source(source)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    aliases = {"cuda"}  # names of the module torch.cuda in this file
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases.update(alias.asname for alias in node.names if alias.name == "torch.cuda" and alias.asname)
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            aliases.update(alias.asname for alias in node.names if alias.name == "cuda" and alias.asname)
        elif isinstance(node, ast.ImportFrom) and node.module == "torch.cuda":
            yield from (Use(alias.name, file, node.lineno) for alias in node.names if alias.name in names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names and _last_name(node.value) in aliases:
            yield Use(node.attr, file, node.lineno)


def _last_name(node: ast.expr) -> str:
    """Return ``cuda`` of ``torch.cuda``, ``cuda`` of ``cuda``, and nothing of a call."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
