"""What a page shows is compared with what is printed: the machine and its speed do not decide, everything else does."""

from __future__ import annotations

import doctest
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay import difference, is_close, masked, same

CLOSING = "======= 1 passed, 2 eager in 9.81s ========\n"


class TestMeasuredNumbers:
    @pytest.mark.parametrize(
        ("shown", "printed"),
        [("0.8403", "0.8405"), ("1.1591", "1.1592"), ("0.9901", "0.9900"), ("0.0738", "0.0736"), ("-0.7013", "-0.7014"),
         ("0.026", "0.027"), ("0.01", "0.0097"), ("7.37e-05", "7.38e-05"), ("0.9999", "1.0000"), ("0.7922", "0.7913"),
         ("0.0000", "-0.0001"), ("1.00", "0.99")],
    )  # fmt: skip
    def test_another_cpu_rounds_differently(self, shown: str, printed: str) -> None:
        assert same(f"epoch 1: loss {shown}, all\n", f"epoch 1: loss {printed}, all\n")

    @pytest.mark.parametrize(
        ("shown", "printed"),
        [("0.8403", "0.8503"), ("0.8403", "8.403"), ("0.0738", "0.0730"), ("0.8403", "-0.8403"), ("0.0738", "nan"),
         ("0.8403", "inf"), ("7.37e-05", "7.37e-04"), ("0.00737", "0.0073712043"), ("1.00", "1.05"),
         ("0.74572", "0.75")],
    )  # fmt: skip
    def test_another_result_is_told(self, shown: str, printed: str) -> None:
        assert not same(f"epoch 1: loss {shown}, all\n", f"epoch 1: loss {printed}, all\n")

    @given(st.integers(2, 6), st.floats(-1000, 1000), st.floats(-1, 1))
    def test_five_thousandths_or_two_units_of_the_last_place(self, decimals: int, value: float, share: float) -> None:
        unit = 10.0**-decimals
        shown = f"{value:.{decimals}f}"
        allowed = max(2 * unit, abs(float(shown)) / 200)
        assert is_close(shown, f"{float(shown) + share * (allowed - unit):.{decimals}f}")
        assert not is_close(shown, f"{float(shown) + allowed + 1.5 * unit:.{decimals}f}")
        assert not is_close(shown, f"{float(shown) - allowed - 1.5 * unit:.{decimals}f}")

    def test_every_number_of_a_line_counts(self) -> None:
        assert same("loss 0.8403, 0.0738\n", "loss 0.8405, 0.0739\n")
        assert not same("loss 0.8403, 0.0738\n", "loss 0.8405, 0.1739\n")
        assert not same("loss 0.8403, 0.0738\n", "loss 0.8603, 0.0738\n")

    def test_it_may_change_the_number_of_digits(self) -> None:
        assert same("  p  float32  0.00999  agrees\n", "  p  float32  0.01  agrees\n")


class TestExactNumbers:
    @pytest.mark.parametrize(
        ("shown", "printed"),
        [("19 applied", "18 applied"), ("1e-05", "2e-05"), ("1e-05", "1e-06"), ("shop 1.0", "shop 1.1"),
         ("npu:0", "npu:1"),
         ("torch 2.13.0", "torch 2.13.1"), ("torch 2.13.0", "torch 2.12.0"), ("float32", "float16"), ("0.1", "0.2"),
         ("1.2 MiB", "1.3 MiB"), ("line 5", "line 5.5"), ("3x", "4x"), ("Ascend910B3", "Ascend910B4"), ("f2", "f3")],
    )  # fmt: skip
    def test_counts_settings_versions_and_names(self, shown: str, printed: str) -> None:
        assert same(f"it is {shown}.\n", f"it is {shown}.\n")
        assert not same(f"it is {shown}.\n", f"it is {printed}.\n")


class TestBuildsOfTorch:
    CPU = "AssertionError: Torch not compiled with CUDA enabled\n"
    CUDA = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n"

    def test_both_refuse_cuda(self) -> None:
        assert same(self.CPU, self.CUDA)
        assert same(self.CUDA, self.CPU)

    @pytest.mark.parametrize("printed", ["RuntimeError: CUDA error: out of memory\n", "AssertionError\n", "cuda:0\n"])
    def test_another_line_is_told(self, printed: str) -> None:
        assert not same(self.CPU, printed)


