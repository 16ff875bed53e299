"""Hit counters: what is counted, that nothing else changes, and that nothing is there when nobody asks."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import os
import pickle
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from library import NewNet, load, new

import patchcore as pc
from patchcore.cli import main
from patchcore.objects.binding import make_dispatcher, wrap_raw
from patchcore.objects.counting import Counter, Tally
from patchcore.report import Report

pytestmark = pytest.mark.usefixtures("registries")

SHOP = {
    "shop": "from shop.prices import price",
    "shop.prices": """
        import functools, math
        def price(item, amount=1, *, tax=0): return ("original", item, amount, tax)
        def total(items): return ("original", items)
        def stock():
            yield "original"
        async def order(item): return ("original", item)
        async def orders():
            yield "original"
        root = math.sqrt
        class Till:
            def add(self, x): return ("original", x)
            @staticmethod
            def count(x): return ("original", x)
            @classmethod
            def make(cls, x): return ("original", cls, x)
            @property
            def open(self): return "original"
            @functools.cached_property
            def number(self): return "original"
            length = len
        class Box:
            pass
        """,
    "shop.user": "from shop.prices import price as cost",
}


@pytest.fixture
def shop(make_package: Any) -> SimpleNamespace:
    make_package(SHOP)
    modules = [importlib.import_module(name) for name in SHOP]
    return SimpleNamespace(shop=modules[0], prices=modules[1], user=modules[2])


def counting(*changes: Any, name: str = "p", **named: Any) -> pc.Patcher:
    return pc.Patcher([pc.Patch(name, list(changes), **named)], strict=True, count=True)


def calls(patcher: pc.Patcher, name: str = "p") -> list[Any]:
    return [change.calls for change in patcher.report()[name].changes]


def new_price(item: str, amount: int = 1, *, tax: float = 0) -> tuple[Any, ...]:
    """The new price."""
    return "new", item, amount, tax


# --- what is counted -----------------------------------------------------------------------------------------------


def new_method(self: Any, x: Any) -> Any:
    return "new", x


def new_getter(self: Any) -> Any:
    return "new"


class Maker:
    def make(self, x: Any) -> Any:
        return "new", x


KINDS = {
    "function": ("price", new_price, lambda m: m.price("a", tax=2), ("new", "a", 1, 2)),
    "method": ("Till.add", new_method, lambda m: m.Till().add(1), ("new", 1)),
    "static method": ("Till.count", new, lambda m: (m.Till.count(1), m.Till().count(1))[1], ("new", 1)),
    "class method": (
        "Till.make",
        lambda cls, x: ("new", cls.__name__, x),
        lambda m: m.Till.make(1),
        ("new", "Till", 1),
    ),
    "property": ("Till.open", new_getter, lambda m: m.Till().open, "new"),
    "a whole property": ("Till.open", property(new_getter), lambda m: m.Till().open, "new"),
    "cached property": ("Till.number", new_getter, lambda m: m.Till().number, "new"),
    "builtin": ("root", sorted, lambda m: m.root([2, 1]), [1, 2]),
    "builtin in a class": ("Till.length", sum, lambda m: m.Till().length([2, 1]), 3),
    "bound method": ("total", Maker().make, lambda m: m.total(1), ("new", 1)),
}
CALLS = {"static method": 2}


@pytest.mark.parametrize("kind", KINDS)
def test_calls_are_counted_and_give_what_they_gave(shop, kind) -> None:
    path, replacement, call, expected = KINDS[kind]
    patcher = counting(pc.Replace(f"shop.prices:{path}", replacement))
    with patcher:
        assert calls(patcher) == [0]
        assert call(shop.prices) == expected
        assert calls(patcher) == [CALLS.get(kind, 1)]
        call(shop.prices)
        assert calls(patcher) == [2 * CALLS.get(kind, 1)]


def test_a_cached_property_counts_what_is_computed(shop) -> None:
    patcher = counting(pc.Replace("shop.prices:Till.number", new_getter))
    with patcher:
        till = shop.prices.Till()
        assert (till.number, till.number) == ("new", "new")
        assert calls(patcher) == [1]


def test_the_setter_of_a_property_stays_and_is_not_counted(make_package) -> None:
    make_package({"box": "class Box:\n    x = property(lambda self: 1, lambda self, value: setattr(self, 'y', value))"})
    box = importlib.import_module("box").Box()
    patcher = counting(pc.Replace("box:Box.x", new_getter))
    with patcher:
        box.x = 5
        assert (box.x, box.y) == ("new", 5)
        assert calls(patcher) == [1]


class Callable_:
    def __call__(self, *args: Any) -> Any:
        return "new"


@functools.cache
def cached(*args: Any) -> Any:
    return "new"


@pytest.mark.parametrize(
    ("path", "replacement"),
    [
        ("Box", NewNet),
        ("Till", Callable_()),
        ("price", Callable_()),
        ("price", cached),
        ("price", functools.partial(max, 1)),
        ("root", 3),
    ],
    ids=["class by class", "class by object", "object", "cache", "partial", "number"],
)
def test_what_a_function_cannot_stand_for_is_left_as_it_is_and_not_counted(shop, path, replacement) -> None:
    patcher = counting(pc.Replace(f"shop.prices:{path}", replacement))
    with patcher:
        assert getattr(shop.prices, path) is replacement
        report = patcher.report()
    assert (calls(patcher), report.never_hit) == ([None], ())


@pytest.mark.parametrize(
    "change",
    [
        pc.Register("lib.registry:MODELS", NewNet, name="Net"),
        pc.Call(lambda module, options: setattr(module, "conv", new), module="lib.ops"),
        pc.InjectImport("lib.ops", "pool", "lib.registry"),
        pc.StubImport("lib.nowhere"),
        pc.WhileImporting("lib.ops", pc.Replace("math:pi", 3)),
    ],
    ids=lambda change: change.kind,
)
def test_other_changes_are_not_counted_and_never_called_never_hit(make_package, change) -> None:
    load(make_package, {})
    patcher = counting(change)
    with patcher:
        report = patcher.report()
    assert [c.calls for c in report["p"].changes] == [None]
    assert report.never_hit == ()


def test_a_factory(shop) -> None:
    patcher = counting(
        pc.Replace("shop.prices:price", factory=lambda original: lambda *args, **kwargs: original(*args, **kwargs)),
        pc.Replace("shop.prices:Box", factory=lambda original: type("Bigger", (original,), {})),
    )
    with patcher:
        assert shop.prices.price("a")[0] == "original"
        assert shop.prices.Box.__name__ == "Bigger"
        assert calls(patcher) == [1, None]


def by_amount(item: str, amount: int = 1, *, tax: float = 0) -> bool:
    return bool(1 / (amount - 1) > 0) if amount else False


@pytest.mark.parametrize("predicate", [by_amount, lambda *args, **kwargs: by_amount(*args, **kwargs)])
def test_when_call_counts_both_branches(shop, predicate) -> None:
    patcher = counting(pc.Replace("shop.prices:price", new_price, when_call=predicate))
    with patcher:
        assert [shop.prices.price("a", n)[0] for n in (2, 3, 0)] == ["new", "new", "original"]
        (change,) = patcher.report()["p"].changes
        assert (change.calls, change.replaced) == (3, 2)
        with pytest.raises(ZeroDivisionError):  # the predicate decides; it went nowhere
            shop.prices.price("a", 1)
        assert calls(patcher) == [3]


def test_when_call_with_what_has_no_parameters_to_be_seen(shop) -> None:
    patcher = counting(pc.Replace("shop.prices:root", new, when_call=lambda x: x > 1))
    with patcher:
        assert (shop.prices.root(4), shop.prices.root(1)) == (("new", 4), 1)
        (change,) = patcher.report()["p"].changes
        assert (change.calls, change.replaced) == (2, 1)


def test_a_dispatcher_that_counts_puts_no_frame_between_caller_and_replacement(shop) -> None:
    def depth(item: Any) -> int:
        return len(inspect.stack(0))

    found = []
    for count in (False, True):
        change = pc.Replace("shop.prices:total", depth, when_call=lambda items: True)
        with pc.Patcher([pc.Patch("p", [change])], count=count):
            found.append(shop.prices.total(1))
    assert found[0] == found[1]


def test_wrap(shop) -> None:
    patcher = counting(
        pc.Wrap("shop.prices:price", lambda original, *args, **kwargs: ("wrapped", *original(*args, **kwargs))),
        pc.Wrap("shop.prices:Till.open", lambda original, self: f"wrapped {original(self)}"),
    )
    with patcher:
        assert shop.prices.price("a")[:2] == ("wrapped", "original")
        assert shop.prices.Till().open == "wrapped original"
        assert calls(patcher) == [1, 1]


def test_layers_each_count_what_comes_through_them(shop) -> None:
    def unless_empty(original: Any, item: str, *args: Any, **kwargs: Any) -> Any:
        return original(item, *args, **kwargs) if item else None

    below = pc.Patch("below", [pc.Replace("shop.prices:price", new_price, when_call=lambda item, **rest: item == "a")])
    top = pc.Patch("top", [pc.Wrap("shop.prices:price", unless_empty)], after=["below"])
    with pc.Patcher([below, top], strict=True, count=True) as patcher:
        assert [shop.prices.price(item) for item in ("a", "b", "")] == [new_price("a"), ("original", "b", 1, 0), None]
        (one,), (other,) = patcher.report()["below"].changes, patcher.report()["top"].changes
        assert (one.calls, one.replaced, other.calls) == (2, 1, 3)


def test_names_bound_by_value_count_and_the_replacement_itself_does_not(shop) -> None:
    patcher = counting(pc.Replace("shop.prices:price", new_price))
    with patcher:
        assert shop.user.cost is shop.shop.price is shop.prices.price
        shop.user.cost("a")
        shop.shop.price("a")
        new_price("a")
        assert calls(patcher) == [2]


def test_an_alias_is_counted_where_it_is_written(shop) -> None:
    patcher = counting(pc.Replace("shop.prices:price", new_price), pc.Replace("shop:price", new_price))
    with patcher:
        shop.shop.price("a")
        assert calls(patcher) == [1, None]


def test_recursion_counts_each_call_through_the_slot(shop) -> None:
    patcher = counting(pc.Replace("shop.prices:total", lambda n: n and shop.prices.total(n - 1)))
    with patcher:
        shop.prices.total(4)
        assert calls(patcher) == [5]


def test_an_exception_passes_and_its_call_counts(shop) -> None:
    def fail(items: Any) -> None:
        raise KeyError("mine")

    patcher = counting(pc.Replace("shop.prices:total", fail))
    with patcher:
        with pytest.raises(KeyError, match="mine"):
            shop.prices.total(1)
        with pytest.raises(TypeError, match="items"):  # was not called
            shop.prices.total()
        assert calls(patcher) == [1]


def test_threads_lose_no_counts(shop) -> None:
    patcher = counting(pc.Replace("shop.prices:total", lambda items: items))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with patcher:
            threads = [threading.Thread(target=lambda: [shop.prices.total(1) for _ in range(2000)]) for _ in range(6)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                patcher.report()  # reading in between changes nothing
            assert calls(patcher) == [12000]
    finally:
        sys.setswitchinterval(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_counts_its_own(shop) -> None:
    patcher = counting(pc.Replace("shop.prices:total", lambda items: items))
    with patcher:
        shop.prices.total(1)
        child = os.fork()
        if not child:
            try:
                shop.prices.total(1)
                shop.prices.total(1)
                os._exit(calls(patcher)[0])
            finally:
                os._exit(99)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        assert calls(patcher) == [1]


def test_a_tally_is_not_changed_by_reading_it() -> None:
    tally = Tally()
    assert [tally.value, tally.value] == [0, 0]
    tally.tick()
    tally.tick()
    assert [tally.value, tally.value] == [2, 2]
    tally.reset()
    assert tally.value == 0
    tally.tick()
    assert tally.value == 1


def test_a_counter_without_branches_has_nothing_to_say_about_them() -> None:
    counter = Counter()
    counter.replacement.tick()
    assert (counter.calls, counter.replaced) == (1, None)


class Own:
    """A descriptor of a library's own kind; the function that counts is made when it is accessed."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.function.__get__(instance, owner)

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)


