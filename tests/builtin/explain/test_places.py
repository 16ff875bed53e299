"""places.py: where things are written, as far as they say so, and how sources differ."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import pytest

from patchcore.builtin.explain.places import Place, place_in_source, place_of

SHOP = """
import functools
def price(): return 1
class Till:
    def sell(self): pass
    @staticmethod
    def close(): pass
    @property
    def total(self): return 0
"""


@pytest.fixture
def shop(make_package: Any) -> Any:
    make_package({"shop": SHOP})
    return importlib.import_module("shop")


def test_places_of_what_classes_hold(shop: Any) -> None:
    own = vars(shop.Till)
    assert [place_of(own[name])[::2] for name in ("sell", "close", "total")] == [
        ("shop:Till.sell", 5),
        ("shop:Till.close", 6),
        ("shop:Till.total", 8),
    ]
    assert place_of(shop.Till)[:2] == ("shop:Till", shop.__file__)


def test_decorators_are_looked_through(shop: Any) -> None:
    @functools.wraps(shop.price)
    def wrapped() -> None: ...

    assert place_of(wrapped) == place_of(functools.partial(wrapped)) == place_of(shop.price)


def test_a_decorator_around_itself_comes_to_an_end() -> None:
    def around() -> None: ...

    around.__wrapped__ = around  # type: ignore[attr-defined]
    assert place_of(around).line == around.__code__.co_firstlineno


class Proxy:
    """Says something else of itself, or raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    ("obj", "name"),
    [
        (functools, None),
        (len, "builtins:len"),
        (int, "builtins:int"),
        (3, "3"),
        (None, "None"),
        ("2.0", "'2.0'"),
        ("x" * 100, "'" + "x" * 59 + "..."),
        ([3], "a list object"),
        (Proxy(), "a Proxy object"),
    ],
    ids=["module", "len", "int", "3", "None", "text", "long text", "list", "proxy"],
)
def test_places_of_other_things(obj: Any, name: Any) -> None:
    found = place_of(obj)
    if name is None:
        assert found == Place(f"module {obj.__name__}", obj.__file__)
    else:
        assert found == Place(name)


def test_what_classes_in_c_hold_is_named_with_its_class() -> None:
    assert place_of(object.__init__) == Place("builtins:object.__init__")
    assert place_of(str.upper) == Place("builtins:str.upper")


def test_the_source_tells_the_line_of_a_class(shop: Any) -> None:
    assert place_in_source(shop.Till) == Place("shop:Till", shop.__file__, 4)
    assert place_in_source(shop.price) == place_of(shop.price)
    assert place_in_source(int) == Place("builtins:int")