class TestTimesAndLengths:
    @pytest.mark.parametrize("seconds", ["0.97s", "9.81s", "10.05s", "65.21s (0:01:05)", "812.33s (0:13:32)", "2 min"])
    def test_how_long_pytest_took_decides_about_no_rule(self, seconds: str) -> None:
        for length in (1, 4):
            assert same(CLOSING, CLOSING.replace("9.81s", seconds).replace("==", "=" * length, 1))
            assert same(CLOSING.replace("9.81s", "..."), CLOSING.replace("9.81s", seconds).replace("==", "=" * length))

    def test_a_long_line_has_the_shortest_rule(self) -> None:
        assert same("...\n" + CLOSING, "x\n= 1 passed, 2 eager in 129.89s (0:02:09) =\n")
        assert same(CLOSING.replace("9.81s", "..."), "= 1 passed, 2 eager in 129.89s (0:02:09) ==\n")

    def test_a_rule_is_there_and_of_the_same_kind(self) -> None:
        assert not same(CLOSING, CLOSING.strip("= \n") + "\n")
        assert not same(CLOSING, CLOSING.replace("=", "-"))
        assert same("____ test ____\n", "________ test ________\n")

    @pytest.mark.parametrize("unit", [" s", "s", " ms", " us", " min"])
    def test_durations(self, unit: str) -> None:
        assert same(f"2 graphs, 0.09{unit}\n", f"2 graphs, 11.4{unit}\n")
        assert not same(f"2 graphs, 0.09{unit}\n", f"3 graphs, 0.09{unit}\n")

    def test_a_word_that_begins_with_a_unit_is_no_duration(self) -> None:
        assert not same("2 steps\n", "3 steps\n")
        assert not same("5 matched\n", "6 matched\n")

    def test_width_of_columns(self) -> None:
        assert same("  PATCH  CALLS\n  shop   8\n", "  PATCH     CALLS\n  shop      8\n")
        assert not same("a b\n", "ab\n")
        assert not same("a b\n", "a\nb\n")

    def test_what_no_two_runs_have_in_common(self) -> None:
        table = "  0     main  {}  {}    finished  8 applied  train.py\n"
        assert same(table.format(2876, "vm"), table.format(31, "node-17.cluster"))
        assert same("Run 57c3c35b\n", "Run 0123abcd\n")
        assert same("reports/report-0-2876-57c3c3.json\n", "reports/report-0-31-abcdef.json\n")
        assert not same("reports/report-0-2876-57c3c3.json\n", "reports/report-1-31-abcdef.json\n")
        assert same("on 2026-11-22 05:04, 2.7 kB\n", "on 2027-01-02 23:59, 12.9 kB\n")

    def test_digits_of_a_number_are_no_identifier(self) -> None:
        assert masked("0.12345678\n") == "0.12345678\n"


class TestEllipsis:
    def test_stands_for_anything(self) -> None:
        assert same("a\n...\nz\n", "a\nb 0.5\nc\nz\n")
        assert same("patchcore: ... applied, ... pending\n", "patchcore: 19 applied, 8 pending\n")
        assert same("PASSED [...]\n", "PASSED [ 33%]\n")
        assert same("...", "")
        assert same("first ...", "first second\nthird\n")
        assert same("report-...-name\n", "report-0-31-name\n")

    def test_what_is_around_it_is_there_in_this_order(self) -> None:
        assert not same("a\n...\nz\n", "a\nb\n")
        assert not same("a\n...\nz\n", "z\na\n")
        assert not same("a\n...\nz\n", "a\nb\nz\nmore\n")
        assert not same("a ... b ... b\n", "a b\n")
        assert not same("b...\n", "ab\n")

    def test_a_number_that_is_near_is_looked_for(self) -> None:
        assert same("...loss 0.50\n...", "loss 0.90\nloss 0.50\nloss 0.90\n")
        assert not same("...loss 0.50\n...", "loss 0.90\nloss 0.80\n")

    def test_may_cut_a_number(self) -> None:
        assert same('"error": 0.00737...,\n', '"error": 0.007371204394848118,\n')
        assert same('"error": 0.00737...,\n', '"error": 0.007379999999999999,\n')
        assert not same('"error": 0.00737...,\n', '"error": 0.008371204394848118,\n')
        assert same("step 1...\n", "step 12\n")
        assert not same("step 1...\n", "step 2\n")

    def test_what_is_not_there_is_told(self) -> None:
        assert difference("a\n...\nloss 0.50\n...", "a\nloss 0.60\n") == "\nloss 0.50\n"
        assert difference("a\n", "a\n") is None


#: What programs print; a masked word may become longer than what it stands for, no test of ellipses is about that.
LINES = st.text(st.sampled_from("ab12 .,:=-_/[]()%\n"), max_size=60)


@given(LINES)
def test_everything_is_like_itself(text: str) -> None:
    assert same(text, text)


@given(LINES, LINES)
def test_what_doctest_finds_the_same_is_the_same(shown: str, printed: str) -> None:
    if "..." in masked(shown) or not doctest.OutputChecker().check_output(shown, printed, 0):
        return
    assert same(shown, printed)


@given(LINES, LINES)
def test_without_numbers_rules_and_spaces_only_equal_texts_are_the_same(shown: str, printed: str) -> None:
    plain, other = (re.sub(r"[\d ]|([^\w\s])(?=\1)|_", "", text) for text in (shown, printed))
    assert same(plain, other) == (plain == other)


@given(st.lists(LINES.filter(lambda text: "..." not in text), min_size=1, max_size=4), LINES)
def test_an_ellipsis_may_stand_for_any_text(parts: list[str], text: str) -> None:
    ends = ["|" + re.sub(r"[\d.]", "", part) + "|" for part in parts]
    assert same("...".join(ends), text.join(ends))


def test_an_ellipsis_may_stand_for_the_number_of_a_duration() -> None:
    assert same("... ms  ... ms  36     forward add_\n", "0.511 ms  12.5 ms  36     forward add_\n")
    assert not same("... ms  ... ms  36     forward add_\n", "0.511 ms  12.5 ms  37     forward add_\n")
