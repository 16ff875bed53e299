"""Edits of a tree, collected first and made in one pass, so that formatting and comments stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

import libcst as cst

__all__ = ["Edits"]

Change = Callable[[Any], Any]


class Edits:
    """Changes by the node of the original tree they are for; several for one node are made in their order."""

    def __init__(self) -> None:
        self._changes: dict[cst.CSTNode, list[Change]] = {}
        self._before: dict[cst.CSTNode, list[cst.BaseStatement]] = {}
        self._after: dict[cst.CSTNode, list[cst.BaseStatement]] = {}

    def __bool__(self) -> bool:
        return bool(self._changes or self._before or self._after)

    def __contains__(self, node: cst.CSTNode) -> bool:
        return node in self._changes

    def change(self, node: cst.CSTNode, change: Change) -> None:
        """Change ``node``.

        Args:
            node: of the original tree.
            change: takes the node, whose inner nodes are changed already, and returns the node that replaces it.
        """
        self._changes.setdefault(node, []).append(change)

    def replace(self, node: cst.CSTNode, new: cst.CSTNode) -> None:
        """Put ``new`` in the place of ``node``."""
        self.change(node, lambda _: new)

    def before(self, statement: cst.CSTNode, lines: Sequence[cst.BaseStatement]) -> None:
        """Insert statements in front of one; comments and blank lines above it stay above them."""
        self._before.setdefault(statement, []).extend(lines)

    def after(self, statement: cst.CSTNode, lines: Sequence[cst.BaseStatement]) -> None:
        """Insert statements behind one."""
        self._after.setdefault(statement, []).extend(lines)

    def apply(self, module: cst.Module, parents: Mapping[cst.CSTNode, cst.CSTNode]) -> cst.Module:
        """Return the module with all changes made.

        Args:
            module: the original tree.
            parents: the parent of each node of it; nothing else is visited.
        """
        around: set[cst.CSTNode] = {module}
        for node in (*self._changes, *self._before, *self._after):
            found: Optional[cst.CSTNode] = node
            while found is not None and found not in around:
                around.add(found)
                found = parents.get(found)
        return module.visit(_Apply(self, around))

    def made(self, original: cst.CSTNode, updated: Any) -> Any:
        """Return the node that replaces ``original``; ``updated`` is the same with its inner nodes changed already."""
        result = updated
        for change in self._changes.get(original, ()):
            result = change(result)
        before, after = self._before.get(original, ()), self._after.get(original, ())
        if not before and not after:
            return result
        nodes = list(result) if isinstance(result, cst.FlattenSentinel) else [result]
        if before:
            head, *rest = before
            lead = nodes[0].leading_lines
            nodes[0] = nodes[0].with_changes(leading_lines=())
            nodes[:0] = [head.with_changes(leading_lines=(*lead, *head.leading_lines)), *rest]
        return cst.FlattenSentinel([*nodes, *after])


class _Apply(cst.CSTTransformer):
    def __init__(self, edits: Edits, around: set[cst.CSTNode]) -> None:
        super().__init__()
        self.edits = edits
        self.around = around

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self.around

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        return self.edits.made(original_node, updated_node)
