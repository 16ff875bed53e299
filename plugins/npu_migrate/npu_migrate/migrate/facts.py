"""Finds attributes that classes of a project define under names of tensors: the rules leave those alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any

from patchcore.plugin import parse_source

__all__ = ["Owners", "merge", "owners"]

#: For each member, such as ``cuda``, the names of the classes that define it.
Owners = Mapping[str, frozenset[str]]


def owners(source: str, members: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return which classes of a module define one of ``members``, as a method, property, field or ``self.member =``.

    A module that this Python cannot parse defines none.
    """
    wanted = tuple(members)
    if not wanted or not re.search(
        rf"(def|self\.|^\s+)\s*({'|'.join(map(re.escape, wanted))})\b", source, re.MULTILINE
    ):
        return {}
    try:
        tree = parse_source(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for name in _defined(node) & set(wanted):
                found.setdefault(name, set()).add(node.name)
    return {name: frozenset(classes) for name, classes in found.items()}


def merge(tables: Iterable[Owners]) -> dict[str, frozenset[str]]:
    """Return the owners of several modules as one table."""
    found: dict[str, frozenset[str]] = {}
    for table in tables:
        for name, classes in table.items():
            found[name] = found.get(name, frozenset()) | classes
    return found


def _defined(node: ast.ClassDef) -> set[str]:
    found: set[str] = set()
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(statement.name)
            found.update(_of_self(statement))
        elif isinstance(statement, ast.Assign):
            found.update(target.id for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found.add(statement.target.id)
    return found


def _of_self(function: Any) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
