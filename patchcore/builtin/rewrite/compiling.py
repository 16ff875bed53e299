"""Compiling a module with its syntax tree edited, and pairing the two codes function by function."""

from __future__ import annotations

import ast
import importlib.util
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import NamedTuple, Optional

from patchcore.builtin.rewrite.changes import Rules, Source
from patchcore.declare.target import Target

__all__ = ["Edited", "edit", "mentions", "nested", "original_code"]


class Edited(NamedTuple):
    """A module that was compiled with its syntax tree edited.

    Args:
        code: of the module.
        lines: the numbers of the edited lines, for each of the rules.
        top_level: those of them that run when the module is imported.
        needs: see :attr:`Source.needs`.
    """

    code: CodeType
    lines: Sequence[frozenset[int]]
    top_level: frozenset[int]
    needs: dict[str, Target]


def mentions(code: CodeType, words: Sequence[str]) -> bool:
    """Return true if a text constant of ``code``, or of a function in it, has one of ``words`` in it."""
    for constant in code.co_consts:
        kind = type(constant)
        if kind is CodeType:
            if mentions(constant, words):
                return True
        elif kind is str:
            if any(word in constant for word in words):
                return True
        elif kind in (tuple, frozenset) and _has_word(constant, words):
            return True
    return False


def _has_word(constants: Iterable[object], words: Sequence[str]) -> bool:
    return any(
        _has_word(each, words) if type(each) in (tuple, frozenset) else type(each) is str and any(w in each for w in words)  # type: ignore[call-overload]
        for each in constants
    )


def original_code(data: bytes, file: str) -> CodeType:
    """Compile the source of a module as Python does, without its bytecode cache."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python has given them, or will
        code: CodeType = compile(data, file, "exec", dont_inherit=True)
    return code


def edit(name: str, file: str, data: bytes, rules: Sequence[Rules], first: str = "") -> Optional[Edited]:
    """Compile a module with its tree edited by each of ``rules``; ``None`` if none of them edits it.

    Args:
        name: of the module.
        file: path of its source.
        data: the source.
        rules: in the order in which they edit.
        first: target of a function that the module calls first of all, with its namespace; empty for none.

    Raises:
        Exception: what the rules raise; ``RecursionError`` for a source that is nested too deeply.
    """
    text = importlib.util.decode_source(data)
    rules = [each for each in rules if not each.pattern or re.search(each.pattern, text)]
    if not rules:
        return None
    source = Source(name, file, text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(data, file)
        lines = [frozenset(each.edit(tree, source)) for each in rules]
        edited = frozenset().union(*lines)
        if not edited:
            return None
        top_level = edited.difference(*_inner_lines(tree))
        start: list[ast.stmt] = []
        if first:
            start = [ast.Expr(ast.Call(source.reference(first), [ast.Call(ast.Name("globals", ast.Load()), [], [])], []))]
        _put_first(tree, [*_imports(source), *start])
        code: CodeType = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)
    return Edited(code, lines, top_level, source.needs)


def nested(code: CodeType) -> Iterator[CodeType]:
    """Yield ``code`` and every code in it, in the order of the source."""
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from nested(constant)


def _inner_lines(tree: ast.Module) -> Iterator[range]:
    """Yield the lines of each function's body, which run when it is called."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)


def _imports(source: Source) -> Iterator[ast.stmt]:
    """Yield the imports of what the edited code uses."""
    for name, target in source.needs.items():
        yield ast.ImportFrom(target.module, [ast.alias(str(target.path[0]), name)], 0)


def _put_first(tree: ast.Module, statements: Sequence[ast.stmt]) -> None:
    """Put ``statements`` where the first statement may be: after the docstring and imports from ``__future__``."""
    place = 0
    for number, statement in enumerate(tree.body):
        is_docstring = not number and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_docstring or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            place = number + 1
    position = tree.body[min(place, len(tree.body) - 1)]
    tree.body[place:place] = [ast.copy_location(statement, position) for statement in statements]
