"""``import torch_npu``, once, where torch is imported."""

from __future__ import annotations

from typing import Any, Optional

import libcst as cst

from npu_migrate.migrate.recording import Record
from npu_migrate.migrate.syntax import dotted

__all__ = ["import_torch_npu"]

_RULE = "import.torch_npu"
_MODULE = "torch_npu"


def import_torch_npu(record: Record) -> None:
    """Make the module import torch_npu, if anything in it needs that and it does not do so yet.

    Where: behind the first import of torch, also when that is inside ``try`` or ``if``; where torch is imported in
    functions only, in each of those that needs it; where torch is not imported at all, behind the first imports.
    """
    program = record.program
    if not record.uses_npu:
        return
    imports = [node for node in program.imports if not _is_for_types(record, node)]
    have = {program.outermost_function(node) for node in imports if _imports(node, _MODULE)}
    if None in have:
        return
    of_torch = [(node, program.outermost_function(node)) for node in imports if _imports(node, "torch")]
    outside = [node for node, function in of_torch if function is None]
    if outside:
        _insert_behind(record, outside[0])
    elif of_torch:
        users = {program.outermost_function(node) for node in record.uses_npu}
        done: set[Any] = set(have)
        for node, function in of_torch:
            if function in users and function not in done:
                done.add(function)
                _insert_behind(record, node)
    else:
        _insert_at_top(record)


def _imports(node: Any, package: str) -> bool:
    if isinstance(node, cst.ImportFrom):
        return package == "torch" and not node.relative and node.module is not None and _root(node.module) == package
    return any(_root(alias.name) == package and (package == "torch" or alias.asname is None) for alias in node.names)


def _root(node: Any) -> str:
    return str(dotted(node)).partition(".")[0]


def _is_for_types(record: Record, node: cst.CSTNode) -> bool:
    """True if an import is below ``if TYPE_CHECKING:``, and never run."""
    parent: Optional[cst.CSTNode] = record.program.parents.get(node)
    while parent is not None:
        if isinstance(parent, cst.If) and str(dotted(parent.test)).rpartition(".")[2] == "TYPE_CHECKING":
            return True
        parent = record.program.parents.get(parent)
    return False


def _line(record: Record) -> cst.SimpleStatementLine:
    """The statement; for its side effect, where the name is not used, which linters are told."""
    statement = cst.parse_statement(f"import {_MODULE}")
    assert isinstance(statement, cst.SimpleStatementLine)
    if record.names_torch_npu:
        return statement
    comment = cst.TrailingWhitespace(whitespace=cst.SimpleWhitespace("  "), comment=cst.Comment("# noqa: F401"))
    return statement.with_changes(trailing_whitespace=comment)


def _insert_behind(record: Record, node: Any) -> None:
    statement = record.program.statement(node)
    record.note_change(node, "", f"import {_MODULE}", _RULE, "adds the NPU to torch")
    if isinstance(statement, cst.SimpleStatementLine):
        record.edits.after(statement, [_line(record)])
        return
    semicolon = cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" "))
    extra = cst.Import([cst.ImportAlias(cst.Name(_MODULE))], semicolon=node.semicolon)
    record.edits.change(node, lambda last: cst.FlattenSentinel([last.with_changes(semicolon=semicolon), extra]))


def _insert_at_top(record: Record) -> None:
    body = record.program.module.body
    last = None
    for statement in body:
        is_docstring = last is None and _is_text(statement)
        if not is_docstring and not _is_import(statement):
            break
        last = statement
    anchor = last if last is not None else body[0]
    record.note_change(anchor, "", f"import {_MODULE}", _RULE, "adds the NPU to torch")
    if last is not None:
        record.edits.after(last, [_line(record)])
    else:
        record.edits.before(anchor, [_line(record)])


def _is_text(statement: Any) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(part, cst.Expr) and isinstance(part.value, (cst.SimpleString, cst.ConcatenatedString))
        for part in statement.body
    )


def _is_import(statement: Any) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(part, (cst.Import, cst.ImportFrom)) for part in statement.body
    )
