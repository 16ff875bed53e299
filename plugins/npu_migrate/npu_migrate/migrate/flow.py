"""From the places where a device is expected back to the texts that get there.

``device = "cuda"`` means an NPU because ``model.to(device)`` follows. Variables, defaults and arguments of functions
and methods of the same module, and attributes are followed; a variable that also is the key of a dictionary is not.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import libcst as cst
from libcst import metadata as md

from npu_migrate.migrate.names import Names
from npu_migrate.migrate.program import Program, arguments
from npu_migrate.migrate.rules import Rule
from npu_migrate.migrate.syntax import root
from npu_migrate.migrate.values import parts

__all__ = ["Arrival", "Flow"]


class Arrival(NamedTuple):
    """A text that gets to where a device is expected.

    Args:
        rule: that tells so.
        new: the new text.
    """

    rule: Rule
    new: cst.BaseExpression


class Flow:
    """The values that arrive at places; :meth:`expect` adds a place.

    Args:
        program: the module.
        names: its names.
    """

    def __init__(self, program: Program, names: Names) -> None:
        self.program = program
        self.names = names
        self.arrivals: dict[cst.CSTNode, Arrival] = {}
        self._seen: set[Any] = set()

    def expect(self, node: Optional[cst.BaseExpression], rule: Rule) -> None:
        """Follow ``node``, where a device is expected (or a value of the kind ``rule.value``), to texts."""
        for part in parts(node, rule.value):
            if part.new is not None:
                self.arrivals.setdefault(part.node, Arrival(rule, part.new))
            elif isinstance(part.node, cst.Name):
                self._follow_name(part.node, rule)
            elif isinstance(part.node, cst.Attribute):
                self._follow_attribute(part.node, rule)

    def _follow_name(self, name: cst.Name, rule: Rule) -> None:
        assignments = self.names.local(name)
        if any(self._is_key(reference.node) for assignment in assignments for reference in assignment.references):
            return
        for assignment in assignments:
            key = id(assignment), rule.value
            if key in self._seen:
                continue
            self._seen.add(key)
            self.expect(self.names.value_of(assignment), rule)
            if isinstance(assignment.node, cst.Param):
                self._follow_parameter(assignment.node, rule)
            for reference in assignment.references:
                self._compared(reference.node, rule)

    def _follow_attribute(self, node: cst.Attribute, rule: Rule) -> None:
        name = node.attr.value
        base = root(node)
        if (name, rule.value) in self._seen or (base is not None and self.names.meaning(node) is not None):
            return
        self._seen.add((name, rule.value))
        for value in self.program.values.get(name, ()):
            self.expect(value, rule)

    def _follow_parameter(self, parameter: cst.Param, rule: Rule) -> None:
        self.expect(parameter.default, rule)
        function = self.names.enclosing(parameter, cst.FunctionDef, cst.Lambda)
        if not isinstance(function, cst.FunctionDef):
            return
        positional = [*function.params.posonly_params, *function.params.params]
        position = next((index for index, other in enumerate(positional) if other is parameter), None)
        owner = self.names.enclosing(function, cst.FunctionDef, cst.ClassDef)
        if isinstance(owner, cst.ClassDef):
            is_static = any(
                isinstance(d.decorator, cst.Name) and d.decorator.value == "staticmethod" for d in function.decorators
            )
            position = position - 1 if position is not None and not is_static else position
            calls = self._calls_of_method(owner, function.name.value)
        else:
            calls = self._calls_of(function)
        for call in calls:
            for value in arguments(call, position, (parameter.name.value,)):
                self.expect(value, rule)

    def _calls_of(self, defined: Any) -> list[cst.Call]:
        scope = self.names.scopes.get(defined)
        found = []
        for assignment in scope[defined.name.value] if scope is not None else ():
            if type(assignment) is md.Assignment and assignment.node is defined:
                for reference in assignment.references:
                    call = self.program.parents.get(reference.node)
                    if isinstance(call, cst.Call) and call.func is reference.node:
                        found.append(call)
        return found

    def _calls_of_method(self, owner: cst.ClassDef, name: str) -> list[cst.Call]:
        if name == "__init__":
            return self._calls_of(owner)
        return [
            call
            for call in self.program.calls
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value == name
            and isinstance(call.func.value, cst.Name)
            and call.func.value.value in ("self", "cls", owner.name.value)
        ]

    def _compared(self, node: cst.CSTNode, rule: Rule) -> None:
        comparison = self.names.parents.get(node)
        if isinstance(comparison, cst.ComparisonTarget):
            comparison = self.names.parents.get(comparison)
        if not isinstance(comparison, cst.Comparison):
            return
        for side in (comparison.left, *(target.comparator for target in comparison.comparisons)):
            if side is not node:
                self.expect(side, rule)

    def _is_key(self, node: cst.CSTNode) -> bool:
        return isinstance(self.names.parents.get(node), (cst.Index, cst.DictElement))
