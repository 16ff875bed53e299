"""A thread imports while another applies: in every order, the patch is applied and nothing waits for ever.

Both threads are stopped at chosen lines, of importlib and of patchcore, so that no gap between looking and acting is
left to chance. One test takes the lines from hypothesis, one goes through all of those at which a thread has just
looked, and one lets many threads race.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stepping import Order, Stepper, lines_of, run_in_order
from turns import in_turn

import patchcore as pc
from patchcore.builtin.imports.providers import ProviderLoader
from patchcore.engine.engine import ENGINE

LIBRARY = {
    "pkg_x": "from pkg_x.lib import price",
    "pkg_x.lib": "def price(): return 'original'\ndef label(): return 'original'",
    "user_x": "import pkg_x.lib as lib\nfrom pkg_x.lib import price as cost",
    "stand_x": "def price(): return 'new'",
}
#: The lines at which the two threads may be stopped.
IMPORTING = ("importlib._bootstrap>", "pkg_x/__init__.py", "pkg_x/lib.py", "user_x.py")
APPLYING = ("patchcore/engine/engine.py", "patchcore/engine/importing.py", "patchcore/patcher.py")
MOST = 400  # lines of one thread, more than there are; numbers past the last mean that it runs to its end


def new() -> str:
    return "new"


def newer() -> str:
    return "newer"


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pkg_x", "user_x", "stand_x")]:
        del sys.modules[name]


@pytest.fixture
def library(make_package: Any) -> Iterator[None]:
    make_package(LIBRARY)
    forget()
    yield
    forget()


KINDS = {
    "replace": lambda: [pc.Replace("pkg_x.lib:price", new)],
    "wrap": lambda: [pc.Wrap("pkg_x.lib:price", lambda original: "new")],
    "two modules": lambda: [pc.Replace("pkg_x.lib:price", new), pc.Replace("user_x:added", newer, create=True)],
    "replacement in the library": lambda: [pc.Replace("pkg_x.lib:price", "stand_x:price")],
    "replace import": lambda: [pc.ReplaceImport("pkg_x.lib", with_="stand_x")],
}


def check(order: Order, kind: str = "replace") -> None:
    """Let one thread import and the other apply, in an order; then everything is patched, and reverted exactly."""
    forget()
    patcher = pc.Patcher([pc.Patch("patch", KINDS[kind]())])
    seen = []

    def use() -> None:
        module = importlib.import_module("user_x")
        was_applied = finished.is_set()
        seen.append((was_applied, module.cost()))

    def apply() -> None:
        patcher.apply()
        finished.set()

    finished = threading.Event()
    first, second = (order.second, order.first) if order.swapped else (order.first, order.second)
    try:
        run_in_order(order, Stepper(use, IMPORTING, first), Stepper(apply, APPLYING, second))
        record = patcher.report()["patch"]
        if record.status == "failed" and kind == "replace import":  # it says so, and the real module is there
            assert "is being imported, so it is too late" in record.reason
        else:
            assert (record.status, record.missed) == ("applied", False), record
            check_patched(patcher, kind)
    finally:
        patcher.revert()
    check_reverted(kind)
    assert not list(ENGINE.journal)
    assert not ENGINE.watch._watched


def check_patched(patcher: pc.Patcher, kind: str) -> None:
    user, lib, package = (sys.modules[name] for name in ("user_x", "pkg_x.lib", "pkg_x"))
    assert lib.price() == "new"
    kept = [found for found in (user.cost, package.price, user.lib.price) if found() != "new"]
    if kept:  # the import statement that was under way had the real module already
        assert kind == "replace import"
        assert "names bound by that import may keep the real module" in str(patcher.report())


def check_reverted(kind: str) -> None:
    assert importlib.import_module("pkg_x.lib").price() == "original"
    if kind != "replace import":  # functions that were got from the other module stay its own
        assert sys.modules["user_x"].cost() == sys.modules["pkg_x"].price() == "original"


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=16, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.builds(Order, st.booleans(), st.integers(0, 180), st.integers(0, 180) | st.just(MOST)))
def test_in_any_order_of_two_threads_the_patch_is_applied(library: None, order: Order, kind: str) -> None:
    check(order, kind)


def test_a_module_that_another_thread_is_about_to_exchange_is_not_taken_for_the_real_one(
    library: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An apply that comes between the two steps of an import by the patch finds an empty module of that name."""

    def exec_module(self: ProviderLoader, module: Any) -> None:
        self.provider.take_over()
        step(self, module)

    step = ProviderLoader.exec_module
    monkeypatch.setattr(ProviderLoader, "exec_module", exec_module)
    with pc.Patcher([pc.Patch("patch", KINDS["replace import"]())]):
        assert importlib.import_module("pkg_x.lib").price() == "new"
    assert importlib.import_module("pkg_x.lib").price() == "original"


