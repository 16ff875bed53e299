"""layers.py: what lies on a patched target, said without importing or running anything."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

import patchcore as pc
from patchcore.builtin.explain.layers import TargetRecord, describe_layers
from patchcore.builtin.explain.places import Place
from patchcore.engine.engine import ENGINE

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


def layers(*changes: Any) -> dict[str, TargetRecord]:
    """Return what lies on targets while patches of one change each are in force, in this order."""
    patches = [pc.Patch(f"p{n}", [change], priority=n) for n, change in enumerate(changes)]
    patches = [p.evolve(after=[q.name for q in patches[:n]]) for n, p in enumerate(patches)]
    with pc.Patcher(patches) as patcher:
        assert all(record.status == "applied" for record in patcher.report().patches)
        return {target.target: target for target in describe_layers(ENGINE.journal)}


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


def test_nothing_is_imported_to_describe_a_replacement(shop: Any) -> None:
    with pc.Patcher([pc.Patch("p", [pc.Wrap("shop:price", "kernels:wrapper")])]):
        del sys.modules["kernels"]
        (target,) = describe_layers(ENGINE.journal)
        assert "kernels" not in sys.modules
    assert target.layers[0].place == Place("kernels:wrapper")
