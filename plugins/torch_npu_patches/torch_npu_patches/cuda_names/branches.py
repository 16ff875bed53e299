"""Finds ``torch.cuda.is_available()`` in functions that have a branch for NPUs, and makes it false there.

Such a function has ``elif is_npu_available():`` after ``if torch.cuda.is_available():``. If both are true, it takes the
branch for CUDA, or does the work of both. Without the layer CUDA -> NPU there is no CUDA, and the function takes the
branch for NPUs. Functions that use NVIDIA's management library (pynvml) get the same edit, because that library works
with NVIDIA's GPUs only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Optional

import patchcore as pc
from torch_npu_patches.cuda_names.editing import names, names_npu, units
from torch_npu_patches.cuda_names.lines import Line, note
from torch_npu_patches.cuda_names.listing import Row, verdicts

__all__ = ["WORDS", "edit", "find"]

#: A module with a branch for NPUs imports or defines one of the first two; one for NVIDIA's GPUs alone has the last.
WORDS = ("npu_available", "torch_npu", "pynvml")

#: Functions by which the packages find out whether CUDA is there: their callers may have a branch for NPUs.
_ANSWERS = frozenset(("is_cuda_available", "is_torch_cuda_available"))

_CALL = "torch.cuda.is_available()"
_NVIDIA = re.compile("pynvml")
_TEXT = re.compile(re.escape(_CALL))
_RUNNING = "torch_npu_patches.cuda_names.running:reached"


def find(text: str) -> list[int]:
    """Return the numbers of the lines of a source that :func:`edit` may change. For :class:`patchcore.Rules`."""
    return [text.count("\n", 0, match.start()) + 1 for match in _TEXT.finditer(text)]


def edit(tree: ast.Module, source: pc.Source, listed: Optional[Mapping[tuple[int, str], Row]] = None) -> set[int]:
    """Edit a module in place; return the numbers of the edited lines. For :class:`patchcore.Rules`.

    Args:
        tree, source: of the module.
        listed: the rows of a list about its lines, by line and expression; ``None`` for the list of the plugin.

    Raises:
        SettingsError: the list of the plugin is malformed.
    """
    editor = _Editor(source, verdicts(source.name, source.file) if listed is None else listed)
    for unit in units(tree.body, source.lines):
        if isinstance(unit, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
            unit.name in _ANSWERS or names_npu(unit, source) or names(unit, _NVIDIA)
        ):
            editor.visit(unit)
    return editor.lines


class _Editor(ast.NodeTransformer):
    """Edits the calls in functions, and notes each line."""

    def __init__(self, source: pc.Source, listed: Mapping[tuple[int, str], Row]) -> None:
        self._source = source
        self._listed = listed
        self.lines: set[int] = set()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Edit ``torch.cuda.is_available()``."""
        self.generic_visit(node)
        if node.args or node.keywords or ast.unparse(node) != _CALL:
            return node
        row = self._listed.get((node.lineno, _CALL))
        if row is not None and not row.edited:
            note(self._source.notes, Line(self._source.file, node.lineno, _CALL, why=row.why, hides=True))
            return node
        self.lines.add(node.lineno)
        place = note(self._source.notes, Line(self._source.file, node.lineno, _CALL, "False", hides=True))
        node.func = ast.copy_location(self._source.reference(_RUNNING), node.func)
        node.args = [ast.copy_location(ast.Constant(place), node)]
        return node
