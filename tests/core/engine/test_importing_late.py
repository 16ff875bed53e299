"""Imports that are put off, under way, or raced: joined, told of at their end, and patched."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from watching import SHOP, Watch, new, replace

import patchcore


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.end()


# --- lazy modules ---------------------------------------------------------------------------------------------------


def lazily(name: str) -> ModuleType:
    spec = importlib.util.find_spec(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def is_asleep(module: ModuleType) -> bool:
    return type(module) is importlib.util._LazyModule


@pytest.mark.parametrize("watched_first", [True, False])
def test_a_lazy_module_is_not_woken_and_is_told_of_when_it_wakes(
    make_package, watch: Watch, watched_first: bool
) -> None:
    make_package(SHOP)
    if watched_first:
        watch("other", "shop.tools")
    module = lazily("shop.tools")
    if not watched_first:
        watch("shop.tools")
        watch.watch.join("shop.tools", watch.ended)
        watch.watch.join("shop.tools", watch.ended)  # once more changes nothing
    watch.callback = replace
    assert is_asleep(module)
    assert watch.told == []
    assert module.price is new
    assert watch.names == ["shop.tools"]
    assert not is_asleep(module)
    assert type(module.__loader__) is type(module.__spec__.loader) is importlib.machinery.SourceFileLoader


def test_a_finder_that_makes_modules_lazy_is_served(
    make_package, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LazyFinder:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
            if name != "shop.tools":
                return None
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            spec.loader = importlib.util.LazyLoader(spec.loader)
            return spec

    make_package(SHOP)
    monkeypatch.setattr(sys, "meta_path", [LazyFinder(), *sys.meta_path])
    watch("shop.tools")
    watch.callback = replace
    module = importlib.import_module("shop.tools")
    assert is_asleep(module)
    assert watch.told == []
    assert module.price is new
    assert watch.names == ["shop.tools"]
    watch.end()


# --- imports that are under way -------------------------------------------------------------------------------------


def test_an_import_under_way_is_joined_and_told_of_at_its_end(make_package, watch: Watch) -> None:
    source = """
        import sys
        sys.modules["bridge"].join(__name__)
        def price(): return "original"
        """
    make_package({"busy": source, "bridge": ""})
    bridge = importlib.import_module("bridge")

    def join(name: str) -> None:
        watch(name)
        watch.watch.join(name, watch.ended)
        watch.watch.join(name, watch.ended)

    bridge.join = join
    watch.callback = replace
    assert importlib.import_module("busy").price is new
    assert watch.names == ["busy"]
    assert type(sys.modules["busy"].__spec__) is importlib.machinery.ModuleSpec


def test_an_import_under_way_that_fails_is_not_told_of(make_package, watch: Watch) -> None:
    make_package({"busy": "import bridge\nbridge.join(__name__)\nraise RuntimeError('half way')", "bridge": ""})
    bridge = importlib.import_module("bridge")
    bridge.join = lambda name: (watch(name), watch.watch.join(name, watch.ended))
    with pytest.raises(RuntimeError, match="half way"):
        importlib.import_module("busy")
    assert watch.told == []


def test_an_import_in_another_thread_is_joined(make_package, watch: Watch) -> None:
    make_package({"busy": "import bridge\nbridge.wait()\ndef price(): ...", "bridge": ""})
    bridge = importlib.import_module("bridge")
    started, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        assert go_on.wait(300)

    bridge.wait = wait
    watch.callback = replace
    thread = threading.Thread(target=importlib.import_module, args=["busy"])
    thread.start()
    assert started.wait(300)
    watch("busy")
    watch.watch.join("busy", watch.ended)
    go_on.set()
    thread.join(300)
    assert not thread.is_alive()
    assert watch.names == ["busy"]
    assert sys.modules["busy"].price is new


class SlowFinder:
    """A finder that has begun to look for a module when somebody starts to watch it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked, self.go_on = threading.Event(), threading.Event()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == self.name:
            self.asked.set()
            assert self.go_on.wait(300)


