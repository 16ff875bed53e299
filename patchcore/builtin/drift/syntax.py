"""Python source without details that change no behaviour: its digest, and the signature of a function, as text.

Both come from the syntax tree by rules of our own, not from :func:`ast.dump` or :func:`ast.unparse`, whose texts differ
between versions of Python. Left out are comments, layout, docstrings and other texts that stand alone, type comments,
the prefix of ``u""``, where a text is put together from several, and fields that only newer versions have and that are
empty. Decorators and annotations count.

Two things still depend on the version of Python: whether it can read a source at all (a ``match`` on 3.9), and
f-strings with quotes of the same kind inside, which 3.12 reads and older versions do not.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Union

__all__ = [
    "FunctionNode",
    "Shown",
    "default_text",
    "digest",
    "normalised",
    "relaid",
    "signature_text",
    "without_annotations",
]

FunctionNode = Union[ast.FunctionDef, ast.AsyncFunctionDef]

#: Decorators that do not read the annotations of their function.
_NOT_READING = frozenset({"staticmethod", "classmethod", "property", "abstractmethod", "override"})

#: Fields that describe how something was written, not its behaviour.
_SKIPPED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


def digest(nodes: Iterable[ast.AST]) -> str:
    """Return 16 hexadecimal digits that are equal for two sources exactly when they differ only in looks.

    Args:
        nodes: one syntax tree, or several that belong together.

    Raises:
        RecursionError: nested deeper than Python can follow.
    """
    parts: list[str] = []
    for node in nodes:
        _write(node, parts)
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def normalised(nodes: Iterable[ast.AST]) -> str:
    """Return the source of ``nodes`` without the details that do not count, for people; its layout is Python's.

    Raises:
        RecursionError: nested deeper than Python can follow.
    """
    kept: list[tuple[Any, list[Any]]] = []
    try:  # a copy of the tree would take twice the time of all the rest
        listed = list(nodes)
        for node in listed:
            for inner in ast.walk(node):
                body = getattr(inner, "body", None)
                if isinstance(body, list) and any(map(_is_idle, body)):  # of a module, class, function, loop, ...
                    kept.append((inner, body))
        for inner, body in kept:
            inner.body = _statements(body)
        return "\n".join(map(ast.unparse, listed))
    finally:
        for inner, body in kept:
            inner.body = body


def without_annotations(text: str) -> str:
    """Return the normalised source of a function without annotations, which Python does not look at in a call.

    A class, and a function with a decorator that may read them (``triton.jit``, ``custom_op``), stay as they are.
    """
    try:
        statements = ast.parse(text).body
    except (SyntaxError, RecursionError):  # written by a newer Python
        return text
    for statement in statements:
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return text
        if not all(isinstance(each, ast.Name) and each.id in _NOT_READING for each in statement.decorator_list):
            return text
        for node in ast.walk(statement):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                node.returns = None
            elif isinstance(node, ast.arg):
                node.annotation = None
            elif isinstance(node, ast.AnnAssign):
                node.annotation = ast.Constant(...)
    return "\n".join(map(ast.unparse, statements))


@functools.lru_cache(maxsize=1024)
def relaid(text: str) -> str:
    """Return a normalised source as this version of Python would lay it out."""
    try:
        return ast.unparse(ast.parse(text))
    except (SyntaxError, RecursionError):  # written by a newer Python
        return text


def signature_text(arguments: ast.arguments, *, bound: bool = False) -> str:
    """Return the parameters of a function with their defaults and without annotations, ``(x, *, scale=1.0)``.

    A default that is no literal or name is shown as ``...``.

    Args:
        arguments: of the function.
        bound: leave out the first positional parameter, ``self``.
    """
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    texts = [
        parameter.arg if i < missing else f"{parameter.arg}={default_text(arguments.defaults[i - missing])}"
        for i, parameter in enumerate(positional)
    ]
    if arguments.posonlyargs:
        texts.insert(len(arguments.posonlyargs), "/")
    if bound and texts:
        del texts[: 2 if texts[1:2] == ["/"] else 1]
    if arguments.vararg is not None:
        texts.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        texts.append("*")
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        texts.append(parameter.arg if default is None else f"{parameter.arg}={default_text(default)}")
    if arguments.kwarg is not None:
        texts.append(f"**{arguments.kwarg.arg}")
    return f"({', '.join(texts)})"


def default_text(node: ast.expr) -> str:
    """Return the default value of a parameter as text, ``...`` if it is no literal or name."""
    if isinstance(node, ast.Constant):
        return "..." if node.value is ... else ascii(node.value)
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
        return f"{default_text(node.value)}.{node.attr}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"-{default_text(node.operand)}"
    if isinstance(node, ast.Tuple):
        items = [default_text(item) for item in node.elts]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(node, ast.List):
        return f"[{', '.join(map(default_text, node.elts))}]"
    return "..."


class Shown:
    """Stands for a default value in a signature that is shown.

    Args:
        text: of the default.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, ast.Constant):
        parts.append(_constant(value.value))
    elif isinstance(value, ast.JoinedStr):
        _write_joined(value, parts)
    elif isinstance(value, ast.AST):
        parts.append(f"{type(value).__name__}(")
        for name in value._fields:
            field = getattr(value, name, None)
            if name in _SKIPPED or field is None or field == []:
                continue
            parts.append(f"{name}=")
            if isinstance(field, list):
                _write_list(_statements(field) if name == "body" else field, parts)
            else:
                _write(field, parts)
        parts.append(")")
    else:  # a name, a number of dots, an empty place in a list
        parts.append(f"{value!a};")


def _write_list(values: Sequence[Any], parts: list[str]) -> None:
    parts.append("[")
    for value in values:
        _write(value, parts)
    parts.append("]")


def _write_joined(node: ast.JoinedStr, parts: list[str]) -> None:
    """Write an f-string; how its texts are divided between constants is up to the version of Python."""
    parts.append("JoinedStr(")
    text = ""
    for value in node.values:
        if isinstance(value, ast.Constant):
            text += str(value.value)
            continue
        if text:
            parts.append(_constant(text))
            text = ""
        _write(value, parts)
    parts.append(f"{_constant(text) if text else ''})")


def _statements(body: list[Any]) -> list[Any]:
    """The statements of a body that do something, one ``pass`` where none does."""
    kept = [statement for statement in body if not _is_idle(statement)]
    return kept or [ast.Pass()]


def _is_idle(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _constant(value: Any) -> str:
    # hexadecimal: Python refuses to write very large numbers as decimal ones
    text = hex(value) if type(value) is int else ascii(value)
    return f"{type(value).__name__}:{text};"
