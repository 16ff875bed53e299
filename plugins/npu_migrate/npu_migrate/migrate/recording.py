"""The results of a conversion: edits of the tree, and findings with their places."""

from __future__ import annotations

from typing import Any

import libcst as cst

from npu_migrate.migrate.edits import Edits
from npu_migrate.migrate.findings import Finding
from npu_migrate.migrate.program import Program
from npu_migrate.migrate.rules import Rule
from npu_migrate.migrate.syntax import code, first_line

__all__ = ["Record"]


class Record:
    """The edits and findings of one module.

    Args:
        program: the module.
        file: its path, for findings.
    """

    def __init__(self, program: Program, file: str) -> None:
        self.program = program
        self.file = file
        self.edits = Edits()
        self.findings: list[Finding] = []
        self.uses_npu: list[cst.CSTNode] = []  # where torch has to know the NPU
        self.names_torch_npu = False  # whether the new code says torch_npu by name
        self._reported: set[Any] = set()
        self._kept: set[cst.CSTNode] = set()

    def keep(self, node: cst.CSTNode) -> None:
        """Leave a node, and the nodes inside it, unchanged."""
        self._kept.add(node)

    def keeps(self, node: cst.CSTNode) -> bool:
        """Return whether a node is to stay as it is."""
        return bool(self._kept) and (
            node in self._kept or any(parent in self._kept for parent in self.program.ancestors(node))
        )

    def edit(self, node: Any, new: Any, rule: Rule, *, npu: bool = True) -> None:
        """Replace a node, once, and say so; not one that stays.

        Args:
            node: of the original tree.
            new: the node that replaces it.
            rule: that asks for it.
            npu: whether torch has to know the NPU for it.
        """
        if node in self.edits or self.keeps(node):
            return
        self.edits.replace(node, new)
        self.note_change(node, code(node), code(new), rule.id, rule.note)
        if npu:
            self.uses_npu.append(node)

    def note_change(self, node: Any, before: str, after: str, rule: str, note: str = "") -> None:
        """Report a change at the place of ``node``."""
        self.findings.append(Finding(self.file, *self.program.position(node), rule, "change", before, after, note))

    def note_review(self, node: Any, rule: str, note: str) -> None:
        """Report that a human has to look at the place of ``node``."""
        self.note(node, rule, "review", note)

    def note(self, node: Any, rule: str, level: str, note: str) -> None:
        """Report the place of ``node`` at a level."""
        place = self.program.position(node)
        self.findings.append(Finding(self.file, *place, rule, level, first_line(node), "", note))

    def report(self, node: Any, rule: Rule, level: str = "", note: str = "", suggestion: str = "") -> None:
        """Report a node, once for each rule, by default at the level of its rule; ``auto`` becomes ``review``."""
        level = level or ("review" if rule.level == "auto" else rule.level)
        if (node, rule.id) in self._reported or (rule.level == "auto" and self.keeps(node)):
            return
        self._reported.add((node, rule.id))
        text = "; ".join(filter(None, (note, f"would be {suggestion}" if suggestion else "", rule.note)))
        place = self.program.position(node)
        self.findings.append(Finding(self.file, *place, rule.id, level, first_line(node), "", text))
