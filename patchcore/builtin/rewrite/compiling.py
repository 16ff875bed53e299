"""Compiles modules with edited syntax trees.

Parsing and compiling a module takes as long as importing it. If the rules have ``find``, and no line that it returns is
at the top level, only the functions with such a line are compiled. Each takes the place of the function in the code
that Python has for the module.
"""

from __future__ import annotations
import __future__

import ast
import functools
import importlib.util
import inspect
import operator
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple, Optional, Union

from patchcore.builtin.rewrite.changes import Rules, Source
from patchcore.declare.target import Target

__all__ = [
    "FUTURE",
    "Body",
    "Edited",
    "EditedTree",
    "Part",
    "edit",
    "edit_tree",
    "may_mention",
    "mentions",
    "nested",
    "original_code",
    "put_imports",
    "with_parts",
]

#: The tree of a module, or of a statement in a console.
Body = Union[ast.Module, ast.Interactive]

#: Flags of code by which it compiles with a feature of ``__future__``.
FUTURE = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


#: The code of an edited function, after its place: for each code on the way from the module to the function, the number
#: of the constant in the one before. The place of the module itself is empty.
Part = tuple[tuple[int, ...], CodeType]


class Edited(NamedTuple):
    """A module whose syntax tree was edited.

    Args:
        code: of the module; the one that Python has if no line was edited.
        parts: what was compiled anew.
        lines: the numbers of the edited lines, for each of the rules.
        top_level: those of them that run when the module is imported.
        needs: see :attr:`Source.needs`.
        notes: see :attr:`Source.notes`, for each of the rules.
    """

    code: CodeType
    parts: Sequence[Part]
    lines: Sequence[frozenset[int]]
    top_level: frozenset[int]
    needs: dict[str, Target]
    notes: Sequence[Sequence[Any]]


class EditedTree(NamedTuple):
    """The tree of a text, edited.

    Args:
        tree: that is to be compiled.
        source: of the text.
        lines: the numbers of the edited lines, for each of the rules.
        notes: see :attr:`Source.notes`, for each of the rules.
    """

    tree: Body
    source: Source
    lines: Sequence[frozenset[int]]
    notes: Sequence[Sequence[Any]]


def may_mention(data: bytes, rules: Sequence[Rules]) -> bool:
    """Return false if the code of a module cannot have anything that ``rules`` look for; ``data`` is what Python reads.

    Args:
        data: the bytecode of a module, or its source.
        rules: all with words.
    """
    for each in rules:
        for word in each.words:
            if word.encode() in data:
                return True
        for chain in each.attributes:
            if all(name.encode() in data for name in chain.split(".")):
                return True
    return False


def mentions(code: CodeType, rules: Sequence[Rules]) -> bool:
    """Return true if ``code``, or a function in it, has a text with one of their words, or all names of a chain."""
    words = [word for each in rules for word in each.words]
    chains = [frozenset(chain.split(".")) for each in rules for chain in each.attributes]
    return _mentions(code, words, chains)


def _mentions(code: CodeType, words: Sequence[str], chains: Sequence[frozenset[str]]) -> bool:
    for chain in chains:
        if chain.issubset(code.co_names):
            return True
    for constant in code.co_consts:
        kind = type(constant)
        if kind is CodeType:
            if _mentions(constant, words, chains):
                return True
        elif kind is str:
            for word in words:
                if word in constant:
                    return True
        elif kind in (tuple, frozenset) and constant and _has_word(constant, words):
            return True
    return False


def _has_word(constants: Iterable[object], words: Sequence[str]) -> bool:
    for constant in constants:
        kind = type(constant)
        if kind is str:
            for word in words:
                if word in constant:  # type: ignore[operator]
                    return True
        elif kind in (tuple, frozenset) and _has_word(constant, words):  # type: ignore[arg-type]
            return True
    return False


