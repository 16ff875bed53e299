"""The table of checks: every check has a test, every limit is met in one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from checks import CHECKS, LIMITS, check

FOLDER = Path(__file__).parent
NUMBER_OF_CHECKS = 71


def first_arguments(function: str) -> list[str]:
    """Return the constant first arguments of all calls of a function in the folder's test modules."""
    calls = [
        node
        for path in sorted(FOLDER.glob("test_*.py"))
        if path != Path(__file__)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function
    ]
    return [call.args[0].value for call in calls if call.args and isinstance(call.args[0], ast.Constant)]


def test_the_names_are_as_many_as_documented_and_distinct() -> None:
    assert len(set(CHECKS)) == len(CHECKS) == NUMBER_OF_CHECKS


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_has_a_test(name: str) -> None:
    assert name in first_arguments("check")


def test_a_name_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no check is named 'arithmetics'"):
        check("arithmetics")


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_met_in_a_test(name: str) -> None:
    assert LIMITS[name].check in CHECKS
    function = "within_limit" if LIMITS[name].error else "is_limited"
    assert name in first_arguments(function)
