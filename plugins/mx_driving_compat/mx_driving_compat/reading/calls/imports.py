"""Reads ``skip_import``, ``replace_import`` and ``inject_import``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Callable, NamedTuple, Optional

from mx_driving_compat.reading.calls.atomic import AtomicReader, brief
from mx_driving_compat.reading.declarations import Construction, problem_of
from mx_driving_compat.reading.program.source import Scope, Unknown
from mx_driving_compat.reading.program.walking import FoundCall

__all__ = ["IMPORT_CALLS", "ImportPatch"]

_INJECTED = ("source_module", "class_name", "target_module")


class ImportPatch(NamedTuple):
    """A patch that changes imports.

    Args:
        name: the last part of its name.
        summary: one line.
        changes: of the patch.
    """

    name: str
    summary: str
    changes: tuple[Construction, ...]


def _skip_import(found: FoundCall, reader: AtomicReader) -> list[ImportPatch]:
    """Return a patch for each library, and one for the modules inside it, which needs the library."""
    modules = list(dict.fromkeys(found.scope.text(node) for node in found.scope.spread(found.node.args)))
    if not modules:
        raise Unknown("it names no module")
    groups: dict[tuple[str, bool], list[str]] = {}
    for module in modules:
        root, _, inner = module.partition(".")
        groups.setdefault((root, bool(inner)), []).append(module)
    return [_stubs(root, members) for (root, _), members in groups.items()]


def _stubs(root: str, modules: list[str]) -> ImportPatch:
    changes = _checked(*(Construction("StubImport", (module,)) for module in modules))
    if len(modules) == 1:
        return ImportPatch(f"stub.{modules[0]}", f"import without {modules[0]}", changes)
    return ImportPatch(f"stub.{root}.modules", f"import without some modules of {root}", changes)


def _inject_import(found: FoundCall, reader: AtomicReader) -> list[ImportPatch]:
    given = _arguments(found, _INJECTED)
    if set(given) != set(_INJECTED):
        raise Unknown("it takes a module, a name and the module that gets it")
    source, name, into = (found.scope.text(given[key]) for key in _INJECTED)
    change = Construction("InjectImport", (source, name, into))
    return [ImportPatch(f"inject.{name}", f"{name} in {into}", _checked(change))]


def _replace_import(found: FoundCall, reader: AtomicReader) -> list[ImportPatch]:
    scope = found.scope
    given = _arguments(found, ("module_path", "replacement"))
    if "module_path" not in given:
        raise Unknown("it names no module")
    module = scope.text(given.pop("module_path"))
    others = [given.pop(name, None) for name in ("base_module", "replacement")]
    other: Optional[ast.expr] = next((scope.follow(node) for node in others if node is not None), None)
    exports = dict(_exports(scope, given.pop("exports", None)))
    exports.update(given)
    if isinstance(other, ast.Call):  # replace_with.module("other", Name=object)
        inner = _arguments(FoundCall(other, scope, found.conditions), ("base",))
        other = inner.pop("base", None)
        exports.update(inner)
    if other is not None and exports:
        raise Unknown("a module that is taken with changes", "write that module, and replace the import with it")
    with_: Any = {name: _export(scope, name, node, reader) for name, node in exports.items()}
    if other is not None:
        with_ = scope.text(other)
    change = Construction("ReplaceImport", (module,), {"with_": with_})
    return [ImportPatch(f"replace.{module}", f"another {module}", _checked(change))]


#: The reader of each of the calls.
IMPORT_CALLS: Mapping[str, Callable[[FoundCall, AtomicReader], list[ImportPatch]]] = {
    "skip_import": _skip_import,
    "replace_import": _replace_import,
    "inject_import": _inject_import,
}


def _arguments(found: FoundCall, names: tuple[str, ...]) -> dict[str, ast.expr]:
    given = dict(zip(names, found.scope.spread(found.node.args)))
    for keyword in found.node.keywords:
        if keyword.arg is None:
            raise Unknown(f"**{ast.unparse(keyword.value)} is computed")
        given[keyword.arg] = keyword.value
    return given


def _exports(scope: Scope, node: Optional[ast.expr]) -> Iterator[tuple[str, ast.expr]]:
    table = scope.follow(node) if node is not None else ast.Dict([], [])
    if not isinstance(table, ast.Dict) or not all(table.keys):
        raise Unknown(f"{brief(table)} is no dictionary that is written out")
    for key, value in zip(table.keys, table.values):
        if key is not None:
            yield scope.text(key), value


def _export(scope: Scope, name: str, node: ast.expr, reader: AtomicReader) -> Any:
    try:
        value = scope.literal(node)
    except Unknown:
        return reader.reference(node, scope, name)
    if isinstance(value, str):
        raise Unknown(f"the text {value!r} is exported", f"write pc.Literal({value!r}) for it")
    return value


def _checked(*changes: Construction) -> tuple[Construction, ...]:
    for problem in filter(None, map(problem_of, changes)):
        raise Unknown(problem)
    return changes
