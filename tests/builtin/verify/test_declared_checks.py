"""Checks: what a patch author declares for verify."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from patchcore import Case, Check, Size
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError


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


def test_a_check_has_a_tolerance_for_each_dtype_or_one_for_what_it_draws() -> None:
    assert Check(draw, rtol=0.5).tolerances == {None: 0.5}
    check = Check(draw, dtypes={"float32": 1e-5, "float16": 1e-2})
    assert list(check.tolerances.items()) == [("float32", 1e-5), ("float16", 1e-2)]
    assert check == Check(draw, dtypes={"float32": 1e-5, "float16": 1e-2}) != Check(draw, dtypes={"float32": 1e-5})


def test_sizes_draw_from_their_ranges_medium_between_both() -> None:
    rng = random.Random(0)
    drawn = {size: {size.draw(rng, small=(1, 4), typical=(25, 100)) for _ in range(1000)} for size in Size}
    assert drawn == {Size.SMALL: {*range(1, 5)}, Size.MEDIUM: {*range(5, 21)}, Size.TYPICAL: {*range(25, 101)}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"draw": 3}, "draw must be callable, got 3"),
        ({"draw": "lib checks:draw"}, "lib checks:draw"),
        ({"draw": draw, "rtol": "1e-5"}, "rtol must be a number from 0 to below 1, got '1e-5'"),
        ({"draw": draw, "rtol": -1e-5}, "rtol must be a number from 0 to below 1, got -1e-05"),
        ({"draw": draw, "dtypes": ["float16"]}, "dtypes must be a mapping, got ['float16']"),
        (
            {"draw": draw, "dtypes": {"half": 1e-2}},
            "dtypes contains 'half'; expected float64, float32, float16, bfloat16",
        ),
        ({"draw": draw, "dtypes": {"float16": 2}}, "dtypes['float16'] must be a number from 0 to below 1, got 2"),
        (
            {"draw": draw, "rtol": 1e-5, "dtypes": {"float16": 1e-2}},
            "give either rtol or, in dtypes, a tolerance for each dtype",
        ),
    ],
    ids=["draw", "target", "type", "range", "no mapping", "dtype", "tolerance", "both"],
)
def test_a_malformed_check_says_what_is_expected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(message)):
        Check(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"call": 3}, "call must be callable, got 3"),
        ({"call": len, "reference": 3}, "reference must be callable, got 3"),
        ({"call": len, "args": 3}, "args must be a list, got 3"),
        ({"call": len, "kwargs": [1]}, "kwargs must be a mapping, got [1]"),
    ],
    ids=["call", "reference", "args", "kwargs"],
)
def test_a_malformed_case_says_what_is_expected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(message)):
        Case(**arguments)
