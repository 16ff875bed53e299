"""Replacements that are copies of their originals: what they lack of an upgrade, without an import."""

from __future__ import annotations

import sys

import pytest

import patchcore as pc
from patchcore.builtin.drift.definitions import Sources
from patchcore.builtin.drift.replacements.copies import compare_copy, copy_of, three_way

OLD = """
def total(self, items, rate):
    found = []
    for item in items:
        found.append(item.price)
    total = sum(found)
    total = total * rate
    return total
"""
NEW = OLD.replace("    total = total * rate\n", "    if rate:\n        total = total * rate + self.fee\n")
#: As many plugins have it: a function, with a line of its own.
COPY = OLD.replace("total(self, items, rate)", "fast(till, items, rate)").replace("sum(found)", "fsum(found)")


class TestComparison:
    @pytest.mark.parametrize(
        ("copy", "followed"),
        [
            (COPY, 0),
            (COPY.replace("    total = total * rate\n", ""), 1),
            (NEW.replace("sum(found)", "fsum(found)"), 3),
        ],
        ids=["not followed", "in part", "followed"],
    )
    def test_how_many_changed_lines_a_copy_has(self, copy: str, followed: int) -> None:
        found = compare_copy(copy, [("1.0", OLD)], NEW)
        assert found is not None
        assert (found.release, found.changed, found.followed) == ("1.0", 3, followed)
        assert found.is_stale == (followed < 3)

    def test_a_copy_belongs_to_the_release_that_it_is_most_like(self) -> None:
        first = OLD.replace("total = sum(found)", "total = fsum(found)\n    log(total)")
        copy = first.replace("found = []", "found = list()")
        found = compare_copy(copy, [("1.0", first), ("1.1", OLD)], NEW)
        assert found is not None
        assert (found.release, found.is_older) == ("1.0", True)

    def test_a_copy_that_has_become_equal(self) -> None:
        copy = f"@decorated\n{NEW.strip()}".replace("total(self", "fast(self")
        found = compare_copy(copy, [("1.0", OLD)], NEW)
        assert found is not None
        assert found.is_equal
        always = compare_copy(copy, [("1.0", OLD), ("1.1", NEW)], NEW)
        assert always is not None
        assert not always.is_equal

    @pytest.mark.parametrize(
        ("copy", "old", "new"),
        [
            ("def fast(self, items, rate):\n    return kernel(items) * rate\n", OLD, NEW),
            ("def f(x):\n    return x\n", "def f(x):\n    return x\n", "def f(x):\n    return 2 * x\n"),
        ],
        ids=["another function", "too short to be recognised"],
    )
    def test_what_is_no_copy(self, copy: str, old: str, new: str) -> None:
        assert compare_copy(copy, [("1.0", old)], new) is None

    def test_the_difference_of_three_has_a_column_for_each_side(self) -> None:
        copy = OLD.replace("    total = total * rate\n", "").replace("sum(found)", "fsum(found)")
        lines = three_way(OLD, NEW, copy).splitlines()
        assert "--     total = total * rate" in lines  # both have removed it
        assert "+      if rate:" in lines  # the copy lacks it
        assert " +     total = fsum(found)" in lines  # its own
        assert " -     total = sum(found)" in lines


class TestSourceOfReplacement:
    def test_a_replacement_by_name_is_read_and_not_imported(self, make_package) -> None:
        make_package({"kernels": "raise ImportError\n\ndef fast(x):  # quick\n    return x\n"})
        assert copy_of(pc.Replace("shop:price", "kernels:fast"), Sources()) == "def fast(x):\n    return x"
        assert "kernels" not in sys.modules

    @pytest.mark.parametrize(
        "change",
        [
            pc.Replace("shop:price", lambda x: x),
            pc.Replace("shop:price", "no_such_module:fast"),
            pc.Replace("shop:price", len, create=True),
            pc.Wrap("shop:price", lambda original, x: original(x)),
        ],
        ids=["lambda", "no source", "adds", "wrapper"],
    )
    def test_what_has_none(self, change: pc.Change) -> None:
        assert copy_of(change, Sources()) == ""
