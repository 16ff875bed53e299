"""Follows the statements of a function in order, and finds the calls with the conditions under which they run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional, Union

from mx_driving_compat.reading.program.source import Function, Scope, Source, Unknown, line_of
from mx_driving_compat.reading.program.versions import negated, version_requirement

__all__ = ["Conditions", "FoundCall", "Walker", "function_scope", "run_at_once"]


class Conditions(NamedTuple):
    """The conditions under which code runs.

    Args:
        requires: versions of libraries that it is for.
        doubt: why it may not run, ``""`` for nothing.
    """

    requires: tuple[str, ...] = ()
    doubt: str = ""

    def and_requires(self, requirement: str) -> Conditions:
        """Return these conditions with one more requirement."""
        return self._replace(requires=tuple(dict.fromkeys((*self.requires, requirement))))

    def and_doubt(self, doubt: str) -> Conditions:
        """Return these conditions with a reason why the code may not run; the first reason counts."""
        return self if self.doubt else self._replace(doubt=doubt)


_ALWAYS = Conditions()


class FoundCall(NamedTuple):
    """A call, the values of names at that place, and the conditions under which it runs."""

    node: ast.Call
    scope: Scope
    conditions: Conditions

    @property
    def line(self) -> int:
        """The line of the call; in a chain, of its own part."""
        return line_of(self.node)


class Walker:
    """Yields the calls in statements, inner ones first; unrolls loops over lists that are written out.

    Args:
        source: the file.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    def calls(self, body: Sequence[ast.stmt], scope: Scope, when: Conditions = _ALWAYS) -> Iterator[FoundCall]:
        """Yield the calls in statements; record their assignments in ``scope``."""
        for statement in body:
            yield from self._statement(statement, scope, when)
            when = self._after(statement, scope, when)

    def _statement(self, node: ast.stmt, scope: Scope, when: Conditions) -> Iterator[FoundCall]:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            yield from self._expression(node.value, scope, when)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets if not scope.is_module else ():  # names of the module stay names of the copy
                known = None if when.doubt or isinstance(node, ast.AugAssign) else node.value
                scope.bind(target, known)
        elif isinstance(node, ast.If):
            yield from self._expression(node.test, scope, when)
            yes, no = self._branches(node.test, when)
            yield from self.calls(node.body, scope, yes)
            yield from self.calls(node.orelse, scope, no)
        elif isinstance(node, ast.For):
            yield from self._expression(node.iter, scope, when)
            yield from self._loop(node, scope, when)
        elif isinstance(node, ast.While):
            yield from self.calls([*node.body, *node.orelse], scope, when.and_doubt(_at("a loop", node)))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                yield from self._expression(item.context_expr, scope, when)
            yield from self.calls(node.body, scope, when)
        elif isinstance(node, ast.Try):
            yield from self.calls([*node.body, *node.orelse, *node.finalbody], scope, when)
            for handler in node.handlers:
                yield from self.calls(handler.body, scope, when.and_doubt(_at("an exception handler", handler)))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if scope.is_module:
                return  # runs when it is called
            inner = when.and_doubt(_at(f"the function {node.name}", node))
            scope.bind(ast.Name(node.name, ast.Store()), None)
            yield from self.calls(node.body, function_scope(node, scope), inner)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            if not scope.is_module:
                scope.bind_import(node)
        elif not isinstance(node, ast.ClassDef):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from self._expression(child, scope, when)

    def _loop(self, node: ast.For, scope: Scope, when: Conditions) -> Iterator[FoundCall]:
        try:
            items = scope.items(node.iter)
        except Unknown as reason:
            scope.bind(node.target, None)
            yield from self.calls([*node.body, *node.orelse], scope, when.and_doubt(f"{_at('a loop', node)}: {reason}"))
            return
        for item in items:
            scope.bind(node.target, item)
            yield from self.calls(node.body, scope, when)
        yield from self.calls(node.orelse, scope, when)

    def _expression(self, node: Optional[ast.expr], scope: Scope, when: Conditions) -> Iterator[FoundCall]:
        if node is None:
            return
        if isinstance(node, ast.Lambda):
            yield from self._expression(node.body, scope, when.and_doubt(_at("a lambda", node)))
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            yield from self._comprehension(node, scope, when)
        elif isinstance(node, ast.DictComp):
            yield from self._expression(node.value, scope, when.and_doubt(_at("a comprehension", node)))
        elif isinstance(node, ast.IfExp):
            yes, no = self._branches(node.test, when)
            yield from self._expression(node.test, scope, when)
            yield from self._expression(node.body, scope, yes)
            yield from self._expression(node.orelse, scope, no)
        elif isinstance(node, ast.BoolOp):
            yield from self._expression(node.values[0], scope, when)
            for value in node.values[1:]:
                yield from self._expression(value, scope, when.and_doubt(_at("'and' or 'or'", node)))
        else:
            for child in ast.iter_child_nodes(node):
                inner = child.value if isinstance(child, ast.keyword) else child
                if isinstance(inner, ast.expr):
                    yield from self._expression(inner, scope, when)
            if isinstance(node, ast.Call):
                yield FoundCall(node, scope.copy(), when)

    def _comprehension(
        self, node: Union[ast.ListComp, ast.SetComp, ast.GeneratorExp], scope: Scope, when: Conditions
    ) -> Iterator[FoundCall]:
        first = node.generators[0]
        try:
            if len(node.generators) > 1 or first.ifs:
                raise Unknown("it has a condition, or several loops")
            items = scope.items(first.iter)
        except Unknown as reason:
            doubt = f"{_at('a comprehension', node)}: {reason}"
            inner = scope.copy()
            for generator in node.generators:
                inner.bind(generator.target, None)
            yield from self._expression(node.elt, inner, when.and_doubt(doubt))
            return
        for item in items:
            inner = scope.copy()
            inner.bind(first.target, item)
            yield from self._expression(node.elt, inner, when)

    def _branches(self, test: ast.expr, when: Conditions) -> tuple[Conditions, Conditions]:
        """Return the conditions of the two branches of a test."""
        requirement = version_requirement(test, self.source)
        if requirement is not None:
            return when.and_requires(requirement), when.and_requires(negated(requirement))
        doubt = when.and_doubt(f"{_at('a branch', test)}: if {ast.unparse(test)}")
        return doubt, doubt

    def _after(self, node: ast.stmt, scope: Scope, when: Conditions) -> Conditions:
        """Return the conditions of the code after a statement: a branch may have left the function."""
        if isinstance(node, ast.If):
            yes, no = self._branches(node.test, when)
            ends = _ends(node.body), _ends(node.orelse)
            if any(ends) and not all(ends):
                return no if ends[0] else yes
            node_leaves = any(isinstance(inner, (ast.Return, ast.Continue, ast.Break)) for inner in ast.walk(node))
            return when.and_doubt(f"{_at('a branch', node)} that may end it") if node_leaves else when
        if isinstance(node, (ast.For, ast.While, ast.Try)) and any(isinstance(i, ast.Return) for i in ast.walk(node)):
            return when.and_doubt(f"{_at('a statement', node)} that may end it")
        return when


def function_scope(function: Function, outer: Scope, *, owner: Optional[str] = None) -> Scope:
    """Return the scope inside a function: its parameters are not known.

    Args:
        function: of the file.
        outer: the scope around it.
        owner: the class it is a class method of, if any.
    """
    scope = outer.copy()
    scope.is_module = False
    scope.owner = owner or outer.owner
    arguments = function.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    scope.names.update((argument.arg, None) for argument in listed if argument is not None)
    if owner is not None:
        scope.names.pop("cls", None)
    return scope


def run_at_once(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, also nested ones, except those inside functions and classes, which run later."""
    for statement in body:
        if isinstance(statement, ast.If) and "__main__" in ast.unparse(statement.test):
            continue
        if isinstance(statement, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
            yield from run_at_once(statement.body)
            yield from run_at_once(getattr(statement, "orelse", []))
            yield from run_at_once(getattr(statement, "finalbody", []))
        else:
            yield statement


def _ends(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _at(what: str, node: ast.AST) -> str:
    return f"it is in {what} (line {getattr(node, 'lineno', 0)})"
