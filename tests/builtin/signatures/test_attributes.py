"""attributes.py: attributes of the original that its replacement lacks are named in the report."""

from __future__ import annotations

from typing import Any

import pytest

import patchcore as pc

LIBRARY = """
import functools
@functools.lru_cache(maxsize=None)
def price(x): return x
@functools.singledispatch
def shown(x): return str(x)
def tagged(x): return x
tagged.unit, tagged._private = "EUR", 1
def plain(x): return x
class Till:
    def __init__(self): self._open = False
    @property
    def open(self): return self._open
    @open.setter
    def open(self, value): self._open = value
    @functools.cached_property
    def total(self): return 1
class Counter:
    def __call__(self, x): return x
    def reset(self): pass
    def undo(self): pass
    def a(self): pass
    def b(self): pass
counter = Counter()
RATES = {"EUR": 1}
"""


def new(x: Any) -> Any:
    """Return the replacement's value."""
    return "new"


@pytest.fixture
def lib(make_package: Any) -> Any:
    make_package({"lib": LIBRARY})
    import lib

    return lib


def reason(*changes: Any) -> str:
    """Return the reason in the report for the first change."""
    with pc.Patcher([pc.Patch("p", list(changes))], strict=True) as patcher:
        return patcher.report()["p"].changes[0].reason


LACKS = "the replacement lacks attributes of the original: "


@pytest.mark.parametrize(
    ("target", "replacement", "lost"),
    [
        ("lib:price", new, "cache_info, cache_clear"),
        ("lib:Till.open", property(lambda self: True), "setter"),
        ("lib:tagged", new, "unit"),
        ("lib:shown", new, "register, dispatch, registry"),
        ("lib:counter", new, "reset, undo, a, 1 more"),
    ],
)
def test_lost_attributes_are_named(lib: Any, target: str, replacement: Any, lost: str) -> None:
    assert reason(pc.Replace(target, replacement)) == LACKS + lost


def test_no_reason_where_nothing_is_lost(lib: Any) -> None:
    import functools

    assert reason(pc.Replace("lib:price", functools.lru_cache(maxsize=None)(new))) == ""
    assert reason(pc.Wrap("lib:price", lambda original, x: original(x))) == ""
    assert reason(pc.Replace("lib:Till.open", property(lambda self: True, lambda self, value: None))) == ""
    assert reason(pc.Replace("lib:plain", new)) == ""
    # a body is written, and the function keeps its attributes
    assert reason(pc.Replace("lib:tagged", factory=lambda original: new)) == ""
    assert reason(pc.Replace("lib:RATES", {"EUR": 2})) == ""
    assert reason(pc.Replace("lib:Counter", factory=lambda original: type("Other", (), {}))) == ""
