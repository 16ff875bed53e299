"""Decorators for ``with_imports``, given as text or as a dotted path, and imported when they are needed."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Callable, Optional

from patchcore.errors import DeclarationError, did_you_mean
from patchcore.objects.modules import ABSENT, find_module, namespace

__all__ = ["DecoratorExpression", "DecoratorPath", "LazyDecorator", "is_dotted", "member"]

Lookup = Callable[[Sequence[str]], Any]


class LazyDecorator:
    """A decorator that is applied at the first call of the function."""

    #: The decorator as the migration wrote it.
    spec: Any
    #: The name that has to be imported for it, ``None`` if it imports what it needs itself.
    name: Optional[str] = None

    def resolve(self, scope: Mapping[str, Any]) -> Callable[[Any], Any]:
        """Return the decorator.

        Args:
            scope: objects by name.

        Raises:
            ImportError: the decorator does not exist.
        """
        raise NotImplementedError


class DecoratorExpression(LazyDecorator):
    """A decorator given as text, ``@name.name`` or ``@name.name(arguments)``; parsed, not evaluated.

    Args:
        spec: the text, which begins with ``@``.
    """

    def __init__(self, spec: str) -> None:
        self.spec = spec
        try:
            # A bracket instead of the @ keeps the columns, and allows spaces and line breaks.
            self._source = f"({spec[1:]}\n)"
            node: ast.expr = ast.parse(self._source, mode="eval").body
        except SyntaxError as error:
            raise DeclarationError(f"with_imports({spec!r}), column {error.offset}: {error.msg}") from None
        self._call = node if isinstance(node, ast.Call) else None
        self._callee = node if self._call is None else self._call.func
        path = _dotted(self._callee)
        if path is None:
            raise self._refusal(self._callee, "expected the name of a decorator, with or without arguments")
        self.name = path[0]
        self._arguments(lambda path: None)

    def resolve(self, scope: Mapping[str, Any]) -> Callable[[Any], Any]:
        def lookup(path: Sequence[str]) -> Any:
            if path[0] not in scope:
                raise ImportError(f"with_imports({self.spec!r}): {path[0]!r} is not imported{_near(path[0], scope)}")
            value = scope[path[0]]
            for i, name in enumerate(path[1:], 1):
                owner, value = value, member(value, name)
                if value is ABSENT:
                    raise ImportError(
                        f"with_imports({self.spec!r}): {'.'.join(path[:i])} has no {name!r}{_near(name, owner)}"
                    )
            return value

        decorator: Any = lookup(_dotted(self._callee) or ())
        if self._call is not None:
            args, kwargs = self._arguments(lookup)
            decorator = decorator(*args, **kwargs)
        return decorator  # type: ignore[no-any-return]

    def _arguments(self, lookup: Lookup) -> tuple[list[Any], dict[str, Any]]:
        if self._call is None:
            return [], {}
        kwargs = {}
        for keyword in self._call.keywords:
            if keyword.arg is None:
                raise self._refusal(keyword.value, "** cannot be used, write the arguments out")
            kwargs[keyword.arg] = self._value(keyword.value, lookup)
        return [self._value(node, lookup) for node in self._call.args], kwargs

    def _value(self, node: ast.expr, lookup: Lookup) -> Any:
        path = _dotted(node)
        if path is not None:
            return lookup(path)
        if isinstance(node, (ast.Tuple, ast.List)):
            values = [self._value(element, lookup) for element in node.elts]
            return values if isinstance(node, ast.List) else tuple(values)
        if isinstance(node, ast.Set):
            return {self._value(element, lookup) for element in node.elts}
        if isinstance(node, ast.Dict) and None not in node.keys:
            pairs = zip(node.keys, node.values)
            return {self._value(key, lookup): self._value(value, lookup) for key, value in pairs if key is not None}
        try:
            return ast.literal_eval(node)
        except (TypeError, ValueError):
            raise self._refusal(node, "expected a literal or a name") from None

    def _refusal(self, node: ast.expr, expected: str) -> DeclarationError:
        column = node.col_offset + 1
        found = ast.get_source_segment(self._source, node)
        return DeclarationError(f"with_imports({self.spec!r}), column {column}: {expected}, found {found!r}")


class DecoratorPath(LazyDecorator):
    """A decorator given by its dotted path and keyword arguments.

    Args:
        entry: the two.
    """

    def __init__(self, entry: tuple[str, Mapping[str, Any]]) -> None:
        self.spec = entry
        if not (
            isinstance(entry, (tuple, list))
            and len(entry) == 2
            and isinstance(entry[0], str)
            and is_dotted(entry[0])
            and isinstance(entry[1], Mapping)
        ):
            raise DeclarationError(
                f"with_imports(apply_decorators=[{entry!r}]): expected ('package.module.decorator', {{'name': value}})"
            )
        self._path, self._kwargs = entry

    def resolve(self, scope: Mapping[str, Any]) -> Callable[[Any], Any]:
        root, *names = self._path.split(".")
        value: Any = importlib.import_module(root)
        for name in names:
            owner, value = value, member(value, name)
            if value is ABSENT:
                raise ImportError(f"there is no {self._path}: {name!r} is not in {owner!r}{_near(name, owner)}")
        return value(**self._kwargs) if self._kwargs else value  # type: ignore[no-any-return]


def member(owner: Any, name: str) -> Any:
    """Return what ``from owner import name`` binds, ``ABSENT`` if there is no such name."""
    value = getattr(owner, name, ABSENT)
    if value is ABSENT and isinstance(owner, ModuleType) and find_module(f"{owner.__name__}.{name}"):
        return importlib.import_module(f"{owner.__name__}.{name}")
    return value


def is_dotted(path: str) -> bool:
    """Return whether ``path`` consists of identifiers with dots between them."""
    return all(part.isidentifier() for part in path.split("."))


def _dotted(node: ast.expr) -> Optional[list[str]]:
    """Return ``["a", "b"]`` for the expression ``a.b``, ``None`` for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else None


def _near(name: str, owner: Any) -> str:
    return did_you_mean(name, owner if isinstance(owner, Mapping) else namespace(owner) or {})
