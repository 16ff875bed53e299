"""Plurals are formed by ``counted`` and ``inflected`` only, so that nobody reads "1 problems"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder in ("patchcore", "patchcore_startup", "plugins")
    for path in (ROOT / folder).rglob("*.py")
    if "build" not in path.parts and path.name != "printable.py"
)

#: The end of a word that makes it a plural, or a pronoun or verb that depends on the number.
_ENDING = {"s", "es", "ies"}
_DEPENDENT = {"it", "them", "is", "are", "needs", "need"}
#: Words that follow a count and end in s though they are no plurals.
_NO_PLURAL = {"is", "was", "has", "as", "this", "less", "us", "ms", "class", "process", "of"}
_COUNTS = ("len", "sum")


def texts_of(node: ast.IfExp) -> set[str]:
    return {
        each.value
        for each in (node.body, node.orelse)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def is_about_one(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(each, ast.Constant) and each.value == 1 for each in test.comparators
    )


def hand_made(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each plural that is formed by hand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            texts = texts_of(node)
            if texts & _ENDING or (is_about_one(node.test) and texts & _DEPENDENT):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:]):
                if is_count(value) and isinstance(after, ast.Constant):
                    word = re.match(r" (?:[a-z]+ )?([a-z]+s)\b", str(after.value))
                    if word and word[1] not in _NO_PLURAL:
                        yield node.lineno, ast.unparse(node)


def is_count(value: ast.expr) -> bool:
    """True for ``{len(...)}`` and ``{sum(...)}`` in an f-string."""
    if not isinstance(value, ast.FormattedValue) or not isinstance(value.value, ast.Call):
        return False
    return isinstance(value.value.func, ast.Name) and value.value.func.id in _COUNTS


@pytest.mark.parametrize(
    "text",
    [
        "f\"{n} file{'' if n == 1 else 's'}\"",
        "f\"{n} patch{'es' if several else ''}\"",
        "'it' if n == 1 else 'them'",
        "f'{len(found)} plugin problems'",
        "f'{sum(found)} rows, {n} in all'",
    ],
)
def test_a_plural_that_is_formed_by_hand_is_found(text: str) -> None:
    assert list(hand_made(ast.parse(text)))


def test_nobody_forms_a_plural_by_hand() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text[:120]}"
        for path in SOURCES
        for line, text in hand_made(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "use patchcore.objects.printable.counted: " + "\n".join(found)
