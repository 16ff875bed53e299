"""guard.py: a replacement that cannot take every call of its target fails its patch, unless that is allowed."""

from __future__ import annotations

from typing import Any

import pytest

import patchcore as pc

LIBRARY = """
class Platform:
    def verify(self, q, strict=False): return "original", q
    @classmethod
    def made(cls, q): return "original", q
    @staticmethod
    def static(q): return "original", q
current = Platform()
def pair(x, y): return x, y
def both(x): return pair(x, 1)
"""


@pytest.fixture
def lib(make_package: Any) -> Any:
    make_package({"lib": LIBRARY})
    import lib

    return lib


@pytest.mark.parametrize("target", ["lib:current.verify", "lib:current.made", "lib:current.static"])
def test_through_an_instance_a_replacement_gets_no_self(lib: Any, target: str) -> None:
    attribute = target.rpartition(".")[2]
    changes = [
        pc.Replace(target, lambda q, strict=False: ("new", q)),
        pc.Replace(target, factory=lambda original: lambda q, strict=False: ("new", original(q)[1])),
        pc.Wrap(target, lambda original, q, strict=False: ("new", original(q)[1])),
    ]
    for change in changes:
        with pc.Patcher([pc.Patch("p", change)], strict=True):
            assert getattr(lib.current, attribute)(1) == ("new", 1)
    assert getattr(lib.current, attribute)(1) == ("original", 1)


@pytest.mark.parametrize(
    "change",
    [
        pc.Replace("lib:current.verify", lambda self, q, strict=False: "new"),
        pc.Wrap("lib:current.verify", lambda original, self, q, strict=False: "new"),
    ],
)
def test_through_an_instance_one_with_self_fails(lib: Any, change: Any) -> None:
    with pc.Patcher([pc.Patch("p", change)]) as patcher:
        record = patcher.report()["p"]
        assert record.status == "failed"
        assert "that of the target (q, strict=False)" in record.reason
        assert record.reason.endswith("or *args and **kwargs, or declare signatures='any' in the patch")


@pytest.mark.parametrize("everywhere", [True, False])
def test_functions_that_change_together_may_take_other_arguments(lib: Any, everywhere: bool) -> None:
    changes = [
        pc.Replace("lib:pair", lambda x: ("alone", x), everywhere=everywhere),
        pc.Replace("lib:both", lambda x: lib.pair(x), everywhere=everywhere),
    ]
    with pc.Patcher([pc.Patch("p", changes)]) as patcher:
        assert patcher.report()["p"].status == "failed"
    with pc.Patcher([pc.Patch("p", changes, signatures="any")], strict=True):
        assert lib.both(1) == ("alone", 1)
