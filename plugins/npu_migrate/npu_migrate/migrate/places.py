"""Finds places that expect a device, a backend or a tensor type: arguments, comparisons, options, configurations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

import libcst as cst

from npu_migrate.migrate.flow import Flow
from npu_migrate.migrate.names import Names
from npu_migrate.migrate.program import Program, arguments
from npu_migrate.migrate.rules import Rule, RuleTable
from npu_migrate.migrate.syntax import dotted, literal
from npu_migrate.migrate.values import parts

__all__ = ["expect_values"]

_PARTIAL = "functools.partial"
_COMPARED = (cst.Equal, cst.NotEqual, cst.In, cst.NotIn, cst.Is, cst.IsNot)


def expect_values(program: Program, names: Names, table: RuleTable, flow: Flow) -> None:
    """Add every place that a rule has to ``flow``."""
    for call in program.calls:
        for node, rule in _of_call(call, names, table):
            flow.expect(node, rule)
    for comparison in program.comparisons:
        for node, rule in _of_comparison(comparison, names, table):
            flow.expect(node, rule)
    for text in program.texts:
        written = _of_entry(text, program, table)
        if written is not None:
            flow.expect(text, written)


def _of_call(call: cst.Call, names: Names, table: RuleTable) -> Iterator[tuple[Any, Rule]]:
    function, skip = call.func, 0
    meaning = names.meaning(function)
    if meaning is not None and meaning.name == _PARTIAL and call.args:
        function, skip = call.args[0].value, 1
        meaning = names.meaning(function)
    if meaning is not None:
        for rule in table.about("device_arg", meaning.name):
            for node in arguments(call, rule.position, rule.keywords, skip):
                yield node, rule
        found = table.find("device_kw", meaning.name)
        if found is not None:
            for node in arguments(call, None, found[0].keywords):
                yield node, found[0]
    elif isinstance(function, cst.Attribute):
        for rule in table.about("device_arg", f".{function.attr.value}"):
            for node in arguments(call, rule.position, rule.keywords, skip):
                yield node, rule
        if function.attr.value in ("startswith", "__eq__") and call.args:
            compared = _compared(function.value, names, table)
            if compared is not None:
                yield call.args[0].value, compared
    yield from _of_option(call, table)


def _of_option(call: cst.Call, table: RuleTable) -> Iterator[tuple[Any, Rule]]:
    """``add_argument("--device", default="cuda")``, and options of other libraries that are declared like it."""
    for argument in call.args:
        option = literal(argument.value) if argument.keyword is None else None
        for rule in table.about("argparse_default", option) if option else ():
            for node in arguments(call, None, ("default", "choices", "const")):
                yield node, rule


def _of_comparison(comparison: cst.Comparison, names: Names, table: RuleTable) -> Iterator[tuple[Any, Rule]]:
    if not all(isinstance(target.operator, _COMPARED) for target in comparison.comparisons):
        return
    sides = [comparison.left, *(target.comparator for target in comparison.comparisons)]
    for side in sides:
        rule = _compared(side, names, table)
        if rule is not None:
            for other in sides:
                if other is not side:
                    for part in parts(other, rule.value):
                        if part.new is not None:  # a value that a variable is compared with shows nothing about it
                            yield part.node, rule


def _compared(node: cst.BaseExpression, names: Names, table: RuleTable) -> Optional[Rule]:
    """The rule for something that is compared: a device, or the backend in use."""
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Name) and node.func.value in ("str", "repr") and len(node.args) == 1:
            return _compared(node.args[0].value, names, table)
        meaning = names.meaning(node.func)
        if meaning is not None:
            found = table.about("compare", meaning.name)
        elif isinstance(node.func, cst.Attribute):
            if node.func.attr.value in ("lower", "strip"):
                return _compared(node.func.value, names, table)
            found = table.about("compare", f".{node.func.attr.value}()")
        else:
            found = ()
        return found[0] if found else None
    if not isinstance(node, (cst.Name, cst.Attribute)) or names.meaning(node) is not None:
        return None
    last = node.value if isinstance(node, cst.Name) else node.attr.value
    candidates = [last]
    if isinstance(node, cst.Attribute):
        owner = node.value
        if isinstance(owner, cst.Attribute):
            candidates.append(f"{owner.attr.value}.{last}")
        elif isinstance(owner, cst.Name):
            candidates.append(f"{owner.value}.{last}")
    return next((rule for name in candidates for rule in table.about("compare", name)), None)


def _of_entry(text: Any, program: Program, table: RuleTable) -> Optional[Rule]:
    """The rule for an entry of a dictionary, such as ``dist_params = dict(backend="nccl")``."""
    parent = program.parents.get(text)
    key: Optional[str] = None
    if isinstance(parent, cst.Arg) and parent.keyword is not None:
        owner = program.parents[parent]
        key = parent.keyword.value if isinstance(owner, cst.Call) and dotted(owner.func) == "dict" else None
    elif isinstance(parent, cst.DictElement) and parent.value is text:
        owner = program.parents[parent]
        key = literal(parent.key)
    if key is None:
        return None
    holder = program.parents.get(owner)
    container: Optional[str] = None
    if isinstance(holder, cst.Assign):
        container = dotted(holder.targets[0].target)
    elif isinstance(holder, cst.Arg) and holder.keyword is not None:
        container = holder.keyword.value
    elif isinstance(holder, cst.DictElement):
        container = literal(holder.key)
    found = table.about("config", f"{container}.{key}") if container else ()
    return found[0] if found else None