@pytest.mark.parametrize("dispatches", [False, True])
def test_a_descriptor_that_is_never_accessed_has_no_calls_and_is_counted(dispatches: bool) -> None:
    def wrapper(original: Any, *args: Any) -> Any:
        return original(*args)

    counter = Counter(branches=dispatches)
    raw = Own(lambda self: "original")
    if dispatches:
        made = make_dispatcher(raw, lambda self: "replacement", lambda self: True, in_class=True, counter=counter)
    else:
        made = wrap_raw(raw, wrapper, in_class=True, counter=counter)
    assert (counter.in_use, counter.calls) == (True, 0)
    till = type("Till", (), {"price": made})()
    assert till.price() == ("replacement" if dispatches else "original")
    assert counter.calls == 1


# --- that nothing else changes -------------------------------------------------------------------------------------


def test_without_counting_the_replacement_itself_is_in_the_slot(shop) -> None:
    patcher = pc.Patcher([pc.Patch("p", [pc.Replace("shop.prices:price", new_price)])])
    with patcher:
        assert shop.prices.price is new_price
        assert shop.user.cost is new_price
        assert calls(patcher) == [None]
        assert "call" not in str(patcher.report())


def test_when_nobody_counts_nothing_of_it_is_imported(run_python) -> None:
    run_python(
        """
        import sys, types
        import patchcore as pc
        lib = sys.modules["lib"] = types.ModuleType("lib")
        lib.f, lib.g = (lambda x: x), (lambda x: x)
        wrap = pc.Wrap("lib:g", lambda original, x: original(x))
        with pc.Patcher([pc.Patch("p", [pc.Replace("lib:f", abs, when_call=lambda x: x), wrap])]):
            assert (lib.f(-1), lib.g(2)) == (1, 2)
        assert "patchcore.objects.counting" not in sys.modules
        """
    )


