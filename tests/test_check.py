"""Checks: what a patch author declares for verify."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from patchcore import Case, Check
from patchcore.errors import DeclarationError
from patchcore.target import Target


def draw(rng: random.Random) -> Case:
    return Case(len, ["x"])


def test_a_check_is_named_after_what_draws_its_cases() -> None:
    assert str(Check(draw)) == "draw"
    assert str(Check("lib.checks:deform_conv")) == "deform_conv"
    assert str(Check(draw, name="small")) == "small"


def test_a_text_is_a_target_that_nothing_imports_yet() -> None:
    assert Check("no_such_library.checks:draw").draw == Target.parse("no_such_library.checks:draw")


def test_checks_that_say_the_same_are_equal() -> None:
    assert Check(draw, rtol=0.5) == Check(draw, rtol=0.5)
    assert Check(draw, rtol=0.5) != Check(draw)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"draw": 3}, "draw must be callable, got 3"),
        ({"draw": "lib checks:draw"}, "lib checks:draw"),
        ({"draw": draw, "rtol": "1e-5"}, "rtol is a number from 0 to below 1, got '1e-5'"),
        ({"draw": draw, "rtol": -1e-5}, "rtol is a number from 0 to below 1, got -1e-05"),
    ],
    ids=["draw", "target", "type", "range"],
)
def test_a_malformed_check_says_what_is_expected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(message)):
        Check(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"call": 3}, "call must be callable, got 3"),
        ({"call": len, "reference": 3}, "reference must be callable, got 3"),
        ({"call": len, "args": 3}, "args is a list, got 3"),
        ({"call": len, "kwargs": [1]}, "kwargs is a mapping, got [1]"),
    ],
    ids=["call", "reference", "args", "kwargs"],
)
def test_a_malformed_case_says_what_is_expected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(message)):
        Case(**arguments)
