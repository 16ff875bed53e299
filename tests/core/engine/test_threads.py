"""Threads that apply, revert and import at once: no deadlock, nothing wrapped twice, everything restored."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable

import pytest

import patchcore as pc
from patchcore.engine.engine import ENGINE

ROUNDS = 25
SHOP = {
    "shop": "from shop.tools import price, Item",
    "shop.tools": """
        import time
        time.sleep(0.0005)  # lets the other thread in
        def price(): return "price"
        def label(): return "label"
        class Item:
            def weigh(self): return "weigh"
    """,
}


def together(*functions: Callable[[], Any], timeout: float = 300) -> list[Any]:
    """Run the functions in a thread each, started at once; return what they return, fail if one hangs or raises."""
    barrier = threading.Barrier(len(functions))
    results: list[Any] = [None] * len(functions)
    errors: list[BaseException] = []

    def run(number: int, function: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            results[number] = function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    frames = sys._current_frames()
    stuck = ["".join(traceback.format_stack(frames[t.ident])) for t in threads if t.is_alive()]
    assert not stuck, "deadlock:\n" + "\n".join(stuck)
    if errors:
        raise errors[0]
    return results


@pytest.fixture(autouse=True)
def quick_switches() -> Any:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def forget(*roots: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in roots]:
        del sys.modules[name]


def tagged(tag: str) -> Any:
    def wrapper(original: Any, *args: Any) -> str:
        return f"{tag}({original(*args)})"

    return wrapper


A = pc.Patch("shop.a", [pc.Wrap("shop.tools:price", tagged("A")), pc.Wrap("shop.tools:Item.weigh", tagged("A"))])
B = pc.Patch("shop.b", [pc.Wrap("shop.tools:price", tagged("B")), pc.Wrap("shop.tools:label", tagged("B"))], after=[A])


def test_one_patcher_applied_by_two_threads_is_applied_once_and_whole_when_either_returns(make_package) -> None:
    make_package(SHOP)
    import shop.tools

    for _ in range(ROUNDS):
        patcher = pc.Patcher([A, B])
        reports = together(patcher.apply, patcher.apply)
        assert [[r.status for r in report.patches] for report in reports] == [["applied", "applied"]] * 2
        assert shop.price() == shop.tools.price() == "B(A(price))"
        together(patcher.revert, patcher.revert)
        assert shop.price is shop.tools.price
        assert shop.price() == "price"
        assert not list(ENGINE.journal)


def test_overlapping_patchers_come_and_go_at_once(make_package, caplog) -> None:
    make_package(SHOP)
    import shop.tools

    original = dict(vars(shop.tools))

    def come_and_go(*patches: pc.Patch) -> Callable[[], None]:
        patcher = pc.Patcher(patches)

        def run() -> None:
            for _ in range(2):  # comes back while the others are still there
                with patcher:
                    text = shop.tools.price()
                    assert text.count("A") <= 1
                    assert text.count("B") <= 1

        return run

    for _ in range(ROUNDS):
        together(come_and_go(A), come_and_go(A, B), come_and_go(B))
        assert dict(vars(shop.tools)) == original
        assert shop.price is original["price"]
        assert not list(ENGINE.journal)
    assert not caplog.records  # "put there by other code", say


def test_two_modules_of_one_patch_imported_by_two_threads(make_package) -> None:
    make_package({"one": "def f(): return 1", "two": "def f(): return 2"})
    told = []
    for _ in range(ROUNDS):
        forget("one", "two")
        patch = pc.Patch("both", [pc.Wrap("one:f", tagged("A")), pc.Wrap("two:f", tagged("A"))])
        patcher = pc.Patcher([patch], plugins=plugin_with(lambda outcome: told.append(outcome.status)))
        told.clear()
        patcher.apply()
        one, two = together(lambda: importlib.import_module("one"), lambda: importlib.import_module("two"))
        assert (one.f(), two.f()) == ("A(1)", "A(2)")
        assert told == ["pending", "applied"]
        patcher.revert()


def plugin_with(after_apply: Callable[..., None]) -> Any:
    from patchcore.planning.provenance import Provenance
    from patchcore.plugins import Plugins

    module = ModuleType("plugin")

    @pc.hookimpl(specname="after_apply")
    def hook(outcome: Any) -> None:
        after_apply(outcome)

    module.hook = hook
    plugins = Plugins(discover=False)
    plugins.load([(Provenance("test"), lambda: module)])
    return plugins


def test_a_replacement_that_imports_what_another_thread_is_importing(make_package) -> None:
    make_package(
        {
            "store": "import time\ntime.sleep(0.0005)\ndef price(): return 'price'",
            "kernels": "import store\ndef price(): return 'kernel'",
        }
    )
    patch = pc.Patch("store.price", [pc.Replace("store:price", "kernels:price")])
    for _ in range(ROUNDS):
        forget("store", "kernels")
        with pc.Patcher([patch]):
            together(lambda: importlib.import_module("store"), lambda: importlib.import_module("kernels"))
            assert sys.modules["store"].price is sys.modules["kernels"].price
        assert sys.modules["store"].price() == "price"


def test_a_strict_failure_in_an_import_undoes_an_apply_that_another_thread_is_in(make_package) -> None:
    """The apply waits, importing its replacement, for the thread whose import fails; that must not wait for it."""
    make_package(
        {
            "shop": "def price(): return 'price'",
            "kernels": "import inner\ndef price(): return 'kernel'",
            "inner": "import meeting\nmeeting.reached.set()\nmeeting.waiting.wait(300)",
        }
    )
    import shop

    meeting = ModuleType("meeting")
    meeting.reached, meeting.waiting = threading.Event(), threading.Event()
    sys.modules["meeting"] = meeting
    try:

        def factory(original: Any) -> Any:
            assert meeting.reached.wait(300)
            threading.Timer(0.2, meeting.waiting.set).start()  # by then this thread waits for the lock of inner
            return importlib.import_module("kernels").price

        def import_inner() -> None:
            with pytest.raises(pc.PatchError, match="inner has no missing"):
                importlib.import_module("inner")

        bad = pc.Patch("inner.bad", [pc.Replace("inner:missing", len)])
        slow = pc.Patch("shop.slow", [pc.Replace("shop:price", factory=factory)])
        patcher = pc.Patcher([bad, slow], strict=True)

        def apply() -> None:
            with pytest.raises(pc.PatchError, match="inner has no missing"):
                patcher.apply()

        together(apply, import_inner)
        assert not patcher.applied
        assert shop.price() == "price"
        assert not list(ENGINE.journal)
    finally:
        del sys.modules["meeting"]


def test_applying_in_the_bodies_of_modules_that_two_threads_import(make_package) -> None:
    body = "import patchcore as pc, recorded\nrecorded.patchers.append(pc.Patcher([recorded.patch]))\n"
    body += "recorded.patchers[-1].apply()\nimport shop.tools"
    make_package({**SHOP, "one": body, "two": body})
    recorded = ModuleType("recorded")
    sys.modules["recorded"] = recorded
    recorded.patch = A
    try:
        for _ in range(ROUNDS):
            forget("shop", "one", "two")
            recorded.patchers = []
            together(lambda: importlib.import_module("one"), lambda: importlib.import_module("two"))
            assert sys.modules["shop.tools"].price() == "A(price)"
            together(*(patcher.revert for patcher in recorded.patchers))
            assert sys.modules["shop.tools"].price() == "price"
            assert sys.modules["shop"].price() == "price"
    finally:
        del sys.modules["recorded"]


def test_reports_while_others_apply_and_import(make_package) -> None:
    make_package(SHOP)
    for _ in range(ROUNDS):
        forget("shop")
        patcher = pc.Patcher([A, B])
        together(patcher.apply, patcher.report, lambda: importlib.import_module("shop"), patcher.report)
        assert patcher.report()["shop.a"].status == "applied"
        assert sys.modules["shop"].price() == "B(A(price))"
        patcher.revert()


def test_a_later_patch_comes_on_top_while_another_thread_still_makes_the_earlier_one(make_package) -> None:
    make_package(SHOP)
    forget("shop")
    reached, later_is_applied = threading.Event(), threading.Event()

    def slow(original: Any) -> Any:
        if not reached.is_set():  # in the importing thread
            reached.set()
            assert later_is_applied.wait(300)
        return lambda: f"slow({original()})"

    earlier = pc.Patcher([pc.Patch("shop.slow", [pc.Replace("shop.tools:price", factory=slow)])])
    later = pc.Patcher([B])
    earlier.apply()

    def apply_later() -> None:
        assert reached.wait(300)
        later.apply()
        later_is_applied.set()

    together(lambda: importlib.import_module("shop"), apply_later)
    assert sys.modules["shop"].price() == "B(slow(price))"
    later.revert()
    earlier.revert()
    assert sys.modules["shop"].price() == "price"


LATE = """
    import meeting
    from shop import tools
    read = [tools.price]
    meeting.read.set()
    assert meeting.done.wait(300)
    price = read.pop()