def test_a_thread_that_has_the_real_module_and_has_not_bound_its_names_is_reported(make_package: Any) -> None:
    make_package({**LIBRARY, "pkg_x": "", "pkg_x.lib": SLOW, "user_x": "from pkg_x.lib import price as cost"})
    forget()
    lib = importlib.import_module("pkg_x.lib")
    thread = threading.Thread(target=importlib.import_module, args=["user_x"], daemon=True)
    thread.start()
    assert lib.asked.wait(60)
    with pc.Patcher([pc.Patch("patch", KINDS["replace import"]())]) as patcher:
        lib.go_on.set()
        thread.join(60)
        assert sys.modules["user_x"].cost() == "original"
        expected = "user_x was being imported at that time: names bound by that import may keep the real module"
        assert expected in str(patcher.report())
    forget()


#: An import statement that takes a name from here stands still in between.
SLOW = """
    import threading
    asked, go_on = threading.Event(), threading.Event()
    def original(): return "original"
    def __getattr__(name):
        if name != "price": raise AttributeError(name)
        asked.set()
        go_on.wait(60)
        return original
"""


def test_an_apply_at_each_line_of_an_import(library: None) -> None:
    """The whole apply happens while the import stands at a line of importlib: in a finder, in the body, after it."""
    lines = lines_of(lambda: importlib.import_module("user_x"), IMPORTING)
    assert lines > 50
    for line in in_turn(range(lines)):
        check(Order(swapped=False, first=line, second=MOST))


def test_an_import_at_each_line_of_an_apply(library: None) -> None:
    """The whole import happens while the apply stands at a line of patchcore."""
    forget()
    patcher = pc.Patcher([pc.Patch("patch", KINDS["replace"]())])
    lines = lines_of(patcher.apply, APPLYING)
    patcher.revert()
    assert lines > 50
    for line in in_turn(range(lines)):
        check(Order(swapped=True, first=line, second=MOST))


# --- more threads ---------------------------------------------------------------------------------------------------


def together(*functions: Any) -> None:
    barrier = threading.Barrier(len(functions))
    errors: list[BaseException] = []

    def run(function: Any) -> None:
        try:
            barrier.wait(300)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[function], daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    if errors:
        raise errors[0]


#: Without circular imports: importlib itself raises _DeadlockError for two threads that import those.
FLAT = {
    "flat_x": "def price(): return 'original'\ndef label(): return 'original'",
    **{f"flat_{n}_x": "import flat_x\nfrom flat_x import price as cost" for n in range(3)},
}


def test_many_threads_import_while_two_apply(make_package: Any) -> None:
    make_package(FLAT)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(60):
            for name in FLAT:
                sys.modules.pop(name, None)
            changes = [pc.Replace("flat_x:price", new), pc.Replace("flat_x:label", newer)]
            patchers = [pc.Patcher([pc.Patch(change.target.path[0], change)]) for change in changes]
            imports = [functools.partial(importlib.import_module, name) for name in reversed(FLAT)]
            try:
                together(*(patcher.apply for patcher in patchers), *imports)
                records = [record for patcher in patchers for record in patcher.report().patches]
                assert [(record.status, record.missed) for record in records] == [("applied", False)] * 2
                modules = [sys.modules[name] for name in FLAT]
                assert (modules[0].price, modules[0].label) == (new, newer)
                assert all(module.cost is new for module in modules[1:])
            finally:
                for patcher in patchers:
                    patcher.revert()
            assert all(module.cost is modules[0].price is not new for module in modules[1:])
    finally:
        sys.setswitchinterval(interval)


