"""layers.py: what lies on a patched target, said without importing or running anything."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

import pytest

import patchcore as pc
from patchcore.engine import ENGINE
from patchcore.layers import TargetRecord, describe_layers
from patchcore.places import Place, place_of

SHOP = """
import functools
def price(): return 1
class Till:
    def sell(self): pass
    @staticmethod
    def close(): pass
    @property
    def total(self): return 0
    @functools.lru_cache
    def cached(): pass
"""


@pytest.fixture
def shop(make_package: Any) -> Any:
    make_package({"shop": SHOP, "kernels": "def wrapper(original): pass\n\ndef fast(): pass\n"})
    return importlib.import_module("shop")


def replacement() -> None: ...


LINE = replacement.__code__.co_firstlineno


def layers(*changes: Any) -> dict[str, TargetRecord]:
    """Return what lies on targets while patches of one change each are in force, in this order."""
    patches = [pc.Patch(f"p{n}", [change], priority=n) for n, change in enumerate(changes)]
    patches = [p.evolve(after=[q.name for q in patches[:n]]) for n, p in enumerate(patches)]
    with pc.Patcher(patches) as patcher:
        assert all(record.status == "applied" for record in patcher.report().patches)
        return {target.target: target for target in describe_layers(ENGINE.journal)}


def test_one_layer(shop: Any) -> None:
    (target,) = layers(pc.Replace("shop:price", replacement)).values()
    (layer,) = target.layers
    assert (layer.patch, layer.kind, layer.plugin, layer.distribution) == ("p0", "replace", "local", None)
    assert layer.place == Place("test_layers:replacement", __file__, LINE)
    assert target.original == Place("shop:price", shop.__file__, 3)


def test_several_layers_from_the_outermost_on(shop: Any) -> None:
    found = layers(pc.Replace("shop:price", replacement), pc.Wrap("shop:price", "kernels:wrapper"))
    inner, outer = ("replace", "test_layers:replacement"), ("wrap", "kernels:wrapper")
    assert [(layer.kind, layer.place.name) for layer in found["shop:price"].layers] == [outer, inner]
    assert found["shop:price"].original.name == "shop:price"


def test_what_a_dispatcher_calls_is_named_and_not_the_dispatcher(shop: Any) -> None:
    found = layers(pc.Replace("shop:price", "kernels:fast", when_call=lambda: True))
    (layer,) = found["shop:price"].layers
    assert layer.place == Place("kernels:fast", sys.modules["kernels"].__file__, 3)


def test_somebody_else_in_between(shop: Any) -> None:
    with pc.Patcher([pc.Patch("inner", [pc.Replace("shop:price", replacement)])]):
        shop.price = vars
        with pc.Patcher([pc.Patch("outer", [pc.Wrap("shop:price", "kernels:wrapper")])]):
            (target,) = describe_layers(ENGINE.journal)
    assert [layer.patch for layer in target.layers] == ["outer", None, "inner"]
    assert target.layers[1].place == Place("builtins:vars")


def test_the_json_view(shop: Any) -> None:
    (target,) = layers(pc.Replace("shop:price", replacement)).values()
    assert target.to_dict() == {
        "target": "shop:price",
        "layers": [
            {
                "patch": "p0",
                "kind": "replace",
                "plugin": "local",
                "distribution": None,
                "version": None,
                "place": {"name": "test_layers:replacement", "file": __file__, "line": LINE},
            }
        ],
        "original": {"name": "shop:price", "file": shop.__file__, "line": 3},
    }


def test_nothing_is_imported_to_describe_a_replacement(shop: Any) -> None:
    with pc.Patcher([pc.Patch("p", [pc.Wrap("shop:price", "kernels:wrapper")])]):
        del sys.modules["kernels"]
        (target,) = describe_layers(ENGINE.journal)
        assert "kernels" not in sys.modules
    assert target.layers[0].place == Place("kernels:wrapper")


# --- places --------------------------------------------------------------------------------------------------------


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


def test_a_place_as_text() -> None:
    assert str(Place("m:f", "m.py", 3)) == "m:f (m.py:3)"
    assert str(Place("m:C", "m.py")) == "m:C (m.py)"
    assert str(Place("m:f")) == "m:f"
