"""Parses a ``patch.py`` and finds the values of its names, without importing or running anything."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from patchcore import SettingsError
from patchcore.plugin import parse_source

__all__ = [
    "PATCHER",
    "Function",
    "ImportedName",
    "Scope",
    "Source",
    "Unknown",
    "called_name",
    "line_of",
    "receiver_root",
]

#: The package whose API the files that are read are written for.
PATCHER = "mx_driving.patcher"

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
_MAX_DEPTH = 20
#: The names of the package itself, and of the modules in it.
_SUBMODULE = re.compile(r"patcher|patch|legacy|version|reporting|patcher_logger|\w+_patch")


class Unknown(Exception):
    """Raised for code that cannot be translated, or whose value is known only when the program runs.

    Args:
        reason: why.
        advice: the remedy.
    """

    def __init__(self, reason: str, advice: str = "declare it by hand") -> None:
        super().__init__(reason)
        self.advice = advice


class ImportedName(ast.Name):
    """A name bound by an import inside a function.

    Args:
        local: the name.
        target: of the name, ``"mx_driving:npu_op"``; ``"mx_driving:"`` for a module.
        statement: the import of this name alone.
    """

    def __init__(self, local: str, target: str, statement: str) -> None:
        super().__init__(local, ast.Load())
        self.target = target
        self.statement = statement


class Scope:
    """The expressions that names stand for at one place of the program.

    Args:
        constants: expressions by name that the module assigns once.
        owner: the class that ``cls`` stands for, if any.
        is_module: whether this is the place outside of functions.
    """

    def __init__(
        self, constants: Mapping[str, ast.expr], *, owner: Optional[str] = None, is_module: bool = False
    ) -> None:
        self.constants = constants
        self.owner = owner
        self.is_module = is_module
        #: Expressions by local name, ``None`` if the value is not known.
        self.names: dict[str, Optional[ast.expr]] = {}

    def bind(self, target: ast.expr, value: Optional[ast.expr]) -> None:
        """Record an assignment to one or several names; ``None`` is an unknown value."""
        followed = None if value is None else self.follow_local(value)
        if isinstance(target, ast.Name):
            self.names[target.id] = followed
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts: list[Optional[ast.expr]] = [None] * len(target.elts)
            if isinstance(followed, (ast.Tuple, ast.List)) and len(followed.elts) == len(target.elts):
                parts = list(followed.elts)
            for element, part in zip(target.elts, parts):
                self.bind(element, part)

    def bind_import(self, statement: Union[ast.Import, ast.ImportFrom]) -> None:
        """Record the names that an import inside a function binds."""
        for alias in statement.names:
            local = alias.asname or alias.name.partition(".")[0]
            if isinstance(statement, ast.Import):
                target = f"{alias.name if alias.asname else local}:"
                self.names[local] = ImportedName(local, target, ast.unparse(ast.Import([alias])))
            elif statement.level or not statement.module:
                self.names[local] = None
            else:
                alone = ast.unparse(ast.ImportFrom(statement.module, [alias], 0))
                self.names[local] = ImportedName(local, f"{statement.module}:{alias.name}", alone)

    def copy(self) -> Scope:
        """Return a scope with the same names."""
        made = Scope(self.constants, owner=self.owner, is_module=self.is_module)
        made.names.update(self.names)
        return made

    def follow(self, node: ast.expr) -> ast.expr:
        """Return the expression that a name stands for, or ``node`` itself if it is no name with a known value."""
        for _ in range(_MAX_DEPTH):
            node = self.follow_local(node)
            constant = self.constants.get(node.id) if isinstance(node, ast.Name) and node.id not in self.names else None
            if constant is None:
                break
            node = constant
        return node

    def follow_local(self, node: ast.expr) -> ast.expr:
        """Return the expression that a name of the function around stands for, or ``node`` itself."""
        for _ in range(_MAX_DEPTH):
            found = self.names.get(node.id) if isinstance(node, ast.Name) else None
            if found is None or found is node:
                break
            node = found
        return node

    def items(self, node: ast.expr) -> list[ast.expr]:
        """Return the elements of a list, a tuple, a set, or of ``.items()`` of a dictionary.

        Raises:
            Unknown: it is something else.
        """
        node = self.follow(node)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return list(self.spread(node.elts))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("list", "set", "tuple"):
            return self.items(node.args[0]) if node.args else []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items":
            table = self.follow(node.func.value)
            if isinstance(table, ast.Dict) and not node.args:
                return [ast.Tuple([key, value], ast.Load()) for key, value in zip(table.keys, table.values) if key]
        raise Unknown(f"{ast.unparse(node)} is no list that is written out")

    def spread(self, nodes: list[ast.expr]) -> Iterator[ast.expr]:
        """Yield arguments or elements; a starred one is replaced by its elements.

        Raises:
            Unknown: the starred value is no list that is written out.
        """
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.items(node.value)
            else:
                yield node

    def literal(self, node: ast.expr, depth: int = 0) -> Any:
        """Return the value of an expression made of literals and of names for literals.

        Raises:
            Unknown: it is made of something else.
        """
        node = self.follow(node)
        if depth > _MAX_DEPTH:
            raise Unknown("it is defined by itself")
        if isinstance(node, ast.JoinedStr):
            return "".join(str(self.literal(part, depth + 1)) for part in node.values)
        if isinstance(node, ast.FormattedValue) and node.conversion == -1 and node.format_spec is None:
            return self.literal(node.value, depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.literal(node.left, depth + 1), self.literal(node.right, depth + 1)
            if type(left) is type(right) and isinstance(left, (str, list, tuple, int, float)):
                return left + right
        if isinstance(node, (ast.List, ast.Tuple)):
            elements = [self.literal(element, depth + 1) for element in self.spread(node.elts)]
            return elements if isinstance(node, ast.List) else tuple(elements)
        if isinstance(node, ast.Dict) and all(node.keys):
            keys = [self.literal(key, depth + 1) for key in node.keys if key]
            return dict(zip(keys, (self.literal(value, depth + 1) for value in node.values)))
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise Unknown(f"{ast.unparse(node)} is computed") from None

    def text(self, node: ast.expr) -> str:
        """Return the value of an expression that is a text.

        Raises:
            Unknown: it is none, or not known.
        """
        value = self.literal(node)
        if not isinstance(value, str):
            raise Unknown(f"{value!r} is no text")
        return value

    def reference(self, node: ast.expr) -> str:
        """Return the reference that an expression of names and dots is: ``"SparseConv._forward"`` of the file.

        A name that a function has imported itself is returned as a target, ``"mx_driving:npu_op"``.

        Raises:
            Unknown: it is something else, or a name that only a function has.
        """
        node = self.follow_local(node)
        if isinstance(node, ast.Attribute):
            inner = self.reference(node.value)
            return f"{inner}{'' if inner.endswith(':') else '.'}{node.attr}"
        if isinstance(node, ImportedName):
            return node.target
        if isinstance(node, ast.Name):
            if node.id == "cls" and self.owner is not None:
                return self.owner
            if node.id in self.names:
                raise Unknown(f"{node.id} is computed, or made, inside a function")
            return node.id
        raise Unknown(f"{ast.unparse(node)} is computed")


class Source(NamedTuple):
    """A parsed file.

    Args:
        path: of the file.
        text: of the file.
        tree: the module.
        from_patcher: names that are imported from :data:`PATCHER`, with the names they have there.
        defined: every name of the module: functions, classes, imports, assignments.
        constants: names that are assigned once, with their values.
    """

    path: Path
    text: str
    tree: ast.Module
    from_patcher: Mapping[str, str]
    defined: Mapping[str, ast.stmt]
    constants: Mapping[str, ast.expr]

    @classmethod
    def read(cls, path: Path) -> Source:
        """Read and parse ``path``.

        Raises:
            SettingsError: it cannot be read, or is no Python.
        """
        try:
            with tokenize.open(str(path)) as stream:  # uses the encoding that the file declares
                text = stream.read()
            tree = parse_source(text, str(path))
        except OSError as error:
            raise SettingsError(f"--from {path} cannot be read: {error}") from error
        except (SyntaxError, ValueError) as error:
            raise SettingsError(f"--from {path} is no Python: {error}") from error
        defined: dict[str, ast.stmt] = {}
        constants: dict[str, Optional[ast.expr]] = {}
        from_patcher: dict[str, str] = {}
        for statement in _statements(tree.body):
            for name, value in _definitions(statement):
                constants[name] = None if name in defined else value
                defined[name] = statement
        for node in ast.walk(tree):  # imports inside functions too
            if isinstance(node, ast.ImportFrom) and _is_patcher(node):
                from_patcher.update((alias.asname or alias.name, alias.name) for alias in node.names)
        for node in ast.walk(tree):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                constants[node.target.id] = None
            elif isinstance(node, ast.Global):
                constants.update(dict.fromkeys(node.names))
        if not any(_imports_patcher(node) for node in ast.walk(tree)):
            raise SettingsError(
                f"--from {path}: it imports nothing from {PATCHER}, there is nothing to translate; "
                "a module that such a file imports is copied next to replacements.py"
            )
        known = {name: value for name, value in constants.items() if value is not None}
        ours = {name: found for name, found in from_patcher.items() if _may_be_imported(defined.get(name))}
        return cls(path, text, tree, ours, defined, known)

    def imported(self, node: ast.expr) -> Optional[str]:
        """Return the name in the patcher's package that ``node`` stands for, ``None`` where it is something else."""
        if isinstance(node, ast.Name):
            return self.from_patcher.get(node.id)
        if isinstance(node, ast.Attribute) and self._is_patcher_module(node.value):
            return node.attr
        return None

    def function(self, reference: str) -> Optional[Function]:
        """Return the function or method of this file that a reference names."""
        name, _, attribute = reference.partition(".")
        found: Optional[ast.AST] = self.defined.get(name)
        if attribute and isinstance(found, ast.ClassDef):
            found = self.member(found, attribute)
        return found if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)) else None

    def member(self, owner: ast.ClassDef, name: str) -> Optional[ast.stmt]:
        """Return the statement that defines ``name`` in a class, or in one of its bases in this file."""
        for statement in reversed(owner.body):
            if any(name == defined for defined, _ in _definitions(statement)):
                return statement
        for base in owner.bases:
            found = self.defined.get(base.id) if isinstance(base, ast.Name) else None
            if isinstance(found, ast.ClassDef) and found is not owner:
                inherited = self.member(found, name)
                if inherited is not None:
                    return inherited
        return None

    def _is_patcher_module(self, node: ast.expr) -> bool:
        dotted = ast.unparse(node)
        if _is_inside(dotted):
            return True
        statement = self.defined.get(dotted)
        if isinstance(statement, ast.Import):
            return any(
                alias.asname == dotted and f"{alias.name}.".startswith(f"{PATCHER}.") for alias in statement.names
            )
        if isinstance(statement, ast.ImportFrom):  # from mx_driving import patcher as p
            names = [alias.name for alias in statement.names if (alias.asname or alias.name) == dotted]
            return any(_is_inside(f"{statement.module}.{name}") and _SUBMODULE.fullmatch(name) for name in names)
        return False


