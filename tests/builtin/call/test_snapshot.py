"""Functions that patch by hand: every edit is itemised and reverted, and nothing that is no edit is."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

import patchcore
from patchcore.builtin.call.snapshot import Snapshot
from patchcore.objects.modules import namespace_of

pytestmark = pytest.mark.usefixtures("registries")

SHOP = {
    "shop": "",
    "shop.tools": """
        import abc
        RATE = 1
        UNUSED = 2
        TABLE = {"a": 1, "b": 2}
        def price(): return "original"
        class Base(abc.ABC):
            shared = 1
            def weigh(self): return "base"
        class Bag(Base):
            size = 1
            def pack(self): return "original"
            @staticmethod
            def static(): return "original"
            @property
            def prop(self): return "original"
            class Inner:
                def pack(self): return "inner"
        class Registry:
            def __init__(self): self._module_dict = {"Bag": Bag, "Base": Base}
        MODELS = Registry()
        """,
    "shop.late": """
        from shop.tools import MODELS
        class Late:
            def pack(self): return "late"
        MODELS._module_dict["Late"] = Late
        """,
    "user": "from shop.tools import price as p",
}


def legacy(module: Any, options: Any) -> None:
    """Everything that a function written for one module may do by hand."""
    module.price = lambda: "new"
    module.ADDED = options.get("added", "added")
    del module.UNUSED
    module.TABLE["a"] = 10
    module.TABLE["new"] = 3
    del module.TABLE["b"]
    module.Bag.pack = lambda self: "new"
    module.Bag.static = staticmethod(lambda: "new")
    module.Bag.prop = property(lambda self: "new")
    module.Bag.weigh = lambda self: "own"
    module.Bag.Inner.pack = lambda self: "new"
    module.Bag.added = 1
    del module.Bag.size
    module.Base.shared = 2
    module.MODELS._module_dict["Bag"] = dict
    module.MODELS._module_dict["New"] = dict
    del module.MODELS._module_dict["Base"]
    import shop.late as late  # type: ignore[import-not-found]

    late.Late.pack = lambda self: "new"
    late.ADDED = 1


EDITED = {
    "shop.tools:price",
    "shop.tools:ADDED",
    "shop.tools:UNUSED",
    "shop.tools:TABLE['a']",
    "shop.tools:TABLE['b']",
    "shop.tools:TABLE['new']",
    "shop.tools:Bag.pack",
    "shop.tools:Bag.static",
    "shop.tools:Bag.prop",
    "shop.tools:Bag.weigh",
    "shop.tools:Bag.Inner.pack",
    "shop.tools:Bag.added",
    "shop.tools:Bag.size",
    "shop.tools:Base.shared",
    "shop.tools:MODELS['Bag']",
    "shop.tools:MODELS['Base']",
    "shop.tools:MODELS['New']",
    "shop.late:Late.pack",
    "shop.late:ADDED",
}


def patcher(function: Any, **options: Any) -> patchcore.Patcher:
    call = patchcore.Call(function, module="shop.tools", options=options)
    return patchcore.Patcher([patchcore.Patch("legacy", [call])])


def state(*modules: Any) -> list[Any]:
    """All that the modules hold: their globals, classes and tables."""
    spaces: list[Any] = []
    for module in modules:
        spaces.append(dict(vars(module)))
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == module.__name__:
                spaces += (dict(vars(value)), *(dict(vars(v)) for v in vars(value).values() if isinstance(v, type)))
            if isinstance(value, dict) and value is not vars(module)["__builtins__"]:
                spaces.append(dict(value))
            table = (namespace_of(value) or {}).get("_module_dict")
            if table is not None:
                spaces.append(dict(table))
    return spaces


def same(before: list[Any], after: list[Any]) -> bool:
    return [space.keys() for space in before] == [space.keys() for space in after] and all(
        old[key] is new[key] for old, new in zip(before, after) for key in old
    )


@pytest.mark.parametrize("loaded", [True, False])
def test_everything_a_function_does_is_itemised_and_reverted(make_package, loaded: bool) -> None:
    make_package(SHOP)
    tools = importlib.import_module("shop.tools")
    before = state(tools)
    if not loaded:
        del sys.modules["shop.tools"]
    with patcher(legacy, added="given") as applied:
        tools = importlib.import_module("shop.tools")
        assert tools.price() == tools.Bag().pack() == tools.Bag.static() == tools.Bag().prop == "new"
        assert tools.ADDED == "given"
        assert tools.TABLE == {"a": 10, "new": 3}
        assert sys.modules["shop.late"].Late().pack() == "new"
        (change,) = applied.report()["legacy"].changes
        assert set(change.slots) == EDITED
        assert change.status == "applied"
    if loaded:
        # the module that the function imported stays imported, and so does what its body has registered
        before[-1]["Late"] = sys.modules["shop.late"].Late
        assert same(before, state(tools))
    assert tools.price() == tools.Bag().pack() == tools.Bag.static() == tools.Bag().prop == "original"
    assert not hasattr(tools, "ADDED")
    assert sys.modules["shop.late"].Late().pack() == "late"
    assert not hasattr(sys.modules["shop.late"], "ADDED")


def test_a_function_that_changes_nothing_is_skipped(make_package) -> None:
    make_package(SHOP)
    importlib.import_module("shop.tools")
    with patcher(lambda module, options: importlib.import_module("shop.late")) as applied:
        record = applied.report()["legacy"]
        assert (record.status, record.reason) == ("skipped", "the function changed nothing")
    assert "Late" in sys.modules["shop.tools"].MODELS._module_dict


# --- the snapshot itself --------------------------------------------------------------------------------------------


def edits(snapshot: Snapshot) -> dict[str, tuple[Any, Any]]:
    return {edit.slot.name: (edit.before, edit.after) for edit in snapshot.edits()}


def test_what_python_keeps_for_itself_is_no_edit(make_package) -> None:
    import copyreg

    make_package(SHOP)
    tools = importlib.import_module("shop.tools")
    snapshot = Snapshot("shop", tables=["_module_dict"])
    getattr(tools.Bag, "__annotations__", None)  # makes the dictionary, since Python 3.10
    copyreg._slotnames(tools.Bag)
    isinstance(3, tools.Base)
    tools.Base.register(dict)
    tools.__warningregistry__ = {}
    assert edits(snapshot) == {}


def test_an_import_inside_the_package_is_no_edit(make_package) -> None:
    make_package(SHOP)
    tools = importlib.import_module("shop.tools")
    snapshot = Snapshot("shop", tables=["_module_dict"])
    late = importlib.import_module("shop.late")
    snapshot.add("shop.late", late)
    assert edits(snapshot) == {}
    tools.MODELS._module_dict["Bag"] = late.Late  # an entry that was there before is an edit all the same
    late.ADDED = 1
    assert edits(snapshot).keys() == {"shop.tools:MODELS['Bag']", "shop.late:ADDED"}


def test_other_packages_and_the_table_of_modules_are_left_alone(make_package) -> None:
    make_package({**SHOP, "shopping": "RATE = 1", "shop.mods": "import sys\nfrom sys import modules\nimport json"})
    shopping, mods = importlib.import_module("shopping"), importlib.import_module("shop.mods")
    snapshot = Snapshot("shop", tables=["_module_dict"])
    shopping.RATE = 2
    mods.modules["shop.made_up"] = shopping
    try:
        assert edits(snapshot) == {}
    finally:
        del sys.modules["shop.made_up"]


def test_a_snapshot_wakes_no_lazy_module(make_package) -> None:
    source = """
        import importlib.util, sys
        spec = importlib.util.find_spec("sleepy")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        sleepy = importlib.util.module_from_spec(spec)
        sys.modules["sleepy"] = sleepy
        spec.loader.exec_module(sleepy)
        class Holder:
            lazy = sleepy
        def __getattr__(name): raise AssertionError(name)
        """
    make_package({"shop": "", "shop.lazy": source, "sleepy": "raise AssertionError('woken')"})
    lazy = importlib.import_module("shop.lazy")
    snapshot = Snapshot("shop", tables=["_module_dict"])
    sleepy = vars(lazy)["sleepy"]
    lazy.again = sleepy
    lazy.Holder.lazy = 3
    assert edits(snapshot).keys() == {"shop.lazy:again", "shop.lazy:Holder.lazy"}


@pytest.mark.parametrize("loaded", [True, False])
def test_what_a_function_does_to_other_packages_that_it_names_is_reverted_too(make_package, loaded: bool) -> None:
    make_package({"shop": "", "store": "", "store.shelves": "class Shelf:\n    def load(self): return 'old'\n"})
    if loaded:
        importlib.import_module("store.shelves")

    def by_hand(module: Any, options: Any) -> None:
        shelves = importlib.import_module("store.shelves")
        shelves.Shelf.load = lambda self: "new"
        shelves.added = True

    call = patchcore.Call(by_hand, module="shop", roots=["store"])
    importlib.import_module("shop")
    with patchcore.Patcher([patchcore.Patch("legacy", [call])], strict=True) as applied:
        shelves = importlib.import_module("store.shelves")
        assert (shelves.Shelf().load(), shelves.added) == ("new", True)
        (change,) = applied.report()["legacy"].changes
        assert set(change.slots) == {"store.shelves:Shelf.load", "store.shelves:added"}
    assert shelves.Shelf().load() == "old"
    assert not hasattr(shelves, "added")
