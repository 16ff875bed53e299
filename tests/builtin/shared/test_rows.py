"""rows.py: on a terminal no word is broken; in a pipe every row is one line."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchcore.builtin.shared.rows import print_rows, print_table, print_text

WIDTH = 80
TARGET = "mmcv.ops.multi_scale_deform_attn:MultiScaleDeformableAttnFunction.backward"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        return self.getvalue().splitlines()


@contextlib.contextmanager
def on_a_terminal() -> Iterator[Terminal]:
    """Let rows be printed in a terminal of 80 columns."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("COLUMNS", str(WIDTH)), ("TERM", "dumb"), ("NO_COLOR", "1")):
            patch.setenv(name, value)
        terminal = Terminal()
        patch.setattr(sys, "stdout", terminal)
        yield terminal


def _too_long(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines that the terminal would break in a place where a line could have ended."""
    return (line for line in lines if len(line) > WIDTH and " " in line.strip())


class TestTable:
    def test_the_last_column_is_wrapped_between_words(self) -> None:
        with on_a_terminal() as terminal:
            print_table("Findings", ("KIND", "MESSAGE"), [("drift", "word " * 20)])
        _, heading, first, second = terminal.lines()
        assert heading == "  KIND   MESSAGE"
        assert first == "  drift  " + "word " * 13 + "word"
        assert second == "         " + "word " * 5 + "word"

    def test_a_target_that_has_no_room_goes_below_its_row(self) -> None:
        with on_a_terminal() as terminal:
            print_table("Findings", ("KIND", "MESSAGE"), [("drift", f"{TARGET} has changed"), ("plugin", "it fails")])
        assert terminal.lines() == [
            "Findings",
            "  KIND    MESSAGE",
            "  drift",
            f"      {TARGET}",
            "      has changed",
            "  plugin  it fails",
        ]

    def test_a_wide_first_column_goes_above_the_rows_that_begin_with_it(self) -> None:
        columns = ("PATCH", "CHECK", "RESULT", "MESSAGE")
        long = "mmcv.multi_scale_deformable_attention"
        rows = [
            (long, "c" * 35, "agrees", ""),
            (long, "copied", "differs", "by 1"),
            ("mmcv.nms", "called", "agrees", ""),
        ]
        with on_a_terminal() as terminal:
            print_table("Verified", columns, rows)
        assert terminal.lines() == [
            "Verified",
            "  PATCH",
            f"      CHECK{' ' * 30}  RESULT   MESSAGE",
            f"  {long}",
            f"      {'c' * 35}  agrees",
            f"      copied{' ' * 29}  differs  by 1",
            "  mmcv.nms",
            f"      called{' ' * 29}  agrees",
        ]

    def test_further_wide_columns_go_below_with_their_headings(self) -> None:
        with on_a_terminal() as terminal:
            print_table("Differences", ("SUBJECT", "LOCKED", "HERE"), [("patch a", "w" * 70, "x" * 50), ("b", "1", "")])
        assert terminal.lines() == [
            "Differences",
            "  SUBJECT",
            "  patch a",
            f"      LOCKED  {'w' * 70}",
            f"      HERE    {'x' * 50}",
            "  b",
            "      LOCKED  1",
        ]

    def test_wide_characters_take_two_columns(self) -> None:
        with on_a_terminal() as terminal:
            print_table("表", ("NAME", "TEXT"), [("张量", "a"), ("abcdef", "b")])
        assert terminal.lines()[2:] == ["  张量    a", "  abcdef  b"]

    @given(st.data())
    def test_every_word_stays_whole_and_no_line_is_too_long(self, data: st.DataObject) -> None:
        word = st.text("ab.:/-", min_size=1, max_size=70)
        cell = st.lists(word, max_size=4).map(" ".join)
        count = data.draw(st.integers(2, 5))
        name = word if data.draw(st.booleans()) else st.text("ab.:/", min_size=1, max_size=8)
        rows = data.draw(st.lists(st.tuples(name, *[cell] * (count - 1)), min_size=1, max_size=3))
        with on_a_terminal() as terminal:
            print_table("Title", [f"H{number}" for number in range(count)], rows)
        lines = terminal.lines()
        assert list(_too_long(lines)) == []
        words = {word for row in rows for cell in row for word in cell.split()}
        shown = {word for line in lines for word in line.split()}
        assert words <= shown
        assert shown <= words | {f"H{number}" for number in range(count)} | {"Title"}


class TestRows:
    def test_are_cut_after_a_whole_word(self) -> None:
        with on_a_terminal() as terminal:
            print_rows([("mmcv.nms", "on", "word " * 30)])
        (line,) = terminal.lines()
        assert len(line) <= WIDTH
        assert line.endswith(" word …")

    def test_a_target_that_has_no_room_goes_below(self) -> None:
        with on_a_terminal() as terminal:
            print_rows([("mmcv.nms", "on", TARGET)])
        first, second = terminal.lines()
        assert (first.split(), second) == (["mmcv.nms", "on"], f"      {TARGET}")

    def test_whole_rows_have_several_lines(self) -> None:
        with on_a_terminal() as terminal:
            print_rows([("1234567890", f"wrap {TARGET}"), ("2", "wrap a")], whole=True)
        assert terminal.lines() == ["  1234567890", "      wrap", f"      {TARGET}", "  2           wrap a"]

    def test_in_a_pipe_every_row_is_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        print_rows([("a", "word " * 30)])
        print_table("Title", ("NAME", "TEXT"), [("a", "word " * 30)])
        assert len(capsys.readouterr().out.splitlines()) == 4


def test_a_text_is_continued_under_its_indent() -> None:
    with on_a_terminal() as terminal:
        print_text(f"  original  {'word ' * 15}", indent=12)
    first, second = terminal.lines()
    assert (len(first) <= WIDTH, second.split(), second[:12]) == (True, ["word"] * 2, " " * 12)
