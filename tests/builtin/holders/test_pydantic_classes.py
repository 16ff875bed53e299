"""Patches of validators: pydantic has compiled the original into the schema of the class."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import patchcore as pc

#: What pydantic leaves in a class, as far as patches meet it: a table, and calls of what the table had then.
IMITATION = """
    class Decorator:
        def __init__(self, func):
            self.func = func


    class Decorators:
        def __init__(self, **names):
            self.field_validators = names


    class BaseModel:
        def __init_subclass__(cls):
            if "price" in vars(cls):
                validator = getattr(cls, "price")
                cls.__pydantic_decorators__ = Decorators(price=Decorator(validator))
                cls.validate = staticmethod(validator)
    """
SHOP = """
    from pydantic import BaseModel


    class Item(BaseModel):
        @classmethod
        def price(cls, value):
            return value


    class Part(Item):
        pass
    """
REAL = """
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


def test_a_replacement_without_effect_has_a_remark(make_package: Any) -> None:
    make_package({"pydantic": IMITATION, "shop": SHOP})
    shop = importlib.import_module("shop")
    (remark,) = remarks_on(pc.Replace("shop:Item.price", price))
    assert "shop:Item.price: no effect: pydantic calls the Item.price that there was when it made the class" in remark
    (remark,) = remarks_on(pc.Replace("shop:Part.price", price))  # inherited: the body is that of the base
    assert "shop:Part.price: no effect" in remark
    assert "patch Item.price with everywhere=True" in remark
    assert remarks_on(pc.Replace("shop:Item.price", price, everywhere=True)) == ()
    with pc.Patcher([pc.Patch("a", pc.Replace("shop:Item.price", price, everywhere=True))]):
        assert shop.Item.validate(1) == 100
    assert shop.Item.validate(1) == 1


def test_pending_patches_get_the_remark_when_the_module_is_imported(make_package: Any) -> None:
    make_package({"pydantic": IMITATION, "shop": SHOP})
    with pc.Patcher([pc.Patch("a", pc.Replace("shop:Item.price", price))]) as patcher:
        assert patcher.report().patches[0].remarks == ()
        importlib.import_module("shop")
        assert "no effect" in patcher.report().patches[0].remarks[0]


@pytest.mark.parametrize(("name", "replacement"), [("Item.price", price), ("Item.whole", whole), ("Data.price", price)])
def test_the_real_pydantic(make_package: Any, name: str, replacement: Any) -> None:
    pytest.importorskip("pydantic", minversion="2")
    make_package({"shop": REAL})
    shop = importlib.import_module("shop")
    made = getattr(shop, name.partition(".")[0])
    (remark,) = remarks_on(pc.Replace(f"shop:{name}", replacement))
    assert f"patch {name} with everywhere=True" in remark
    with pc.Patcher([pc.Patch("a", pc.Replace(f"shop:{name}", replacement, everywhere=True))]):
        assert made(cost=1).cost == 100
    assert made(cost=1).cost == 1
