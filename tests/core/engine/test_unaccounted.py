"""A search for names ends when all references are accounted for, and never before the last name was found."""

from __future__ import annotations

import functools
import importlib
from types import MethodType, ModuleType
from typing import Any, Callable, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patchcore as pc
from patchcore.engine import unaccounted
from patchcore.engine.references import find_references
from patchcore.engine.unaccounted import Unaccounted
from patchcore.objects.modules import class_namespace

MODULES = ("first", "second", "third", "last")


class Recorded(dict[str, ModuleType]):
    """Modules that remember which of them were looked at."""

    looked_at: list[str]

    def __getitem__(self, name: str) -> ModuleType:
        self.looked_at.append(name)
        return super().__getitem__(name)


def new_modules() -> Recorded:
    modules = Recorded((name, ModuleType(name)) for name in MODULES)
    modules.looked_at = []
    return modules


def new_function() -> Any:
    def function(value: object = None) -> object:
        return value

    return function


def new_class() -> Any:
    class Found:
        def method(self) -> object:
            return __class__  # type: ignore[name-defined]

    return Found


def new_method() -> Any:
    return MethodType(new_function(), "self")


def new_partial() -> Any:
    return functools.partial(new_function())


NEW: tuple[Callable[[], Any], ...] = (new_function, new_class, new_method, new_partial)


# --- who may hold an object -------------------------------------------------------------------------------------------


class Holder(NamedTuple):
    """Lets something in a module hold an object; returns what may be told to the search as a keeper."""

    name: str
    hold: Callable[[ModuleType, Any], Any]


def as_global(module: ModuleType, obj: Any) -> Any:
    setattr(module, f"name{len(vars(module))}", obj)


def as_attribute(module: ModuleType, obj: Any) -> Any:
    name = f"Class{len(vars(module))}"
    setattr(module, name, type(name, (), {"attribute": obj, "__module__": module.__name__, "__qualname__": name}))


def as_static(module: ModuleType, obj: Any) -> Any:
    """One ``staticmethod`` object for two names."""
    name = f"Class{len(vars(module))}"
    form = staticmethod(obj)
    space = {"one": form, "other": form, "__module__": module.__name__, "__qualname__": name}
    setattr(module, name, type(name, (), space))


def in_instance(module: ModuleType, obj: Any) -> Any:
    holder = type("Instance", (), {})()
    holder.held = obj
    as_global(module, holder)


def in_list(module: ModuleType, obj: Any) -> Any:
    as_global(module, [obj])


def in_closure(module: ModuleType, obj: Any) -> Any:
    def keeper() -> Any:
        return obj

    as_global(module, keeper)
    return keeper


def in_default(module: ModuleType, obj: Any) -> Any:
    def keeper(held: Any = obj) -> Any:
        return held

    as_global(module, keeper)
    return keeper


def in_function(module: ModuleType, obj: Any) -> Any:
    def keeper() -> Any: ...

    keeper.__wrapped__ = obj
    as_global(module, keeper)
    return keeper


def in_partial(module: ModuleType, obj: Any) -> Any:
    keeper = functools.partial(print, obj)
    as_global(module, keeper)
    return keeper


def in_tuple(module: ModuleType, obj: Any) -> Any:
    keeper = ((obj, obj), obj)
    as_global(module, keeper)
    return keeper


def beside_a_module(module: ModuleType, obj: Any) -> Any:
    """Two names, and a keeper that leads to the module, which must not be counted twice."""
    as_global(module, obj)
    return module, [vars(module)], {"space": vars(module)}, obj


def in_own_function(module: ModuleType, obj: Any) -> Any:
    """A name, and a function that has the module's namespace as its globals."""
    as_global(module, obj)
    space = vars(module)
    exec("def keeper(): pass", space)
    return space["keeper"]


def in_method_of_class(module: ModuleType, obj: Any) -> Any:
    """A function in a class, which a keeper leads to."""
    as_attribute(module, in_default(ModuleType("nowhere"), obj))


def in_subclass(module: ModuleType, obj: Any) -> Any:
    if isinstance(obj, type):
        as_global(module, type("Sub", (obj,), {"__module__": module.__name__, "__qualname__": "Sub"}))


HOLDERS = [
    Holder(hold.__name__, hold)
    for hold in (
        as_global,
        as_attribute,
        as_static,
        in_instance,
        in_list,
        in_closure,
        in_default,
        in_function,
        in_partial,
        in_tuple,
        beside_a_module,
        in_own_function,
        in_method_of_class,
        in_subclass,
    )
]
placed = st.tuples(st.sampled_from(HOLDERS), st.sampled_from(MODULES), st.booleans())


def places(found: list[tuple[Any, Any]]) -> set[str]:
    return {slot.name for slot, _ in found}