"""


@pytest.fixture
def meeting(make_package) -> Iterator[ModuleType]:
    """A module for the threads to meet in: ``late`` has ``read`` a name, and stores it when the other is ``done``."""
    make_package({**SHOP, "late": LATE})
    forget("shop")
    module = ModuleType("meeting")
    module.read, module.done = threading.Event(), threading.Event()
    sys.modules["meeting"] = module
    yield module
    del sys.modules["meeting"]


def test_a_name_that_another_thread_stores_after_it_read_the_original_is_rebound(meeting) -> None:
    patcher = pc.Patcher([A])

    def apply() -> None:
        assert meeting.read.wait(300)
        patcher.apply()
        meeting.done.set()

    try:
        module, _ = together(lambda: importlib.import_module("late"), apply)
        assert module.price() == "A(price)"
        assert type(module.__spec__) is ModuleSpec
        patcher.revert()
        assert module.price() == "price"
    finally:
        patcher.revert()


def test_nothing_is_rebound_after_a_revert_in_between(meeting) -> None:
    def apply_and_revert() -> None:
        assert meeting.read.wait(300)
        with pc.Patcher([A]):
            pass
        meeting.done.set()

    module, _ = together(lambda: importlib.import_module("late"), apply_and_revert)
    assert module.price() == "price"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="does not fork")
@pytest.mark.parametrize(
    ("before", "module"),
    [
        ("patchcore", "patchcore.report"),
        ("patchcore", "importlib.metadata"),
        ("patchcore", "patchcore.builtin.run.hookspecs"),
        ("sys", "patchcore.declare"),  # the first module that the package imports
    ],
)
def test_a_fork_waits_until_another_thread_has_imported_patchcore(run_python: Any, before: str, module: str) -> None:
    """Its child has the lock of the module, and not the thread that would release it."""
    printed = run_python(f"""
        import os, signal, sys, threading, time
        import {before}

        begun = threading.Event()

        class Slow:
            def find_spec(self, name, path, target=None):
                if name == {module!r}:
                    begun.set()
                    time.sleep(0.3)

        def apply():
            import patchcore
            patchcore.Patcher().apply()

        sys.meta_path.insert(0, Slow())
        sys.modules.pop({module!r}, None)
        thread = threading.Thread(target=apply)
        thread.start()
        begun.wait()
        if not os.fork():
            signal.alarm(20)
            import patchcore as pc
            pc.Patcher([pc.Patch("p", pc.Replace("json:dumps", len))]).apply()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        thread.join()
        """)
    assert printed == "0\n"
