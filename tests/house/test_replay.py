"""What a page shows is compared with what is printed: the machine and its speed do not decide, everything else does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay import difference, is_close, masked, same

#: Texts in a line: a page may show the first where a command prints the second (``≈``), or may not (``≠``).
IN_A_LINE = """
0.8403 ≈ 0.8405 | 1.1591 ≈ 1.1592 | 0.0738 ≈ 0.0736 | -0.7013 ≈ -0.7014 | 0.026 ≈ 0.027 | 0.01 ≈ 0.0097
7.37e-05 ≈ 7.38e-05 | 0.9999 ≈ 1.0000 | 0.7922 ≈ 0.7913 | 0.0000 ≈ -0.0001 | 1.00 ≈ 0.99 | 0.00999 ≈ 0.01
0.8403, 0.0738 ≈ 0.8405, 0.0739 | 0.8403, 0.0738 ≠ 0.8405, 0.1739 | 0.8403, 0.0738 ≠ 0.8603, 0.0738
0.8403 ≠ 0.8503 | 0.8403 ≠ 8.403 | 0.0738 ≠ 0.0730 | 0.8403 ≠ -0.8403 | 0.0738 ≠ nan | 0.8403 ≠ inf
7.37e-05 ≠ 7.37e-04 | 0.00737 ≠ 0.0073712043 | 1.00 ≠ 1.05 | 0.74572 ≠ 0.75
19 applied ≠ 18 applied | 1e-05 ≠ 2e-05 | 1e-05 ≠ 1e-06 | shop 1.0 ≠ shop 1.1 | npu:0 ≠ npu:1 | 0.1 ≠ 0.2
torch 2.13.0 ≠ torch 2.13.1 | torch 2.13.0 ≠ torch 2.12.0 | float32 ≠ float16 | 1.2 MiB ≠ 1.3 MiB
line 5 ≠ line 5.5 | 3x ≠ 4x | Ascend910B3 ≠ Ascend910B4 | f2 ≠ f3 | 2 steps ≠ 3 steps | 5 matched ≠ 6 matched
2 graphs, 0.09 s ≈ 2 graphs, 11.4 s | 0.09s ≈ 11.4s | 0.09 ms ≈ 11.4 ms | 3 min ≈ 4 min | 9.81s ≈ 65.21s (0:01:05)
2 graphs, 0.09 s ≠ 3 graphs, 0.09 s | PATCH  CALLS ≈ PATCH     CALLS | a b ≠ ab | ==== end ==== ≈ ======= end =====
==== end ==== ≠ end | ==== end ==== ≠ ---- end ---- | ____ test ____ ≈ ________ test ________
0  main  2876  vm  8 applied ≈ 0  main  31  node-17.cluster  8 applied | Run 57c3c35b ≈ Run 0123abcd
report-0-2876-57c3c3.json ≈ report-0-31-abcdef.json | report-0-2876-57c3c3.json ≠ report-1-31-abcdef.json
2026-11-22 05:04, 2.7 kB ≈ 2027-01-02 23:59, 12.9 kB
"""
CUDA = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n"
WHOLE = [
    ("AssertionError: Torch not compiled with CUDA enabled\n", CUDA, True),
    (CUDA, "AssertionError: Torch not compiled with CUDA enabled\n", True),
    (CUDA, "RuntimeError: CUDA error: out of memory\n", False),
    ("a b\n", "a\nb\n", False),
    ("...\n==== 1 passed in 9.81s ====\n", "x\n= 1 passed in 129.89s (0:02:09) =\n", True),
    # An ellipsis stands for anything; what is around it is there in this order.
    ("a\n...\nz\n", "a\nb 0.5\nc\nz\n", True),
    ("patchcore: ... applied, ... pending\n", "patchcore: 19 applied, 8 pending\n", True),
    ("...", "", True),
    ("first ...", "first second\nthird\n", True),
    ("report-...-name\n", "report-0-31-name\n", True),
    ("a\n...\nz\n", "a\nb\n", False),
    ("a\n...\nz\n", "z\na\n", False),
    ("a\n...\nz\n", "a\nb\nz\nmore\n", False),
    ("a ... b ... b\n", "a b\n", False),
    ("b...\n", "ab\n", False),
    ("...loss 0.50\n...", "loss 0.90\nloss 0.50\nloss 0.90\n", True),
    ("...loss 0.50\n...", "loss 0.90\nloss 0.80\n", False),
    ('"error": 0.00737...,\n', '"error": 0.007371204394848118,\n', True),
    ('"error": 0.00737...,\n', '"error": 0.007379999999999999,\n', True),
    ('"error": 0.00737...,\n', '"error": 0.008371204394848118,\n', False),
    ("step 1...\n", "step 12\n", True),
    ("step 1...\n", "step 2\n", False),
    ("... ms  ... ms  36     forward\n", "0.511 ms  12.5 ms  36     forward\n", True),
    ("... ms  ... ms  36     forward\n", "0.511 ms  12.5 ms  37     forward\n", False),
]


@pytest.mark.parametrize("pair", [pair for line in IN_A_LINE.split("\n") for pair in line.split(" | ") if pair])
def test_in_a_line(pair: str) -> None:
    shown, expected, printed = re.split(" ([≈≠]) ", pair)
    assert same(f"  {shown}  all\n", f"  {shown}  all\n")
    assert same(f"  {shown}  all\n", f"  {printed}  all\n") == (expected == "≈")


@pytest.mark.parametrize(("shown", "printed", "expected"), WHOLE)
def test_whole_texts(shown: str, printed: str, expected: bool) -> None:
    assert same(shown, printed) is expected


def test_the_part_that_was_not_printed_is_returned() -> None:
    assert difference("a\n...\nloss 0.50\n...", "a\nloss 0.60\n") == "\nloss 0.50\n"
    assert difference("a\n", "a\n") is None
    assert masked("0.12345678\n") == "0.12345678\n"  # digits of a number are no identifier


@given(st.integers(2, 6), st.floats(-1000, 1000), st.floats(-1, 1))
def test_five_thousandths_or_two_units_of_the_last_place(decimals: int, value: float, share: float) -> None:
    unit = 10.0**-decimals
    shown = f"{value:.{decimals}f}"
    allowed = max(2 * unit, abs(float(shown)) / 200)
    assert is_close(shown, f"{float(shown) + share * (allowed - unit):.{decimals}f}")
    assert not is_close(shown, f"{float(shown) + allowed + 1.5 * unit:.{decimals}f}")
    assert not is_close(shown, f"{float(shown) - allowed - 1.5 * unit:.{decimals}f}")


#: What programs print; a masked word may become longer than what it stands for, no test of ellipses is about that.
LINES = st.text(st.sampled_from("ab12 .,:=-_/[]()%\n"), max_size=60)


@given(st.lists(LINES.filter(lambda text: "..." not in text), min_size=1, max_size=4), LINES)
def test_an_ellipsis_may_stand_for_any_text(parts: list[str], text: str) -> None:
    ends = ["|" + re.sub(r"[\d.]", "", part) + "|" for part in parts]
    assert same("...".join(ends), text.join(ends))