@given(makes=st.lists(st.sampled_from(NEW), min_size=1, max_size=2), everything=st.lists(placed, max_size=7))
def test_what_is_found_is_what_a_search_to_the_end_finds(
    makes: list[Callable[[], Any]], everything: list[tuple[Holder, str, bool]]
) -> None:
    """Whoever holds the objects, and whichever of them the caller knows of."""
    modules = new_modules()
    objects = [make() for make in makes]
    keepers = []
    for number, (holder, name, told) in enumerate(everything):
        keeper = holder.hold(modules[name], objects[number % len(objects)])
        if told and keeper is not None:
            keepers.append(keeper)
    with patch.object(unaccounted, "_FEW", -1):
        expected = places(find_references(objects, modules))
    assert places(find_references(objects, modules, (), keepers)) == expected


@pytest.mark.skipif(not unaccounted.EXACT, reason="this interpreter counts references later")
@pytest.mark.parametrize("make", NEW, ids=lambda make: make.__name__)
class TestItEnds:
    def test_at_once_when_nobody_else_holds_the_object(self, make: Callable[[], Any]) -> None:
        modules = new_modules()
        assert find_references([make()], modules) == []
        assert modules.looked_at == []

    def test_with_the_last_name(self, make: Callable[[], Any]) -> None:
        modules = new_modules()
        objects = [make()]
        as_global(modules["first"], objects[0])
        as_global(modules["second"], objects[0])
        modules.looked_at.clear()
        assert len(find_references(objects, modules)) == 2
        assert modules.looked_at == ["first", "second"]

    def test_with_keepers_that_the_caller_knows(self, make: Callable[[], Any]) -> None:
        modules = new_modules()
        objects = [make()]
        holds = (in_closure, in_default, in_function, in_partial, in_tuple)
        keepers = [hold(ModuleType("aside"), objects[0]) for hold in holds]
        as_global(modules["first"], objects[0])
        modules.looked_at.clear()
        assert len(find_references(objects, modules, (), keepers)) == 1
        assert modules.looked_at == ["first"]

    def test_not_while_somebody_else_holds_the_object(self, make: Callable[[], Any]) -> None:
        modules = new_modules()
        objects = [make()]
        as_global(modules["first"], objects[0])
        aside = [objects[0]]
        modules.looked_at.clear()
        assert len(find_references(objects, modules)) == 1
        assert modules.looked_at == list(MODULES)
        del aside


@pytest.mark.skipif(not unaccounted.EXACT, reason="this interpreter counts references later")
def test_modules_of_the_same_package_are_looked_at_before_others() -> None:
    names = ("before", "package", "aside", "package.user", "package.home", "after")
    modules = Recorded((name, ModuleType(name)) for name in names)
    modules.looked_at = []
    objects = [new_function()]
    objects[0].__module__ = "package.home"
    for name in ("package.home", "package.user", "after"):
        as_global(modules[name], objects[0])
    modules.looked_at.clear()
    found = find_references(objects, modules)
    assert {slot.owner.__name__ for slot, _ in found} == {"package.home", "package.user", "after"}
    order = list(dict.fromkeys(modules.looked_at))
    assert order == ["package.home", "package", "package.user", "before", "aside", "after"]


@pytest.mark.skipif(not unaccounted.EXACT, reason="this interpreter counts references later")
def test_the_classes_under_a_class_are_accounted_for() -> None:
    base = new_class()
    below = type("Below", (type("Sub", (base,), {}),), {})
    objects = {id(base): base}
    del base
    assert not Unaccounted(objects, [])
    held = class_namespace(below), objects[next(iter(objects))]
    assert Unaccounted(objects, [])
    del held


def test_where_the_count_is_not_exact_the_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unaccounted, "EXACT", False)
    assert Unaccounted({1: object()}, [])


def test_of_an_object_with_many_references_none_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of ``int`` and ``object``, which half of a process holds."""
    looked: list[Any] = []
    monkeypatch.setattr(Unaccounted, "_look", lambda self, todo: looked.append(todo))
    held = new_function()
    holders = [[held] for _ in range(2_000)]
    assert Unaccounted({id(held): held, 1: object()}, [])
    assert looked == []
    del holders


@pytest.mark.skipif(not unaccounted.EXACT, reason="this interpreter counts references later")
@pytest.mark.parametrize("what", ["apply", "revert"])
def test_a_patch_alone_holds_nothing_that_the_search_does_not_know(
    make_package: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Where the interpreter keeps the fields of an object in the object, its ``__dict__`` refers to none of them."""
    make_package({"alone": "def price(): return 'price'", "other": "def price(): return 'other'"})
    left: list[bool] = []
    ask = Unaccounted.__bool__
    monkeypatch.setattr(Unaccounted, "__bool__", lambda self: left.append(ask(self)) or left[-1])  # type: ignore[func-returns-value]
    importlib.import_module("alone")
    patcher = pc.Patcher([pc.Patch("alone.price", pc.Replace("alone:price", importlib.import_module("other").price))])
    with patcher:
        assert left.pop() is False
        if what == "revert":
            left.clear()
            patcher.revert()
            assert left.pop() is False