def test_a_module_that_another_thread_is_looking_for_is_told_of_when_its_import_ends(
    make_package, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_package(SHOP)
    finder = SlowFinder("shop.tools")
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    watch.callback = replace
    seen = []
    thread = threading.Thread(target=lambda: seen.append(importlib.import_module("shop.tools").price))
    thread.start()
    assert finder.asked.wait(300)
    watch("shop.tools")
    watch.watch.join("shop.tools", watch.ended)
    assert "shop.tools" not in sys.modules
    finder.go_on.set()
    thread.join(300)
    assert watch.names == ["shop.tools"]
    assert seen == [new]
    watch.end()


def test_a_module_is_told_of_that_its_own_thread_is_looking_for(
    make_package, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finder applies patches when it is asked for the module, as hooks on the import of torch do."""
    make_package(SHOP)

    class Applying:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name == "shop.tools" and not watch.watched:
                watch(name)
                watch.watch.join(name, watch.ended)

    monkeypatch.setattr(sys, "meta_path", [Applying(), *sys.meta_path])
    watch.callback = replace
    assert importlib.import_module("user").price is new
    assert watch.names == ["shop.tools"]
    watch.end()


def test_what_is_told_at_the_end_of_a_joined_import_may_fail_it(make_package, watch: Watch) -> None:
    make_package({"busy": "import bridge\nbridge.join(__name__)", "bridge": ""})
    bridge = importlib.import_module("bridge")
    bridge.join = lambda name: (watch(name), watch.watch.join(name, watch.ended))

    def fail(name: str, module: ModuleType, fresh: Any) -> None:
        raise RuntimeError("not patched")

    watch.callback = fail
    with pytest.raises(RuntimeError, match="not patched"):
        importlib.import_module("busy")
    del sys.modules["busy"]
    bridge.join = lambda name: None
    watch.callback = None
    thread = threading.Thread(target=importlib.import_module, args=["busy"])
    thread.start()  # the lock of the module was released
    thread.join(300)
    assert not thread.is_alive()


def test_joining_what_has_ended_or_was_put_there_by_hand_does_nothing(make_package, watch: Watch) -> None:
    make_package(SHOP)
    other = importlib.import_module("other")
    watch("other", "by_hand", "blocked")
    sys.modules["by_hand"] = ModuleType("by_hand")
    sys.modules["blocked"] = None
    try:
        for name in ("other", "by_hand", "blocked", "never_imported"):
            watch.watch.join(name, watch.ended)
    finally:
        del sys.modules["by_hand"], sys.modules["blocked"]
    assert watch.told == []
    assert type(other.__spec__) is importlib.machinery.ModuleSpec
    assert "_patchcore_watch" not in vars(other.__spec__)


# --- with patches ---------------------------------------------------------------------------------------------------


def fast() -> str:
    return "fast"


PATCH = patchcore.Patch("shop.price", [patchcore.Replace("shop.tools:price", fast)])


def test_a_module_may_apply_patches_to_itself_while_it_is_imported(make_package) -> None:
    source = """
        import patchcore, plugin
        patcher = patchcore.Patcher([plugin.PATCH])
        patcher.apply()
        def price(): return "original"
        """
    plugin = "import patchcore\ndef fast(): return 'fast'\n" + (
        "PATCH = patchcore.Patch('p', [patchcore.Replace('busy:price', fast)])"
    )
    make_package({"busy": source, "plugin": plugin})
    busy = importlib.import_module("busy")
    try:
        assert busy.price() == "fast"
        assert busy.patcher.report()["p"].status == "applied"
    finally:
        busy.patcher.revert()
    assert busy.price() == "original"


@pytest.mark.parametrize("lazy_first", [True, False])
def test_a_lazy_module_is_patched_when_it_wakes_and_restored(make_package, lazy_first: bool) -> None:
    make_package(SHOP)
    module = lazily("shop.tools") if lazy_first else None
    with patchcore.Patcher([PATCH]) as patcher:
        module = module or lazily("shop.tools")
        assert is_asleep(module)
        assert patcher.report()["shop.price"].status == "pending"
        assert is_asleep(module)
        assert module.price is fast
        assert patcher.report()["shop.price"].status == "applied"
    assert module.price() == "original"


def test_a_lazy_module_that_nobody_wakes_stays_asleep(make_package) -> None:
    make_package(SHOP)
    module = lazily("shop.tools")
    with patchcore.Patcher([PATCH]):
        assert is_asleep(module)
    assert is_asleep(module)
    assert module.price() == "original"


def test_a_lazy_module_that_wakes_in_the_body_of_a_patched_one_has_its_names_rebound(make_package) -> None:
    make_package(
        {
            "shop": """
                def price(): return "original"
                import sys
                sys.modules["sleepy"].anything
                """,
            "sleepy": """
                from shop import price as early
                anything = 1
                """,
        }
    )
    lazily("sleepy")
    with patchcore.Patcher([patchcore.Patch("p", patchcore.Replace("shop:price", fast))]):
        importlib.import_module("shop")
        assert sys.modules["sleepy"].early is fast
    assert sys.modules["sleepy"].early() == "original"


def test_lazy_modules_are_known_without_a_look_at_all_modules(run_python) -> None:
    """In a process of its own: copies of the names of patchcore's modules, which doctest makes, are references, too."""
    run_python(
        """
        import importlib.util, sys
        from patchcore.engine import importing, unaccounted

        counts = sys.getrefcount(importlib.util._LazyModule), sys.getrefcount(unaccounted._WithoutInstances) + 1
        assert not unaccounted.EXACT or counts[0] == counts[1], counts
        assert importing._lazy_names() == []
        spec = importlib.util.find_spec("colorsys")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = sys.modules["colorsys"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert importing._lazy_names() == ["colorsys"]
        assert module.rgb_to_hsv
        assert importing._lazy_names() == []
        """
    )


@pytest.mark.parametrize("gone", [["older"], ["older", "other"], ["older", "shop"]])
def test_names_are_rebound_also_where_the_body_of_the_module_removes_others(make_package, gone: list[str]) -> None:
    body = f"""
        import sys
        def price(): return "original"
        own = sys.modules[__name__]
        for name in {gone}:
            del sys.modules[name]
        sys.modules.setdefault(__name__, own)
        import friend
        """
    make_package({"shop": body, "friend": "from shop import price as early", "older": "", "other": ""})
    importlib.import_module("older")
    importlib.import_module("other")
    with patchcore.Patcher([patchcore.Patch("p", patchcore.Replace("shop:price", fast))]):
        importlib.import_module("shop")
        assert sys.modules["friend"].early is fast
    assert sys.modules["friend"].early() == "original"


def test_a_circular_import_leaves_no_name_unpatched(make_package) -> None:
    make_package(
        {
            "shop": "",
            "shop.tools": "def price(): return 'original'\nimport shop.friend",
            "shop.friend": "from shop.tools import price as cost\nclass Friend:\n    op = staticmethod(cost)",
        }
    )
    with patchcore.Patcher([PATCH]):
        tools, friend = importlib.import_module("shop.tools"), importlib.import_module("shop.friend")
        assert tools.price is friend.cost is friend.Friend.op is fast
    assert tools.price() == friend.cost() == friend.Friend.op() == "original"


def test_a_name_is_created_in_a_namespace_package(make_package) -> None:
    make_package({"space.part": ""})
    patch = patchcore.Patch("space.name", [patchcore.Replace("space:name", fast, create=True)])
    with patchcore.Patcher([patch], strict=True):
        importlib.import_module("space.part")
        assert sys.modules["space"].name is fast
    assert not hasattr(sys.modules["space"], "name")
