"""Looking at modules and classes without importing anything, waking anything or running anybody's code."""

from __future__ import annotations

import collections
import enum
import importlib
import importlib.abc
import importlib.util
import sys
import types
from types import ModuleType
from typing import Any

import pytest

from patchcore.objects import modules
from patchcore.objects.modules import ABSENT, find_module, missing_ancestor, namespace_of

BOOM = "raise AssertionError('this module must not be imported')"


def lazily(name: str) -> ModuleType:
    """Import ``name`` as the documentation of ``importlib`` does it lazily."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Proxy:
    """Like werkzeug's LocalProxy outside of a request: whatever it is asked, it raises."""

    @property
    def __dict__(self) -> Any:
        raise RuntimeError("working outside of request context")

    @property
    def __class__(self) -> Any:
        raise RuntimeError("working outside of request context")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("shop", True),
        ("shop.tools", True),
        ("shop.tools.deep", True),
        ("shop.tols", False),
        ("shop.tools.deep.deeper", False),  # not a package
        ("no_such_package", False),
        ("no_such_package.inner", False),
        ("space", True),  # a namespace package
        ("space.part", True),
        ("json.decoder", True),
    ],
)
def test_a_module_is_found_without_importing_it_or_its_parents(make_package, name: str, found: bool) -> None:
    make_package({"shop": BOOM, "shop.tools": BOOM, "shop.tools.deep": BOOM, "space.part": BOOM})
    before = set(sys.modules)
    assert find_module(name) is found
    assert set(sys.modules) == before


def test_a_module_in_an_imported_package_is_found_through_its_path(make_package) -> None:
    folder = make_package({"shop": "", "shop.tools": BOOM, "elsewhere.extra": BOOM})
    importlib.import_module("shop").__path__.append(str(folder / "elsewhere"))
    assert find_module("shop.extra")


def test_a_blocked_import_is_not_found_nor_what_is_inside(make_package, monkeypatch: pytest.MonkeyPatch) -> None:
    make_package({"shop": "", "shop.tools": ""})
    monkeypatch.setitem(sys.modules, "shop", None)
    assert not find_module("shop")
    assert not find_module("shop.tools")


def test_a_module_that_somebody_put_into_sys_modules_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "by_hand", ModuleType("by_hand"))
    assert find_module("by_hand")
    assert not find_module("by_hand.inner")


def test_a_finder_of_the_old_kind_is_passed_over(make_package, monkeypatch: pytest.MonkeyPatch) -> None:
    make_package({"shop": ""})
    monkeypatch.setattr(sys, "meta_path", [object(), *sys.meta_path])
    assert find_module("shop")


def test_the_first_missing_ancestor_is_named(make_package) -> None:
    make_package({"shop": "", "shop.tools": ""})
    assert missing_ancestor("shop.tools") is None
    assert missing_ancestor("shop.tols.deep") == "shop.tols"
    assert missing_ancestor("no_such_package.tools") == "no_such_package"


def test_the_modules_inside_a_package_are_listed_without_importing_it(make_package) -> None:
    make_package({"shop": BOOM, "shop.tools": BOOM, "shop.bags": "", "shop.bags.inner": ""})
    assert modules.submodule_names("shop") == ["shop.bags", "shop.tools"]
    assert modules.submodule_names("shop.tools") == []
    assert modules.submodule_names("no_such_package") == []


def test_a_lazy_module_is_looked_at_without_waking_it(make_package) -> None:
    make_package({"sleepy": BOOM})
    module = lazily("sleepy")
    assert modules.is_lazy(module)
    assert modules.is_initializing(module)
    assert not modules.is_class(module)
    assert modules.executed_module("sleepy") is None
    assert "__spec__" in (namespace_of(module) or {})
    assert find_module("sleepy")
    assert modules.is_lazy(module)


def test_a_module_counts_as_executed_only_when_its_body_has_run_to_the_end(make_package) -> None:
    make_package(
        {
            "busy": """
            from patchcore.objects.modules import executed_module, is_initializing
            import sys
            DURING = is_initializing(sys.modules[__name__]), executed_module(__name__)
            """
        }
    )
    busy = importlib.import_module("busy")
    assert busy.DURING == (True, None)
    assert modules.executed_module("busy") is busy
    assert modules.executed_module("never_imported") is None


def test_a_namespace_is_what_can_be_written() -> None:
    class Slotted:
        __slots__ = ()

    module = ModuleType("m")
    assert namespace_of(module) is module.__dict__
    assert namespace_of(Slotted()) is None
    assert namespace_of(Slotted) is None  # a class shows a read-only view
    assert namespace_of(3) is None


def test_a_proxy_is_not_made_to_raise() -> None:
    assert namespace_of(Proxy()) is None
    assert not modules.is_class(Proxy())


@pytest.mark.parametrize(
    ("klass", "immutable"),
    [
        (int, True),
        (dict, True),
        (types.FunctionType, True),
        (collections.OrderedDict, True),
        (Proxy, False),
        (enum.Enum, False),
    ],
)
def test_types_written_in_c_are_told_from_classes(klass: type, immutable: bool) -> None:
    assert modules.is_immutable(klass) is immutable


def test_a_lookup_in_a_class_runs_no_code_of_the_metaclass() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise AssertionError(name)

    class Base(metaclass=Meta):
        value = property(lambda self: 1)

    class Derived(Base):
        pass

    raw = modules.class_namespace(Base)["value"]
    assert modules.mro_lookup(Derived, "value") is raw
    assert modules.mro_lookup(Base, "value", skip_first=True) is ABSENT
    assert modules.mro_lookup(Derived, "missing") is ABSENT


def test_the_copy_of_loaded_modules_is_a_copy() -> None:
    assert modules.loaded_modules() == sys.modules
    assert modules.loaded_modules() is not sys.modules
