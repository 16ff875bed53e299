"""Items of mappings whose keys are no texts: literals, classes, members of enums."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import patchcore as pc
from patchcore.builtin.drift.fingerprint import Originals

SHOP = """
    from shop import kinds
    from shop.kinds import Till

    def old():
        return "old"

    TABLE = {kinds.Kind.RED: old, Till: old, (1, "a"): old, None: old, 2.5: old, b"x": old, "text": old}
    """
KINDS = """
    import enum

    class Kind(enum.Enum):
        RED = 1

    class Till:
        pass
    """


def new() -> str:
    return "new"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("shop.table:TABLE[shop.kinds:Kind.RED]", 0),
        ("shop.table.TABLE[shop.kinds:Till]", 1),
        ('shop.table:TABLE[(1, "a")]', 2),
        ("shop.table:TABLE[None]", 3),
        ("shop.table:TABLE[2.5]", 4),
        ("shop.table:TABLE[b'x']", 5),
    ],
)
def test_a_key_that_is_no_text(make_package: Any, text: str, number: int) -> None:
    make_package({"shop": "", "shop.table": SHOP, "shop.kinds": KINDS})
    change = pc.Replace(text, new)
    fingerprint = Originals().fingerprint(change, change.target.pin())  # read in the source, which is not imported
    assert fingerprint.source
    with pc.Patcher([pc.Patch("a", change)]) as patcher:
        table = importlib.import_module("shop.table").TABLE
        assert [value() == "new" for value in table.values()] == [each == number for each in range(7)]
        assert patcher.report().patches[0].status == "applied"
    assert {value() for value in table.values()} == {"old"}


def test_a_key_that_does_not_exist_fails_the_patch(make_package: Any) -> None:
    make_package({"shop": "", "shop.table": SHOP, "shop.kinds": KINDS})
    importlib.import_module("shop.table")
    with pc.Patcher([pc.Patch("a", pc.Replace("shop.table:TABLE[shop.kinds:Kind.BLUE]", new))]) as patcher:
        record = patcher.report().patches[0]
    assert "the key shop.kinds:Kind.BLUE does not exist" in record.changes[0].reason