def test_what_counts_looks_like_the_replacement(shop) -> None:
    new_price.brand = "acme"  # type: ignore[attr-defined]
    new_price._private = 1  # type: ignore[attr-defined]
    try:
        with counting(pc.Replace("shop.prices:price", new_price)):
            price = shop.prices.price
            assert price is not new_price
            assert inspect.signature(price) == inspect.signature(new_price)
            assert inspect.signature(price, follow_wrapped=False).parameters.keys() == {"item", "amount", "tax"}
            assert (price.__name__, price.__doc__, price.brand) == ("new_price", "The new price.", "acme")
            assert (price.__defaults__, price.__kwdefaults__) == ((1,), {"tax": 0})
            assert inspect.unwrap(price) is new_price
            assert inspect.getsource(price) == inspect.getsource(new_price)
            assert not hasattr(price, "_private")  # state of frameworks belongs to the one it was given to
    finally:
        del new_price.brand, new_price._private  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["price", "Till.add", "Till.count", "root"])
def test_what_counts_is_pickled_by_the_name_of_its_slot(shop, path) -> None:
    replacement = {"price": new_price, "Till.add": new_method, "Till.count": new, "root": sorted}[path]
    with counting(pc.Replace(f"shop.prices:{path}", replacement)):
        value: Any = shop.prices
        for step in path.split("."):
            value = getattr(value, step)
        assert pickle.loads(pickle.dumps(value)) is value
        assert copy.copy(value) is copy.deepcopy(value) is value