def original_code(data: bytes, file: str) -> CodeType:
    """Compile the source of a module as Python does, without its bytecode cache."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python gives these warnings when it compiles the module itself
        code: CodeType = compile(data, file, "exec", dont_inherit=True)
    return code


def edit(
    name: str, code: CodeType, data: bytes, rules: Sequence[Rules], *, first: str = "", whole: bool = False
) -> Optional[Edited]:
    """Compile a module with its tree edited by each of ``rules``; ``None`` if it has no line that may be edited.

    Args:
        name: of the module.
        code: that Python has for it.
        data: the source.
        rules: in the order in which they edit.
        first: target of a function that the module calls first of all, with its namespace; empty for none.
        whole: compile all of it, with imports of the objects that the edited code uses at its start.

    Raises:
        Exception: the rules raised it; ``RecursionError`` for a source that is nested too deeply.
    """
    text = importlib.util.decode_source(data)
    found = _lines_to_edit(rules, text)
    if not any(lines is None or lines for lines in found):
        return None
    edits = _Edits(rules, found)
    wanted = sorted(frozenset().union(*filter(None, found)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not whole and None not in found:
            try:
                return _edit_functions(Source(name, code.co_filename, text, wanted), code, edits)
            except _OnlyAsAWhole:
                edits = _Edits(rules, found)
        return _edit_module(Source(name, code.co_filename, text, wanted), code, edits, first, whole)


def _lines_to_edit(rules: Sequence[Rules], text: str) -> list[Optional[frozenset[int]]]:
    """Return the numbers of the lines that each of ``rules`` may edit; ``None`` for rules that do not find them."""
    return [None if each.find is None else frozenset(each.find(text)) for each in rules]


class _Edits:
    """Edits trees of one source by several rules, and adds up the lines and the notes of each.

    Args:
        rules: in the order in which they edit.
        found: the lines that each may edit; rules that have found none are left out.
    """

    def __init__(self, rules: Sequence[Rules], found: Sequence[Optional[frozenset[int]]]) -> None:
        self._rules = [each if lines is None or lines else None for each, lines in zip(rules, found)]
        self.lines: list[frozenset[int]] = [frozenset() for _ in rules]
        self.notes: list[list[Any]] = [[] for _ in rules]

    def edit(self, tree: ast.Module, source: Source) -> frozenset[int]:
        """Edit a tree in place; return the numbers of the edited lines."""
        edited: frozenset[int] = frozenset()
        for number, each in enumerate(self._rules):
            if each is not None:
                source.notes = self.notes[number]
                lines = frozenset(each.edit(tree, source))
                self.lines[number] |= lines
                edited |= lines
        return edited


def edit_tree(
    name: str, file: str, text: str, rules: Sequence[Rules], parse: Callable[[], Body]
) -> Optional[EditedTree]:
    """Edit the tree of a text by each of ``rules``.

    Args:
        name: of the module.
        file: path or name of its source.
        text: the source.
        rules: in the order in which they edit.
        parse: makes the tree; called if there may be a line to edit.

    Returns:
        ``None`` if there is no line that may be edited.

    Raises:
        Exception: the rules or ``parse`` raised it.
    """
    found = _lines_to_edit(rules, text)
    if not any(lines is None or lines for lines in found):
        return None
    source = Source(name, file, text, sorted(frozenset().union(*filter(None, found))))
    edits = _Edits(rules, found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = parse()
    edits.edit(ast.Module(tree.body, []), source)
    return EditedTree(tree, source, edits.lines, edits.notes)


def _edit_module(source: Source, code: CodeType, edits: _Edits, first: str, whole: bool) -> Edited:
    tree = ast.parse(source.text, source.file)
    edited = edits.edit(tree, source)
    if not edited:
        return Edited(code, (), edits.lines, frozenset(), source.needs, edits.notes)
    top_level = frozenset(line for line in edited if not _in_function(tree.body, line))
    if whole:
        start: list[ast.stmt] = []
        if first:
            space = ast.Call(ast.Name("globals", ast.Load()), [], [])
            start = [ast.Expr(ast.Call(source.reference(first), [space], []))]
        put_imports(tree, source.needs, start)
    made: CodeType = compile(tree, source.file, "exec", dont_inherit=True)
    return Edited(made, [((), made)], edits.lines, top_level, source.needs, edits.notes)


class _OnlyAsAWhole(Exception):
    """A line to edit is not in the body of a function that can be compiled apart from its module."""


class _Function(NamedTuple):
    """A function of a module or class, by its place in the code of the module.

    Args:
        path: for each code on the way from the module to the function, the number of the constant in the one before.
        classes: the names of the classes around it.
        code: that Python has for it.
    """

    path: tuple[int, ...]
    classes: tuple[str, ...]
    code: CodeType


def _edit_functions(source: Source, code: CodeType, edits: _Edits) -> Edited:
    """Compile the functions that have a line to edit; raise :class:`_OnlyAsAWhole` if a line is in none."""
    texts = source.text_lines
    parts: list[Part] = []
    last = 0
    for line in source.lines:
        if line <= last:
            continue
        function = _function_at(code, line)
        tree = _parse(texts, function, source.file)
        definition = _cut(tree)
        last = definition.end_lineno or 0
        if line > last:
            raise _OnlyAsAWhole
        edited = edits.edit(tree, source)
        if not edited:
            continue
        if min(edited) <= max(definition.lineno, definition.body[0].lineno - 1):
            raise _OnlyAsAWhole  # perhaps a decorator or default, which the module evaluates
        flags = code.co_flags & FUTURE
        new = _code_of(compile(tree, source.file, "exec", flags, dont_inherit=True), function)
        parts.append((function.path, new))
    return Edited(with_parts(code, parts), parts, edits.lines, frozenset(), source.needs, edits.notes)


def _function_at(code: CodeType, line: int) -> _Function:
    """Return the function of the module or class in whose source ``line`` is, if it is in one."""
    path: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    while True:
        starts = [
            (constant.co_firstlineno, number)
            for number, constant in enumerate(code.co_consts)
            if type(constant) is CodeType and constant.co_firstlineno <= line
        ]
        if not starts:
            raise _OnlyAsAWhole
        number = max(starts)[1]
        code, path = code.co_consts[number], (*path, number)
        if code.co_flags & inspect.CO_OPTIMIZED:
            if not code.co_name.isidentifier():  # a lambda, a comprehension, the code of annotations
                raise _OnlyAsAWhole
            return _Function(path, classes, code)
        if not code.co_name.isidentifier():
            raise _OnlyAsAWhole
        classes = (*classes, code.co_name)


def _block(texts: Sequence[str], first: int) -> list[str]:
    """Return the lines of the function whose source begins at line ``first``: up to the next line of less indent.

    The bracket that ends the parameters may have the indent of the function. Another line inside of a text or of
    brackets may have less, too: the block is no valid Python then.
    """
    indent = len(texts[first - 1]) - len(texts[first - 1].lstrip())
    is_body = False
    for number in range(first, len(texts)):
        stripped = texts[number].lstrip()
        if stripped and stripped[0] != "#":
            if len(texts[number]) - len(stripped) > indent:
                is_body = True
            elif is_body and stripped[0] not in ")]}":
                return list(texts[first - 1 : number])
    return list(texts[first - 1 :])


def _whole_block(texts: Sequence[str], first: int) -> list[str]:
    """Return the same lines, found by :mod:`tokenize`: about ten times slower, and right for every function."""
    try:
        count = len(inspect.getblock([f"{line}\n" for line in texts[first - 1 :]]))
    except (IndentationError, tokenize.TokenError, SyntaxError, IndexError):
        raise _OnlyAsAWhole from None
    return list(texts[first - 1 : first - 1 + count])


def _parse(texts: Sequence[str], function: _Function, file: str) -> ast.Module:
    """Parse a function alone."""
    for block in (_block, _whole_block):
        try:
            return _parse_block(block(texts, function.code.co_firstlineno), function, file)
        except SyntaxError:
            pass
    raise _OnlyAsAWhole


def _parse_block(block: Sequence[str], function: _Function, file: str) -> ast.Module:
    """Parse a function inside of its classes, at its own lines; private names and ``super()`` need the classes."""
    indent = block[0][: len(block[0]) - len(block[0].lstrip())]
    headers = [f"class {name}:" for name in function.classes] or (["if True:"] if indent else [])
    start = function.code.co_firstlineno
    if len(headers) > len(indent) or len(headers) >= start:
        raise _OnlyAsAWhole
    above = [""] * (start - 1 - len(headers)) + [f"{indent[:n]}{header}" for n, header in enumerate(headers)]
    return ast.parse("\n".join([*above, *block]), file)


def _cut(tree: ast.Module) -> Union[ast.FunctionDef, ast.AsyncFunctionDef]:
    """Cut off all statements after the first function of ``tree``, and return the function."""
    del tree.body[1:]
    statement: ast.stmt = tree.body[0]
    while isinstance(statement, (ast.ClassDef, ast.If)):
        del statement.body[1:]
        statement = statement.body[0]
    if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise _OnlyAsAWhole
    return statement


def _code_of(module: CodeType, function: _Function) -> CodeType:
    """Return the code of the only function of ``module`` that stands for ``function``."""
    found = module
    for name in (*function.classes, function.code.co_name):
        inner = [each for each in found.co_consts if type(each) is CodeType and each.co_name == name]
        if len(inner) != 1:
            raise _OnlyAsAWhole
        found = inner[0]
    old = function.code
    same = (found.co_freevars, found.co_firstlineno, found.co_flags) == (
        old.co_freevars,
        old.co_firstlineno,
        old.co_flags,
    )
    if not same:  # type parameters of a class, say
        raise _OnlyAsAWhole
    return found


def with_parts(code: CodeType, parts: Iterable[Part]) -> CodeType:
    """Return the code of a module with parts of it replaced."""
    for place, part in parts:
        code = _replaced(code, place, part)
    return code


def _replaced(code: CodeType, path: Sequence[int], new: CodeType) -> CodeType:
    """Return ``code`` with the code at ``path`` replaced."""
    if not path:
        return new
    constants = list(code.co_consts)
    constants[path[0]] = _replaced(constants[path[0]], path[1:], new)
    return code.replace(co_consts=tuple(constants))


def nested(code: CodeType) -> Iterator[CodeType]:
    """Yield ``code`` and every code in it, in the order of the source."""
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from nested(constant)


def _in_function(statements: Iterable[ast.AST], line: int) -> bool:
    """Return true if ``line`` is in the body of a function among ``statements``: it runs when that is called."""
    for statement in statements:
        if isinstance(statement, ast.stmt) and not statement.lineno <= line <= (statement.end_lineno or line):
            continue
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if statement.body[0].lineno <= line:
                return True
        elif _in_function(ast.iter_child_nodes(statement), line):
            return True
    return False


def put_imports(tree: Body, needs: Mapping[str, Target], others: Sequence[ast.stmt] = ()) -> None:
    """Put imports, and ``others``, where the first statement may be.

    That is after the docstring and imports from ``__future__``.

    Args:
        tree: edited in place.
        needs: the objects to import, by name.
        others: further statements.
    """
    statements: list[ast.stmt] = [
        ast.ImportFrom(target.module, [ast.alias(str(target.path[0]), name)], 0) for name, target in needs.items()
    ]
    statements += others
    place = 0
    for number, statement in enumerate(tree.body):
        is_docstring = not number and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_docstring or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            place = number + 1
    position = tree.body[min(place, len(tree.body) - 1)]
    located = [ast.fix_missing_locations(ast.copy_location(statement, position)) for statement in statements]
    tree.body[place:place] = located
