"""Patches of validators: pydantic has compiled the original into the schema of the class."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import patchcore as pc

SHOP = """
    from pydantic import BaseModel, field_validator, model_validator
    from pydantic.dataclasses import dataclass


    class Item(BaseModel):
        cost: int = 0

        @field_validator("cost")
        @classmethod
        def price(cls, value):
            return value

        @model_validator(mode="before")
        @classmethod
        def whole(cls, data):
            return data


    class Part(Item):
        pass


    @dataclass
    class Data:
        cost: int = 0

        @field_validator("cost")
        @classmethod
        def price(cls, value):
            return value
    """


def price(cls: Any, value: int) -> int:
    return 100


def whole(cls: Any, data: Any) -> Any:
    return {"cost": 100}


def remarks_on(change: Any) -> tuple[str, ...]:
    with pc.Patcher([pc.Patch("a", change)]) as patcher:
        record = patcher.report().patches[0]
        assert record.status == "applied", record.reason
        return tuple(record.remarks)


@pytest.fixture
def shop(make_package: Any) -> Any:
    make_package({"shop": SHOP})
    return importlib.import_module("shop")


@pytest.mark.parametrize(("name", "replacement"), [("Item.price", price), ("Item.whole", whole), ("Data.price", price)])
def test_a_replacement_without_effect_has_a_remark_and_everywhere_takes_effect(
    shop: Any, name: str, replacement: Any
) -> None:
    made = getattr(shop, name.partition(".")[0])
    (remark,) = remarks_on(pc.Replace(f"shop:{name}", replacement))
    assert f"shop:{name}: no effect: pydantic calls the {name} that there was when it made the class" in remark
    assert f"patch {name} with everywhere=True" in remark
    assert remarks_on(pc.Replace(f"shop:{name}", replacement, everywhere=True)) == ()
    with pc.Patcher([pc.Patch("a", pc.Replace(f"shop:{name}", replacement, everywhere=True))]):
        assert made(cost=1).cost == 100
    assert made(cost=1).cost == 1


def test_an_inherited_validator_is_patched_at_its_base(shop: Any) -> None:
    (remark,) = remarks_on(pc.Replace("shop:Part.price", price))
    assert "shop:Part.price: no effect" in remark
    assert "patch Item.price with everywhere=True" in remark


def test_pending_patches_get_the_remark_when_the_module_is_imported(make_package: Any) -> None:
    make_package({"shop": SHOP})
    with pc.Patcher([pc.Patch("a", pc.Replace("shop:Item.price", price))]) as patcher:
        assert patcher.report().patches[0].remarks == ()
        importlib.import_module("shop")
        assert "no effect" in patcher.report().patches[0].remarks[0]
