"""What plugins bring holds for the patches of the Patchers that loaded them, and for nothing else."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

import patchcore as pc
from patchcore.declare.changes import Change
from patchcore.declare.slots import ItemSlot
from patchcore.engine.context import WriteContext, Writer
from patchcore.plugins import Plugins

SHOP = {
    "shop": """
        class Registry:
            def __init__(self): self.entries = {"Net": int}

        MODELS = Registry()
        Alias = int

        def price(x): return ("price", x)

        def tax(x): return ("tax", x)
        """
}

NO_PLUGINS = ["no:patchcore.torch"]


class Tagged(Change):
    """A kind of change that only :class:`Plugin` has a writer for."""

    def __init__(self) -> None:
        super().__init__(target=pc.Target.parse("shop:Registry"))

    @property
    def source(self) -> Any:
        return None


class TagWriter(Writer):
    """Marks its change as applied, and writes nothing."""

    def write(self, context: WriteContext) -> None:
        assert context.begin()


class Away:
    """An argument to which calls are handed over."""


class Plugin:
    """Brings one of everything."""

    @pc.hookimpl
    def register_writers(self) -> dict[Any, Any]:
        return {Tagged: TagWriter}

    @pc.hookimpl
    def register_guards(self) -> list[Any]:
        return [self.refuse_tax]

    @pc.hookimpl
    def register_marks(self) -> list[Any]:
        return [self.mark]

    @pc.hookimpl
    def register_handovers(self) -> list[Any]:
        return [lambda original: (lambda *args: any(isinstance(a, Away) for a in args), lambda f, *args: "elsewhere")]

    @pc.hookimpl
    def registry_tables(self) -> list[str]:
        return ["entries"]

    @staticmethod
    def refuse_tax(change: Any, slot: Any, below: Any, product: Any) -> None:
        if slot.name == "shop:tax":
            raise pc.DeclarationError("nobody patches the tax")

    @staticmethod
    def mark(function: Any, original: Any, is_method: bool) -> None:
        function.marked = True


def doubled(original: Any, x: Any) -> Any:
    return "doubled", original(x)


def with_plugin() -> Plugins:
    plugins = Plugins(allowed=NO_PLUGINS, discover=False)
    plugins.add(Plugin(), "everything")
    return plugins


def without() -> Plugins:
    return Plugins(allowed=NO_PLUGINS, discover=False)


@pytest.fixture
def shop(make_package: Any) -> ModuleType:
    make_package(SHOP)
    return importlib.import_module("shop")


WRAPPED = pc.Patch("wrapped", pc.Wrap("shop:price", doubled))
TAXED = pc.Patch("taxed", pc.Wrap("shop:tax", doubled))
ENTERED = pc.Patch("entered", pc.Replace('shop:MODELS["Net"]', float))
TAGGED = pc.Patch("tagged", Tagged())


def statuses(patcher: pc.Patcher) -> dict[str, str]:
    return {record.name: record.status for record in patcher.report().patches}


@pytest.mark.parametrize("applied", [True, False], ids=["both are applied", "the other one was only made"])
def test_what_a_plugin_brings_holds_for_the_patches_of_its_own_patchers_only(shop: ModuleType, applied: bool) -> None:
    other = pc.Patcher([pc.Patch("other", pc.Replace("shop:Alias", str))], plugins=with_plugin())
    if applied:
        other.apply()
    with pc.Patcher([WRAPPED, TAXED, ENTERED, TAGGED], plugins=without()) as patcher:
        assert statuses(patcher) == {"wrapped": "applied", "taxed": "applied", "entered": "failed", "tagged": "failed"}
        assert not hasattr(shop.price, "marked")
        assert shop.price(away := Away()) == ("doubled", ("price", away))
    other.revert()
    with pc.Patcher([WRAPPED, TAXED, ENTERED, TAGGED], plugins=with_plugin()) as patcher:
        assert statuses(patcher) == {"wrapped": "applied", "taxed": "failed", "entered": "applied", "tagged": "applied"}
        assert shop.price.marked
        assert shop.price(Away()) == "elsewhere"
    assert not hasattr(shop.price, "marked")
    assert shop.MODELS.entries == {"Net": int}


def test_entries_of_a_registry_follow_the_patches_of_patchers_that_know_it(shop: ModuleType) -> None:
    shop.Alias = shop.MODELS.entries["Net"] = type("Net", (), {"__module__": "shop", "__qualname__": "Alias"})
    original = shop.Alias
    for plugins, followed in ((without(), original), (with_plugin(), float)):
        with pc.Patcher([pc.Patch("net", pc.Replace("shop:Alias", float))], plugins=plugins):
            assert shop.Alias is float
            assert shop.MODELS.entries == {"Net": followed}
        assert shop.MODELS.entries == {"Net": original}


@pytest.mark.parametrize("plugins_first", [True, False])
def test_a_patch_that_two_patchers_share_goes_by_the_plugins_of_the_first(
    shop: ModuleType, plugins_first: bool
) -> None:
    makers = (with_plugin, without) if plugins_first else (without, with_plugin)
    first, second = (pc.Patcher([WRAPPED, TAXED], plugins=make()) for make in makers)
    first.apply()
    second.apply()
    expected = {"wrapped": "applied", "taxed": "failed" if plugins_first else "applied"}
    assert statuses(first) == expected
    assert (hasattr(shop.price, "marked"), shop.price(Away()) == "elsewhere") == (plugins_first, plugins_first)
    first.revert()
    assert (hasattr(shop.price, "marked"), shop.price(Away()) == "elsewhere") == (plugins_first, plugins_first)
    second.revert()
    assert shop.price(1) == ("price", 1)


@pytest.mark.parametrize("plugins_first", [True, False])
def test_a_function_with_patches_of_both_kinds_is_marked_as_the_one_on_top_says(
    shop: ModuleType, plugins_first: bool
) -> None:
    makers = (with_plugin, without) if plugins_first else (without, with_plugin)
    patches = (WRAPPED, pc.Patch("again", pc.Wrap("shop:price", doubled), after="wrapped"))
    first, second = (pc.Patcher([patch], plugins=make()) for patch, make in zip(patches, makers))
    with first:
        assert hasattr(shop.price, "marked") is plugins_first
        with second:
            assert hasattr(shop.price, "marked") is not plugins_first
            assert shop.price(1) == ("doubled", ("doubled", ("price", 1)))
        assert hasattr(shop.price, "marked") is plugins_first
    second.apply()
    first.apply()
    second.revert()  # the one above is built again on the original
    assert hasattr(shop.price, "marked") is plugins_first
    first.revert()
    assert vars(shop.price) == {}


def test_an_original_in_a_registry_is_found_while_a_patch_knows_the_registry(shop: ModuleType) -> None:
    with pc.Patcher([ENTERED], plugins=with_plugin()):
        assert shop.MODELS.entries["Net"] is float
        assert pc.original('shop:MODELS["Net"]') is int
    with pytest.raises(pc.TargetError, match="which no loaded plugin knows as a registry"):
        pc.original('shop:MODELS["Net"]')


def test_a_plugin_that_remarks_on_a_patch_finds_the_entries_of_registries(shop: ModuleType) -> None:
    class Remarking:
        @pc.hookimpl
        def remarks(self, entry: Any, thorough: bool) -> list[pc.Remark]:
            (change,), (target,) = entry.patch.changes, entry.targets
            return [pc.Remark(change.find_slot(target, shop).name)]

    plugins = with_plugin()
    plugins.add(Remarking(), "remarking")
    patcher = pc.Patcher([ENTERED], plugins=plugins)
    (entry,) = patcher.plan()
    assert [remark.text for remark in plugins.remarks(entry, thorough=True)] == ["shop:MODELS['Net']"]
    assert not plugins.problems


class Priced(Change):
    """Changes ``shop.price`` through :class:`PriceWriter`."""

    def __init__(self, by: int) -> None:
        super().__init__(target=pc.Target.parse("shop:price"), by=by)

    @property
    def source(self) -> Any:
        return None


class PriceWriter(Writer):
    """Writes a value that depends on the value below it, which names of other modules follow."""

    def write(self, context: WriteContext) -> None:
        def build(below: Any, slot: Any) -> Any:
            return lambda x: (*below(x), context.change.by)

        assert context.write(ItemSlot(vars(context.module), "price", "shop:price"), build=build, rebind=True)


def test_a_writer_builds_its_value_on_the_one_below_and_names_follow(make_package: Any) -> None:
    make_package({**SHOP, "deals": "from shop import price\n"})
    deals = importlib.import_module("deals")
    price = deals.price

    class Prices:
        @pc.hookimpl
        def register_writers(self) -> dict[Any, Any]:
            return {Priced: PriceWriter}

    plugins = without()
    plugins.add(Prices(), "prices")
    below = pc.Patcher([pc.Patch("below", Priced(1))], plugins=plugins)
    above = pc.Patcher([pc.Patch("above", Priced(2), after="*")], plugins=plugins)
    below.apply()
    above.apply()
    assert deals.price(0) == ("price", 0, 1, 2)
    below.revert()
    assert deals.price(0) == ("price", 0, 2)
    above.revert()
    assert deals.price is importlib.import_module("shop").price is price