def line_of(call: ast.Call) -> int:
    """Return the line of a call; in a chain, of its own part."""
    return (call.func.end_lineno or call.lineno) if isinstance(call.func, ast.Attribute) else call.lineno


def called_name(call: ast.Call) -> str:
    """Return the last name of the called expression: ``add`` of ``patcher.add(X)``, ``""`` where there is none."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def receiver_root(node: ast.expr) -> ast.expr:
    """Return the first object of a chain of calls and attributes: ``patcher`` of ``patcher.disable(X).add``."""
    while isinstance(node, ast.Attribute) or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported, also those in branches."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from _statements(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from _statements(handler.body)


def _definitions(statement: ast.stmt) -> Iterator[tuple[str, Optional[ast.expr]]]:
    """Yield the names that a statement defines, with their values."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name, None
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0], None
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    yield name.id, statement.value if name is target else None
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id, statement.value


def _may_be_imported(definition: Optional[ast.stmt]) -> bool:
    """Return whether the last definition of a name in the module, if any, is an import from the patcher."""
    return definition is None or (isinstance(definition, ast.ImportFrom) and _is_patcher(definition))


def _is_patcher(node: ast.ImportFrom) -> bool:
    return node.level == 0 and _is_inside(node.module or "")


def _imports_patcher(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(_is_inside(alias.name) for alias in node.names)
    if not isinstance(node, ast.ImportFrom):
        return False
    return _is_patcher(node) or any(_is_inside(f"{node.module}.{alias.name}") for alias in node.names)


def _is_inside(module: str) -> bool:
    return f"{module}.".startswith(f"{PATCHER}.")
