"""One module of Python, read once: its tree, and lists of the nodes that rules ask for."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Callable, Optional

import libcst as cst
from libcst import metadata as md

from npu_migrate.migrate.names import Names
from npu_migrate.migrate.syntax import assigned, dotted, root

__all__ = ["Program", "arguments", "parts_of", "read"]


class Program:
    """The content of a module, in the order of the source.

    Args:
        wrapper: with the module.
    """

    def __init__(self, wrapper: md.MetadataWrapper) -> None:
        self.wrapper = wrapper
        self.module = wrapper.module
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.imports: list[Any] = []
        self.calls: list[cst.Call] = []
        self.comparisons: list[cst.Comparison] = []
        self.branches: list[Any] = []  # if statements and expressions
        self.texts: list[Any] = []
        self.chains: list[cst.Attribute] = []  # the longest of each: a.b.c, not a.b
        self.members: list[cst.Attribute] = []  # those whose owner is no name: f().b
        self.stores: set[cst.Attribute] = set()  # those that are assigned to
        self.loads: list[cst.Name] = []  # names that stand for themselves
        self.classes: list[cst.ClassDef] = []
        self.values: dict[str, list[cst.BaseExpression]] = {}  # of attributes, by the name of the attribute
        self.bound: set[str] = set()  # names that imports bind
        lists: dict[type, list[Any]] = {
            cst.Call: self.calls,
            cst.Comparison: self.comparisons,
            cst.If: self.branches,
            cst.IfExp: self.branches,
            cst.ClassDef: self.classes,
            cst.FormattedString: self.texts,
        }
        readers: dict[type, Callable[[Any], None]] = {
            cst.Import: self._read_import,
            cst.ImportFrom: self._read_import,
            cst.SimpleString: self._read_text,
            cst.Attribute: self._read_attribute,
            cst.Name: self._read_name,
            cst.Assign: self._read_assignment,
            cst.AnnAssign: self._read_assignment,
        }
        for node in _walk(self.module, self.parents):
            kind = type(node)
            if kind in lists:
                lists[kind].append(node)
            elif kind in readers:
                readers[kind](node)

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
        for parent in self.ancestors(node):
            if isinstance(parent, cst.FunctionDef):
                found = parent
        return found

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, the innermost first."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def _read_import(self, node: Any) -> None:
        self.imports.append(node)
        if isinstance(node.names, cst.ImportStar):
            return
        for alias in node.names:
            bound = alias.asname.name if alias.asname else root(alias.name)
            if isinstance(bound, cst.Name):
                self.bound.add(bound.value)

    def _read_text(self, node: cst.SimpleString) -> None:
        outer: cst.CSTNode = node
        while isinstance(self.parents[outer], cst.ConcatenatedString):
            outer = self.parents[outer]
        if not isinstance(self.parents[outer], cst.Expr):  # a statement by itself is a docstring or says nothing
            self.texts.append(node)

    def _read_attribute(self, node: cst.Attribute) -> None:
        parent = self.parents[node]
        value = assigned(node, self.parents)
        if value is not None or isinstance(parent, (cst.AssignTarget, cst.AnnAssign)):
            self.stores.add(node)
        if value is not None:
            self.values.setdefault(node.attr.value, []).append(value)
        if root(node) is None:
            self.members.append(node)
        elif not (isinstance(parent, cst.Attribute) and parent.value is node):
            self.chains.append(node)

    def _read_name(self, node: cst.Name) -> None:
        parent = self.parents[node]
        if isinstance(parent, (cst.Attribute, cst.AssignTarget, cst.NameItem, cst.ImportAlias, cst.AsName, cst.Param)):
            if not (isinstance(parent, cst.Param) and parent.default is node):
                return
        elif isinstance(parent, (cst.FunctionDef, cst.ClassDef)) or (
            isinstance(parent, cst.Arg) and parent.keyword is node
        ):
            return
        self.loads.append(node)

    def _read_assignment(self, node: Any) -> None:
        """Remember the value of a field of a class; objects of the class have it as an attribute."""
        if node.value is None or not isinstance(self._owner(node), cst.ClassDef):
            return
        targets = [target.target for target in node.targets] if isinstance(node, cst.Assign) else [node.target]
        for target in targets:
            if isinstance(target, cst.Name):
                self.values.setdefault(target.value, []).append(node.value)

    def _owner(self, node: cst.CSTNode) -> Optional[cst.CSTNode]:
        """The node around a simple statement, other than lines and blocks."""
        kinds = (cst.SimpleStatementLine, cst.IndentedBlock, cst.SimpleStatementSuite)
        return next((parent for parent in self.ancestors(node) if not isinstance(parent, kinds)), None)


#: Fields of nodes that hold neither names nor values; half of all nodes are in them.
_LAYOUT = re.compile(
    "whitespace|leading_lines|lines_after|trailing|header|footer|lpar|rpar|lbracket|rbracket|lbrace|rbrace"
    "|comma|semicolon|equal|dot$|operator|encoding|default_|has_trailing|quote|indent|colon|async|star"
)


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(name for name in kind.__dataclass_fields__ if not _LAYOUT.match(name) or name == "star_arg")  # type: ignore[attr-defined]


def parts_of(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the nodes that a node is made of, in their order, without layout."""
    inside: list[cst.CSTNode] = []
    for name in _fields(node.__class__):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            inside.append(value)
        elif isinstance(value, (tuple, list)):
            inside += (item for item in value if isinstance(item, cst.CSTNode))
    return inside


def _walk(module: cst.Module, parents: dict[cst.CSTNode, cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Yield the nodes of a module, each after its parent, and note the parent.

    Visitors of libcst take several times as long: they look at white space, and make nodes anew.
    """
    stack: list[cst.CSTNode] = [module]
    while stack:
        node = stack.pop()
        yield node
        inside = parts_of(node)
        for child in inside:
            parents[child] = node
        stack += reversed(inside)


def read(source: str) -> tuple[Program, Names]:
    """Parse a module and read it.

    Args:
        source: without a byte order mark.

    Raises:
        libcst.ParserSyntaxError: it is not Python.
    """
    wrapper = md.MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    scopes: Any = wrapper.resolve(md.ScopeProvider)
    program = Program(wrapper)
    return program, Names(scopes, program.parents, tuple(_stars(program.imports)))


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