def test_an_item_keeps_the_names_of_the_replacement(make_package) -> None:
    make_package({"table": "OPS = {'conv': len}"})
    table = importlib.import_module("table")
    patcher = counting(pc.Replace("table:OPS['conv']", new))
    with patcher:
        assert table.OPS["conv"](1) == ("new", 1)
        assert (table.OPS["conv"].__module__, table.OPS["conv"].__qualname__) == (new.__module__, "new")
        assert calls(patcher) == [1]


def test_a_replacement_that_does_not_fit_is_refused_as_without_counting(shop) -> None:
    with pytest.raises(pc.PatchError, match=r"new does not accept every call of shop\.prices:price") as counted:
        counting(pc.Replace("shop.prices:price", new)).apply()
    with pytest.raises(pc.PatchError) as plain:
        pc.Patcher([pc.Patch("p", [pc.Replace("shop.prices:price", new)])], strict=True).apply()
    assert str(counted.value) == str(plain.value)


def test_a_reloaded_module_counts_on(shop) -> None:
    patcher = counting(pc.Replace("shop.prices:total", new))
    with patcher:
        shop.prices.total(1)
        importlib.reload(shop.prices)
        assert shop.prices.total(1) == ("new", 1)
        assert calls(patcher) == [2]


# --- whose setting it is -------------------------------------------------------------------------------------------


def test_a_patcher_that_does_not_count_says_nothing_of_what_another_counts(shop) -> None:
    patch = pc.Patch("p", [pc.Replace("shop.prices:total", new)])
    with pc.Patcher([patch], count=True) as one, pc.Patcher([patch]) as other:
        shop.prices.total(1)
        assert (calls(one), calls(other)) == ([1], [None])


def test_a_patch_that_somebody_has_in_force_uncounted_stays_so_and_that_is_noted(shop) -> None:
    patch = pc.Patch("p", [pc.Replace("shop.prices:total", new)])
    with pc.Patcher([patch]), pc.Patcher([patch], count=True) as late:
        assert shop.prices.total is new
        report = late.report()
        assert (calls(late), report.never_hit) == ([None], ())
        assert report.notes == (
            "p: calls are not counted, because a Patcher that does not count has applied it before",
        )
    with late:
        shop.prices.total(1)
        assert (calls(late), late.report().notes) == ([1], ())


