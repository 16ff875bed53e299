"""Small questions about nodes of libcst."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import libcst as cst

__all__ = ["assigned", "code", "dotted", "first_line", "literal", "root", "with_text"]

_BLANK = cst.Module(body=())


def code(node: cst.CSTNode) -> str:
    """Return the source of a node, without the lines around it."""
    return _BLANK.code_for_node(node).strip()


def first_line(node: cst.CSTNode, limit: int = 100) -> str:
    """Return the first line of the source of a node, cut where it is long."""
    text = code(node)
    line = text.partition("\n")[0].rstrip()
    return line if len(line) <= limit and line == text else f"{line[:limit].rstrip()} ..."


def root(node: cst.BaseExpression) -> Optional[cst.Name]:
    """Return ``a`` of ``a.b.c``, ``None`` for anything that is not a chain of names."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node if isinstance(node, cst.Name) else None


def dotted(node: cst.BaseExpression) -> Optional[str]:
    """Return ``a.b.c`` as text, ``None`` for anything that is not a chain of names."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


def literal(node: cst.CSTNode) -> Optional[str]:
    """Return the text of a plain string literal, ``None`` for anything else, bytes and escapes included."""
    if isinstance(node, cst.SimpleString) and "b" not in node.prefix.lower() and "\\" not in node.raw_value:
        return node.raw_value
    return None


def with_text(node: cst.SimpleString, text: str) -> cst.SimpleString:
    """Return a string literal with the same quotes and prefix and another text."""
    return node.with_changes(value=f"{node.prefix}{node.quote}{text}{node.quote}")


def assigned(target: cst.CSTNode, parents: Mapping[cst.CSTNode, cst.CSTNode]) -> Optional[Any]:
    """Return the value assigned to a target: ``t = value``, ``t: T = value``, ``(t := value)``, ``a, t = x, value``.

    ``None`` where nothing is, or where it is unknown.

    Args:
        target: a name or attribute.
        parents: the parent of each node.
    """
    parent = parents.get(target)
    index = None
    if isinstance(parent, cst.Element):
        several = parents[parent]
        if not isinstance(several, (cst.Tuple, cst.List)):
            return None
        index = next(number for number, element in enumerate(several.elements) if element is parent)
        parent, count = parents[several], len(several.elements)
    is_target = isinstance(parent, cst.AssignTarget)
    statement: Any = parents[parent] if is_target and parent is not None else parent
    if not is_target and not (isinstance(statement, (cst.AnnAssign, cst.NamedExpr)) and statement.target is target):
        return None
    if index is None:
        return statement.value
    value = statement.value
    if not is_target or not isinstance(value, (cst.Tuple, cst.List)) or len(value.elements) != count:
        return None
    starred = (isinstance(element, cst.StarredElement) for element in (*several.elements, *value.elements))
    return None if any(starred) else value.elements[index].value
