"""Texts: environment variables, and texts like devices that no other step has changed."""

from __future__ import annotations

from typing import Any

import libcst as cst

from npu_migrate.migrate.extensions import operators
from npu_migrate.migrate.names import Names
from npu_migrate.migrate.program import Program
from npu_migrate.migrate.recording import Record
from npu_migrate.migrate.rules import RuleTable
from npu_migrate.migrate.syntax import literal, with_text
from npu_migrate.migrate.values import is_value

__all__ = ["convert_environment", "report_kernels", "report_leftovers"]

_OF_ENVIRON = frozenset(f"os.environ.{name}" for name in ("get", "pop", "setdefault", "__contains__", "__getitem__"))
_READERS = _OF_ENVIRON | {"os.getenv", "os.putenv", "os.unsetenv", "os.environb.get"}
_SHELLS = frozenset(
    (
        "os.system",
        "os.popen",
        *(f"subprocess.{name}" for name in ("run", "call", "Popen", "check_call", "check_output")),
    )
)
#: The name of a leftover in the rules.
_WORDS = {"device": "cuda", "tensor_type": "cuda", "backend": "nccl"}


def convert_environment(record: Record, names: Names, table: RuleTable) -> None:
    """Rewrite the names of environment variables where the environment of this process is meant; report others."""
    variables = table.names_of("env")
    for node in record.program.texts:
        text = literal(node)
        if text in variables:
            for rule in table.about("env", text):
                if rule.level == "auto" and _is_of_environment(node, record.program, names):
                    record.edit(node, with_text(node, str(rule.replace)), rule, npu=False)
                else:
                    record.report(node, rule, suggestion=rule.replace or "")
    for call in record.program.calls:
        meaning = names.meaning(call.func)
        is_shell = meaning is not None and meaning.name in _SHELLS
        for argument in call.args:
            if argument.keyword is not None and argument.keyword.value in variables:
                for rule in table.about("env", argument.keyword.value):
                    record.report(argument, rule, suggestion=rule.replace or "")
            elif is_shell and isinstance(
                argument.value, (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString)
            ):
                command = record.program.module.code_for_node(argument.value)
                for name in sorted(variables):
                    if name in command:
                        record.report(argument, table.about("env", name)[0], "review", "in a command")
                        break


def _is_of_environment(node: cst.CSTNode, program: Program, names: Names) -> bool:
    parent = program.parents[node]
    if isinstance(parent, cst.Index):
        subscript: Any = program.parents[program.parents[parent]]
        return _name(names, subscript.value) == "os.environ"
    if isinstance(parent, cst.Arg):
        call: Any = program.parents[parent]
        return isinstance(call, cst.Call) and call.args[0] is parent and _name(names, call.func) in _READERS
    if isinstance(parent, cst.Comparison) and len(parent.comparisons) == 1:
        target = parent.comparisons[0]
        return isinstance(target.operator, (cst.In, cst.NotIn)) and _name(names, target.comparator) == "os.environ"
    return False


def _name(names: Names, node: cst.BaseExpression) -> str:
    meaning = names.meaning(node)
    return meaning.name if meaning is not None and meaning.sure else ""


def report_kernels(record: Record, table: RuleTable) -> None:
    """Report CUDA kernels in texts, which ``load_inline`` or NVRTC compiles."""
    for node in record.program.texts:
        if isinstance(node, cst.SimpleString) and "__global__" in node.value:
            line, _ = record.program.position(node)
            record.findings += operators(node.raw_value, table, record.file, line=line)


def report_leftovers(record: Record, table: RuleTable) -> None:
    """Report texts that are nothing but a device, backend or type of tensors, and that no other rule was about."""
    for node in record.program.texts:
        looks = None if isinstance(record.program.parents[node], cst.ConcatenatedString) else is_value(node)
        if looks is not None and node not in record.edits and not record.keeps(node):
            for rule in table.about("string", _WORDS[looks]):
                record.report(node, rule)
