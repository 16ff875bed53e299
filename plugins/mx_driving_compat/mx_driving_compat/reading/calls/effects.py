"""Finds the effects of importing a file. They would happen again when the copy is imported, and are not reverted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mx_driving_compat.reading.calls.atomic import brief
from mx_driving_compat.reading.declarations import Remark
from mx_driving_compat.reading.program.source import PATCHER, Function, Source
from mx_driving_compat.reading.program.walking import run_at_once

__all__ = ["effects"]

_WHENEVER = "runs whenever replacements.py is imported, and is not taken back"


def effects(source: Source) -> list[Remark]:
    """Return the advice on calls and assignments at import, relative imports and global variables."""
    remarks = list(_relative_imports(source))
    for statement in run_at_once(source.tree.body):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            remarks += _call(source, statement.value)
        elif isinstance(statement, ast.Assign):
            remarks += _assignment(statement)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Global):
            names = ", ".join(node.names)
            advice = "it keeps its value when the patch is reverted; keep it in the object that is patched"
            remarks.append(Remark(node.lineno, f"global {names}", advice))
    return remarks


def _call(source: Source, call: ast.Call) -> Iterator[Remark]:
    function = source.function(call.func.id) if isinstance(call.func, ast.Name) else None
    changes = list(_assignments_inside(function)) if function is not None else []
    does = "; declare what it does as patches, and delete the call" if changes or function else ""
    yield Remark(call.lineno, brief(call), f"it {_WHENEVER}{does or '; delete it where a patch does the same'}")
    yield from changes


def _assignments_inside(function: Function) -> Iterator[Remark]:
    for node in run_at_once(function.body):
        if isinstance(node, ast.Assign):
            yield from _assignment(node)


def _assignment(node: ast.Assign) -> Iterator[Remark]:
    for target in node.targets:
        if isinstance(target, ast.Subscript) and ast.unparse(target.value) == "sys.modules":
            module = ast.unparse(target.slice)
            yield Remark(node.lineno, brief(node), f"declare pc.StubImport({module}), and delete the line")
        elif isinstance(target, ast.Attribute):
            advice = f"it {_WHENEVER}; declare pc.Replace of {ast.unparse(target)}, and delete the line"
            yield Remark(node.lineno, brief(node), advice)


def _relative_imports(source: Source) -> Iterator[Remark]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            advice = "copy the module next to replacements.py, and change its imports of mx_driving.patcher, too"
            if node.level > 1:
                advice = "import it by its full name in replacements.py"
            yield Remark(node.lineno, ast.unparse(node), advice)
        elif isinstance(node, ast.ImportFrom) and _is_star_of_patcher(node):
            yield Remark(node.lineno, ast.unparse(node), "what the names are cannot be told; import them by name")


def _is_star_of_patcher(node: ast.ImportFrom) -> bool:
    return f"{node.module}.".startswith(f"{PATCHER}.") and any(alias.name == "*" for alias in node.names)
