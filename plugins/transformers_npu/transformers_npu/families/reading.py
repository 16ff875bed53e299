"""Reads the classes and functions of a module, each with the formula that it computes. Nothing is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple, Optional

from transformers_npu.families.formulas import Formula, Scope, formula_of, imported_names

__all__ = ["Item", "may_have_roles", "read_items"]

#: A class or function without any of these words is no norm, rotary embedding, MLP or attention that a kernel replaces.
PATCHED = re.compile(rb"rsqrt|\bcos\b|\.chunk\(|\bsinks\b")
#: Nor is one with more lines.
MOST_LINES = 120


class Item(NamedTuple):
    """A function, or the ``forward`` of a class.

    Args:
        name: ``LlamaRMSNorm.forward``, ``apply_rotary_pos_emb``.
        line: of its ``def``, in its file; of the first decorator if it has one.
        formula: what it computes; ``None`` if it is no straight line of expressions.
        node: its definition.
        hub: the name under which transformers looks for a kernel in its hub; empty for none.
    """

    name: str
    line: int
    formula: Optional[Formula]
    node: ast.FunctionDef
    hub: str


def may_have_roles(source: bytes) -> bool:
    """Return false for a source that has no role, without parsing it.

    Args:
        source: of a module.
    """
    return PATCHED.search(source) is not None


def read_items(source: bytes, words: re.Pattern[bytes] = PATCHED) -> Iterator[Item]:
    """Yield the functions of a module, and the ``forward`` of each class, in the order of the source.

    A class whose decorator may change its ``forward``, and a name that the module defines twice, are left out.

    Args:
        source: of the module.
        words: what the source of a class or function must contain, if its formula is to be read.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(source)
    defined = [each for each in tree.body if isinstance(each, (ast.FunctionDef, ast.ClassDef))]
    names = [each.name for each in defined]
    functions = {
        each.name: each for each in defined if isinstance(each, ast.FunctionDef) and names.count(each.name) == 1
    }
    classes = {each.name: each for each in defined if isinstance(each, ast.ClassDef)}
    imports = imported_names(tree)
    lines = source.splitlines(keepends=True)
    for each in defined:
        text = lines[each.lineno - 1 : each.end_lineno]
        if names.count(each.name) > 1 or len(text) > MOST_LINES or not words.search(b"".join(text)):
            continue
        if isinstance(each, ast.FunctionDef):
            decorators = _decorators(each)
            if decorators is not None:
                formula = formula_of(each, Scope(imports, functions, {}))
                yield Item(each.name, _first_line(each), formula, each, decorators)
            continue
        decorators = _decorators(each)
        own = {node.name: node for node in each.body if isinstance(node, ast.FunctionDef)}
        forward = own.get("forward")
        if forward is None or decorators is None or forward.decorator_list:
            continue
        formula = formula_of(forward, Scope(imports, functions, _methods(each, classes)))
        yield Item(f"{each.name}.forward", _first_line(forward), formula, forward, decorators)


def _methods(klass: ast.ClassDef, classes: dict[str, ast.ClassDef], depth: int = 0) -> dict[str, ast.FunctionDef]:
    """Return the methods of a class and of its bases in the same module, by name."""
    found: dict[str, ast.FunctionDef] = {}
    for base in reversed(klass.bases):
        if isinstance(base, ast.Name) and base.id in classes and depth < 5:
            found.update(_methods(classes[base.id], classes, depth + 1))
    for node in klass.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
    return {name: node for name, node in found.items() if not node.decorator_list or name == "forward"}


def _first_line(node: ast.FunctionDef) -> int:
    """Return the line that Python has as the first one of the function's code."""
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _decorators(node: ast.stmt) -> Optional[str]:
    """Return the name of the kernel in the hub that decorators ask for; ``None`` for a decorator of another kind."""
    hub = ""
    for decorator in getattr(node, "decorator_list", ()):
        text = ast.unparse(decorator)
        found = re.match(r"use_kernel_(?:forward|func)_from_hub(?:_with_fallback)?\(['\"](\w+)", text)
        if found:
            hub = found[1]
        elif not re.match(r"auto_docstring|use_kernelized_func\(", text):
            return None
    return hub
