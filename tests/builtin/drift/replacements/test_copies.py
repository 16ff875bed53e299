"""Replacements that are copies of their originals: what they lack of an upgrade, without an import."""

from __future__ import annotations

import sys

import pytest

import patchcore as pc
from patchcore.builtin.drift.replacements.copies import copy_of, describe_copy

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


class TestDescription:
    def test_a_copy_that_did_not_follow(self) -> None:
        assert describe_copy(COPY, OLD, NEW) == "the replacement is a copy of it, with 0 of 3 changed lines"

    def test_a_copy_that_followed_in_part(self) -> None:
        copy = COPY.replace("    total = total * rate\n", "")
        assert describe_copy(copy, OLD, NEW) == "the replacement is a copy of it, with 1 of 3 changed lines"

    def test_a_copy_that_followed(self) -> None:
        copy = NEW.replace("sum(found)", "fsum(found)")
        assert describe_copy(copy, OLD, NEW) == "the replacement is a copy of it, with 3 of 3 changed lines"

    def test_a_copy_that_has_become_equal(self) -> None:
        copy = f"@decorated\n{NEW.strip()}".replace("total(self", "fast(self")
        assert describe_copy(copy, OLD, NEW) == "the replacement is a copy that is equal to it now"

    @pytest.mark.parametrize(
        ("copy", "old", "new"),
        [
            ("def fast(self, items, rate):\n    return kernel(items) * rate\n", OLD, NEW),
            ("def f(x):\n    return x\n", "def f(x):\n    return x\n", "def f(x):\n    return 2 * x\n"),
            (COPY, OLD, OLD.replace("self, items, rate", "self, items, rate, fee")),
        ],
        ids=["another function", "too short to be recognised", "only the signature changed"],
    )
    def test_what_is_no_stale_copy(self, copy: str, old: str, new: str) -> None:
        assert describe_copy(copy, old, new) == ""


class TestSourceOfReplacement:
    def test_a_replacement_by_name_is_read_and_not_imported(self, make_package) -> None:
        make_package({"kernels": "raise ImportError\n\ndef fast(x):  # quick\n    return x\n"})
        assert copy_of(pc.Replace("shop:price", "kernels:fast")) == "def fast(x):\n    return x"
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
        assert copy_of(change) == ""