def test_two_patchers_that_count_see_the_same(shop) -> None:
    patch = pc.Patch("p", [pc.Replace("shop.prices:total", new)])
    with pc.Patcher([patch], count=True) as one:
        shop.prices.total(1)
        with pc.Patcher([patch], count=True) as other:
            shop.prices.total(1)
        assert (calls(one), calls(other)) == ([2], [2])


def test_applied_again_it_counts_from_nothing(shop) -> None:
    patcher = counting(pc.Replace("shop.prices:total", new))
    for _ in range(2):
        with patcher:
            shop.prices.total(1)
            assert calls(patcher) == [1]


def test_apply_and_discover_take_count(shop, monkeypatch) -> None:
    patch = pc.Patch("p", [pc.Replace("shop.prices:total", new)])
    with pc.apply(plugins=[], patches=[patch], count=True) as patcher:
        assert calls(patcher) == [0]
    monkeypatch.setenv("PATCHCORE_COUNT", "1")
    with pc.Patcher.discover(plugins=[], patches=[patch]) as patcher:
        assert calls(patcher) == [0]


# --- what is said --------------------------------------------------------------------------------------------------


def test_the_report_names_patches_that_were_never_hit(shop) -> None:
    hit = pc.Patch("hit", [pc.Replace("shop.prices:total", new), pc.Replace("shop.prices:price", new_price)])
    missed = pc.Patch("missed", [pc.Replace("shop.prices:Till.count", new)])
    away = pc.Patch("away", [pc.Replace("nothere:x", new)])
    whole = pc.Patch("whole", [pc.Replace("shop.prices:Box", NewNet)])
    with pc.Patcher([hit, missed, away, whole], count=True) as patcher:
        shop.prices.total(1)
        applied = patcher.report()
    for report in (applied, patcher.report()):
        assert report.never_hit == ("missed",)
        assert report.to_dict()["never_hit"] == ["missed"]
        assert report.summary(never_hit=True) == f"{report.summary()}; never hit in this process: missed"
        lines = str(report).splitlines()
        assert "             1 call" in lines
        assert lines.count("             0 calls") == 2
        assert "  never hit: missed" in lines
    (change, other) = report.to_dict()["patches"][0]["changes"]
    assert (change["calls"], change["replaced"], other["calls"]) == (1, None, 0)


def test_the_text_says_where_when_call_sent_the_calls(shop) -> None:
    with counting(pc.Replace("shop.prices:total", new, when_call=lambda items: items > 1)) as patcher:
        shop.prices.total(1), shop.prices.total(2), shop.prices.total(3)
        assert "             3 calls, 2 to the replacement" in str(patcher.report()).splitlines()


def test_a_report_without_counts_has_none_that_was_never_hit() -> None:
    assert (Report(()).never_hit, Report(()).summary(never_hit=True)) == ((), "no patches")


# --- processes -----------------------------------------------------------------------------------------------------

DEALS = """
import patchcore as pc

def fast(item): return 20

@pc.hookimpl
def register_patches():
    return [pc.Patch("deals.price", [pc.Replace("shop.prices:price", fast, when_call=lambda item: item != "pear")]),
            pc.Patch("deals.stock", [pc.Replace("shop.prices:stock", len)])]
"""
FAMILY = """
import multiprocessing, sys
from shop.prices import price

def sell(item):
    return price(item)

if __name__ == "__main__":
    price("apple")
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=sell, args=("pear",))
        process.start()
        process.join()
"""


def test_every_process_of_a_run_counts_its_own_and_the_merged_report_adds_up(programs, capsys) -> None:
    programs.write(
        {
            "shop/__init__.py": "",
            "shop/prices.py": "def price(item):\n    return 10\ndef stock(x):\n    return 0\n",
            "deals.py": DEALS,
            "family.py": FAMILY,
        }
    )
    done = programs.run(programs.patchcore, "--count", "-p", "deals", "--report-dir", "out", "family.py")
    assert done.stderr.splitlines()[-1] == "patchcore: 2 applied; never hit in this process: deals.stock"
    assert main(["report", str(programs.folder / "out")]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line.endswith("family.py") and "never hit" in line] == []  # in each process
    assert "deals.price 3 1 3 shop.prices:price" in lines
    assert "deals.stock 0 0 shop.prices:stock" in lines
    assert "never hit: deals.stock" in lines
