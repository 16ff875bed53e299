"""``x.cuda()`` and ``x.is_cuda``, where the name alone shows the type of ``x``, or its class is the project's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Optional

import libcst as cst

from npu_migrate.migrate.facts import Owners
from npu_migrate.migrate.names import Names
from npu_migrate.migrate.recording import Record
from npu_migrate.migrate.rules import Rule, RuleTable
from npu_migrate.migrate.syntax import dotted

__all__ = ["convert_members"]


def convert_members(record: Record, names: Names, table: RuleTable, owned: Owners) -> None:
    """Rewrite and report members.

    Args:
        record: of the module.
        names: of the module.
        table: the rules.
        owned: the classes of the project that define such members.
    """
    members = _Members(record, names, owned)
    methods, attributes = table.names_of("method"), table.names_of("member")
    for call in record.program.calls:
        function = call.func
        if isinstance(function, cst.Attribute) and function.attr.value in methods:
            for rule in table.about("method", function.attr.value):
                members.convert(function, rule)
    for node in (*_links(record.program.chains), *record.program.members):
        if node.attr.value in attributes and node not in record.program.stores:
            for rule in table.about("member", node.attr.value):
                members.convert(node, rule)


def _links(chains: Sequence[cst.Attribute]) -> Iterator[cst.Attribute]:
    """``a.b.c`` and ``a.b`` of a chain ``a.b.c``."""
    for chain in chains:
        node: cst.BaseExpression = chain
        while isinstance(node, cst.Attribute):
            yield node
            node = node.value


class _Members:
    def __init__(self, record: Record, names: Names, owned: Owners) -> None:
        self.record = record
        self.names = names
        self.owned = owned
        self.source = record.program.module.code

    def convert(self, node: cst.Attribute, rule: Rule) -> None:
        """Convert ``receiver.member``, unless it is the project's own."""
        if self.names.meaning(node) is not None:  # a function of a module, which is a matter of qualified names
            return
        if rule.level != "auto":
            self.record.report(node.attr, rule)
            return
        new = node.attr.with_changes(value=str(rule.replace))
        member = node.attr.value
        classes = self.owned.get(member, frozenset())
        receiver = self.class_of(node.value)
        if receiver is not None and self.is_own(receiver, classes):
            return
        if isinstance(node.value, cst.Name) and node.value.value == "self" and rule.kind == "member":
            if not self.has_base(receiver, "Tensor", "Parameter"):
                self.record.report(
                    node, rule, note="an attribute of an object of this class", suggestion=f"self.{rule.replace}"
                )
                return
        elif receiver is None and self.knows_any(classes) and not self.is_of_torch(node.value):
            own = ", ".join(sorted(classes))
            self.record.report(
                node, rule, note=f"{own} defines {member} itself; rename this if the object has another class"
            )
            return
        self.record.edit(node.attr, new, rule)

    def class_of(self, receiver: cst.BaseExpression) -> Optional[str]:
        """The name of the class of an object, where it is told nearby: ``self``, ``Batch(...)``, a variable of that."""
        if isinstance(receiver, cst.Call):
            name = dotted(receiver.func)
            if name == "super":
                return self.class_around(receiver)
            last = "" if name is None else name.rpartition(".")[2]
            return last if last[:1].isupper() and not self.is_of_torch(receiver) else None
        if not isinstance(receiver, cst.Name):
            return None
        if receiver.value in ("self", "cls"):
            return self.class_around(receiver)
        local = self.names.local(receiver)
        value = self.names.value_of(local[0]) if len(local) == 1 else None
        return self.class_of(value) if isinstance(value, cst.Call) and value is not receiver else None

    def class_around(self, node: cst.CSTNode) -> Optional[str]:
        found = self.names.enclosing(node, cst.ClassDef)
        return found.name.value if found is not None else None

    def is_own(self, name: str, classes: frozenset[str]) -> bool:
        """True if a class, or one of its bases in this module, defines the member itself."""
        if name in classes:
            return True
        return any(base != name and self.is_own(base, classes) for base in self.bases(name))

    def has_base(self, name: Optional[str], *wanted: str) -> bool:
        return name is not None and (
            name in wanted or any(base != name and self.has_base(base, *wanted) for base in self.bases(name))
        )

    def bases(self, name: str) -> list[str]:
        return [
            str(dotted(base.value)).rpartition(".")[2]
            for node in self.record.program.classes
            if node.name.value == name
            for base in node.bases
            if dotted(base.value) is not None
        ]

    def knows_any(self, classes: frozenset[str]) -> bool:
        return any(re.search(rf"\b{re.escape(name)}\b", self.source) for name in classes)

    def is_of_torch(self, receiver: cst.BaseExpression) -> bool:
        """True if an object was made by a function of torch, as far as can be seen."""
        seen: set[str] = set()
        while True:
            if isinstance(receiver, cst.Name):
                local = self.names.local(receiver)
                value = self.names.value_of(local[0]) if len(local) == 1 else None
                if value is None or receiver.value in seen:  # x = x.cuda()
                    return False
                if _takes(value, receiver.value):  # model = DistributedDataParallel(model): it was something before
                    return False
                seen.add(receiver.value)
                receiver = value
            elif isinstance(receiver, cst.Call):
                meaning = self.names.meaning(receiver.func)
                if meaning is not None:
                    return meaning.name.startswith("torch.")
                receiver = receiver.func
            elif isinstance(receiver, cst.Attribute):
                receiver = receiver.value
            else:
                return False


def _takes(value: cst.BaseExpression, name: str) -> bool:
    """True if a value is a call that is given the object of this name."""
    return isinstance(value, cst.Call) and any(
        isinstance(argument.value, cst.Name) and argument.value.value == name for argument in value.args
    )
