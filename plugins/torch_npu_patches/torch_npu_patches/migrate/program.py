"""One module of Python, read once: its tree, and lists of the nodes that rules ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional

import libcst as cst
from libcst import metadata as md

from torch_npu_patches.migrate.names import Names
from torch_npu_patches.migrate.syntax import dotted, root

__all__ = ["Program", "arguments", "read"]

_TEXTS = (cst.SimpleString, cst.FormattedString)


class Program(cst.CSTVisitor):
    """What a module contains, in the order of the source.

    Args:
        wrapper: with the module.
        parents: of ``libcst.metadata.ParentNodeProvider``.
    """

    def __init__(self, wrapper: md.MetadataWrapper, parents: Any) -> None:
        super().__init__()
        self.wrapper = wrapper
        self.module = wrapper.module
        self.parents = parents
        self.imports: list[Any] = []
        self.calls: list[cst.Call] = []
        self.comparisons: list[cst.Comparison] = []
        self.subscripts: list[cst.Subscript] = []
        self.texts: list[Any] = []
        self.chains: list[cst.Attribute] = []  # the longest of each: a.b.c, not a.b
        self.members: list[cst.Attribute] = []
        self.stores: set[cst.Attribute] = set()  # those that are assigned to
        self.loads: list[cst.Name] = []  # names that stand for themselves
        self.classes: list[cst.ClassDef] = []
        self.values: dict[str, list[cst.BaseExpression]] = {}  # of attributes, by the name of the attribute
        self.bound: set[str] = set()  # names that imports bind

    def position(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return line and column of a node, from 1."""
        start = self.wrapper.resolve(md.PositionProvider)[node].start
        return start.line, start.column + 1

    def statement(self, node: cst.CSTNode) -> Any:
        """Return the statement that a node is in, a simple or compound one."""
        while not isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement, cst.SimpleStatementSuite)):
            node = self.parents[node]
        return node

    def outermost_function(self, node: cst.CSTNode) -> Optional[cst.FunctionDef]:
        """Return the function of the module, or method, that a node is in, ``None`` outside of any."""
        found = None
        parent = self.parents.get(node)
        while parent is not None:
            if isinstance(parent, cst.FunctionDef):
                found = parent
            parent = self.parents.get(parent)
        return found

    def visit_Import(self, node: cst.Import) -> bool:
        self._import(node)
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        self._import(node)
        return False

    def _import(self, node: Any) -> None:
        self.imports.append(node)
        if isinstance(node.names, cst.ImportStar):
            return
        for alias in node.names:
            bound = alias.asname.name if alias.asname else root(alias.name)
            if isinstance(bound, cst.Name):
                self.bound.add(bound.value)

    def visit_Call(self, node: cst.Call) -> None:
        self.calls.append(node)

    def visit_Comparison(self, node: cst.Comparison) -> None:
        self.comparisons.append(node)

    def visit_Subscript(self, node: cst.Subscript) -> None:
        self.subscripts.append(node)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.classes.append(node)

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        if not self._is_bare(node):
            self.texts.append(node)

    def visit_FormattedString(self, node: cst.FormattedString) -> None:
        self.texts.append(node)

    def visit_ConcatenatedString(self, node: cst.ConcatenatedString) -> bool:
        return not self._is_bare(node)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        parent = self.parents[node]
        if isinstance(parent, cst.AssignTarget) or (isinstance(parent, cst.AnnAssign) and parent.target is node):
            self.stores.add(node)
            assigned = self.parents[parent].value if isinstance(parent, cst.AssignTarget) else parent.value
            if assigned is not None:
                self.values.setdefault(node.attr.value, []).append(assigned)
        if root(node) is None:
            self.members.append(node)
        elif not (isinstance(parent, cst.Attribute) and parent.value is node):
            self.chains.append(node)

    def visit_Name(self, node: cst.Name) -> None:
        parent = self.parents.get(node)
        if isinstance(parent, cst.Attribute):
            return
        if (
            isinstance(parent, (cst.Arg, cst.Param, cst.FunctionDef, cst.ClassDef))
            and getattr(parent, "value", None) is not node
        ):
            return
        if isinstance(parent, (cst.AssignTarget, cst.NameItem, cst.Global, cst.Nonlocal)):
            return
        self.loads.append(node)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._field(node.target, node.value)

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._field(target.target, node.value)

    def _field(self, target: cst.CSTNode, value: Optional[cst.BaseExpression]) -> None:
        """Remember what a field of a class is; objects of the class have it as an attribute."""
        if value is None or not isinstance(target, cst.Name):
            return
        statement = self.parents[self.parents[target]]
        while isinstance(statement, (cst.Assign, cst.AnnAssign, cst.SimpleStatementLine)):
            statement = self.parents[statement]
        if isinstance(self.parents.get(statement), cst.ClassDef):
            self.values.setdefault(target.value, []).append(value)

    def _is_bare(self, node: cst.CSTNode) -> bool:
        """Whether a text is a statement by itself, as docstrings are."""
        return isinstance(self.parents.get(node), cst.Expr)


def read(source: str) -> tuple[Program, Names]:
    """Parse a module and read it.

    Args:
        source: without a byte order mark.

    Raises:
        libcst.ParserSyntaxError: it is not Python.
    """
    wrapper = md.MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    found = wrapper.resolve_many([md.ScopeProvider, md.ParentNodeProvider])
    parents: Any = found[md.ParentNodeProvider]
    program = Program(wrapper, parents)
    wrapper.module.visit(program)
    stars = tuple(_stars(program.imports))
    return program, Names(found[md.ScopeProvider], parents, stars)  # type: ignore[arg-type]


def _stars(imports: Sequence[Any]) -> Iterator[str]:
    for node in imports:
        if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar) and not node.relative:
            yield str(dotted(node.module)) if node.module is not None else ""


def arguments(call: cst.Call, position: Optional[int], keywords: Sequence[str], skip: int = 0) -> Iterator[Any]:
    """Yield the arguments of a call at a position, or by keyword.

    Args:
        call: the call.
        position: from 0, ``None`` for keywords alone; an argument behind ``*args`` has no position.
        keywords: their names.
        skip: how many positional arguments come before position 0.
    """
    for index, argument in enumerate(call.args):
        if argument.star == "*":
            position = None
        if argument.keyword is not None:
            if argument.keyword.value in keywords:
                yield argument.value
        elif position is not None and not argument.star and index == position + skip:
            yield argument.value