class Slow:
    """A finder that is in the middle of looking for a module while patches are applied."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked, self.go_on = threading.Event(), threading.Event()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == self.name and not self.asked.is_set():  # not where the apply asks whether there is such a module
            self.asked.set()
            assert self.go_on.wait(300)


WINDOW = pc.WhileImporting("pkg_x.lib", pc.Replace("stand_x:price", new))


def applied_meanwhile(finder: Slow, patcher: pc.Patcher) -> pc.Patcher:
    """Apply while the finder is looking; if that imports anything itself, importlib lets it wait for the finder."""
    thread = threading.Thread(target=patcher.apply, daemon=True)
    thread.start()
    thread.join(1)
    finder.go_on.set()
    thread.join(300)
    assert not thread.is_alive()
    return patcher


@pytest.mark.limit(
    "`ReplaceImport` of a module that another thread is importing at that moment: the patch may come too late, and "
    "names that this statement binds may keep the real module.",
    told="reports (the patch failed, or a remark on the change)",
)
@pytest.mark.parametrize("name", ["pkg_x", "pkg_x.lib", "user_x"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_finder_that_takes_longer_than_the_apply(library: None, monkeypatch: Any, name: str, kind: str) -> None:
    """Also where the module's package is being imported, and where apply would wait for the finder for ever."""
    patcher, finder = pc.Patcher([pc.Patch("patch", KINDS[kind]())]), Slow(name)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    thread = threading.Thread(target=importlib.import_module, args=["user_x"], daemon=True)
    thread.start()
    assert finder.asked.wait(300)
    with applied_meanwhile(finder, patcher):
        thread.join(300)
        assert not thread.is_alive()
        record = patcher.report()["patch"]
        if kind == "replace import" and record.status == "failed":  # on a busy machine: the limit above
            assert "pkg_x.lib is being imported, so it is too late" in record.reason
        else:
            assert record.status == "applied"
            check_patched(patcher, kind)
    check_reverted(kind)


def test_a_window_around_a_module_that_is_being_looked_for_is_skipped(library: None, monkeypatch: Any) -> None:
    patcher, finder = pc.Patcher([pc.Patch("patch", [WINDOW])]), Slow("pkg_x.lib")
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    thread = threading.Thread(target=importlib.import_module, args=["user_x"], daemon=True)
    thread.start()
    assert finder.asked.wait(300)
    with applied_meanwhile(finder, patcher):
        thread.join(300)
        record = patcher.report()["patch"]
        assert (record.status, record.missed) == ("skipped", False)
        assert "pkg_x.lib is already imported" in record.reason


def test_a_thread_that_fails_to_import_leaves_the_patch_waiting(library: None, make_package: Any) -> None:
    make_package({"bad_x": "import sys\nsys.modules['meeting_x'].meet()\nraise RuntimeError('half way')"})
    meeting = type(sys)("meeting_x")
    reached, go_on = threading.Event(), threading.Event()
    meeting.meet = lambda: (reached.set(), go_on.wait(300))
    sys.modules["meeting_x"] = meeting
    errors: list[BaseException] = []

    def fail() -> None:
        try:
            importlib.import_module("bad_x")
        except RuntimeError as error:
            errors.append(error)

    try:
        thread = threading.Thread(target=fail, daemon=True)
        thread.start()
        assert reached.wait(300)
        with pc.Patcher([pc.Patch("patch", [pc.Replace("bad_x:price", new)])]) as patcher:
            go_on.set()
            thread.join(300)
            assert len(errors) == 1
            record = patcher.report()["patch"]
            assert (record.status, record.missed) == ("pending", False)
            make_package({"bad_x": "def price(): return 'original'"})
            assert importlib.import_module("bad_x").price is new
    finally:
        del sys.modules["meeting_x"]


def test_a_reload_that_is_under_way_is_patched_when_it_ends(library: None, make_package: Any) -> None:
    body = "import sys\nsys.modules['meeting_x'].meet()\ndef price(): return 'original'"
    make_package({"again_x": body})
    meeting = type(sys)("meeting_x")
    meeting.meet = lambda: None
    sys.modules["meeting_x"] = meeting
    try:
        module = importlib.import_module("again_x")
        reached, go_on = threading.Event(), threading.Event()
        meeting.meet = lambda: (reached.set(), go_on.wait(300))
        thread = threading.Thread(target=importlib.reload, args=[module], daemon=True)
        thread.start()
        assert reached.wait(300)
        with pc.Patcher([pc.Patch("patch", [pc.Replace("again_x:price", new)])]) as patcher:
            go_on.set()
            thread.join(300)
            assert module.price is new
            assert patcher.report()["patch"].status == "applied"
        assert module.price() == "original"
    finally:
        del sys.modules["meeting_x"]


# --- one thread -----------------------------------------------------------------------------------------------------


def test_a_replacement_that_imports_what_another_change_of_the_patch_waits_for(make_package: Any) -> None:
    """The patch is being applied when that module is imported, and would be passed over."""
    make_package(
        {
            "first_x": "def price(): return 'original'",
            "second_x": "def price(): return 'original'",
            "plug_x": "import first_x\ndef price(): return 'new'",
        }
    )
    changes = [pc.Replace("first_x:price", new), pc.Replace("second_x:price", "plug_x:price")]
    with pc.Patcher([pc.Patch("patch", changes)]) as patcher:
        assert importlib.import_module("second_x").price() == "new"
        assert sys.modules["first_x"].price is new
        assert patcher.report()["patch"].status == "applied"
    assert sys.modules["first_x"].price() == sys.modules["second_x"].price() == "original"
