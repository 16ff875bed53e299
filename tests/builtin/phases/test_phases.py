"""phases: a patch waits until the program, or an import, reaches its phase."""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest

import patchcore as pc
from patchcore.builtin.phases import phases
from patchcore.cli import main

SHOP = "def price(): return 'price'\ndef label(): return 'label'"


class Plugin:
    """A plugin with phases and patches."""

    def __init__(self, names: Any = ("platform", "worker"), patches: Any = ()) -> None:
        self.names = names
        self.patches = patches

    @pc.hookimpl
    def register_phases(self) -> Any:
        return self.names

    @pc.hookimpl
    def register_patches(self) -> Any:
        return self.patches


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no phase be reached, as in a new process."""
    state = phases.Phases()
    monkeypatch.setattr(phases, "PHASES", state)


@pytest.fixture
def shop(make_package: Any) -> Any:
    make_package({"shop": SHOP})
    return importlib.import_module("shop")


def tagged(tag: str) -> Any:
    return lambda original: f"{tag}({original()})"


def patch(name: str, phase: Any = None, target: str = "shop:price", **declared: Any) -> pc.Patch:
    return pc.Patch(name, pc.Wrap(target, tagged(name)), phase=phase, **declared)


def patcher_of(*patches: pc.Patch, names: Any = ("platform", "worker"), **settings: Any) -> pc.Patcher:
    patcher = pc.Patcher(patches, **settings)
    patcher.plugins.add(Plugin(names), "shop_plugin")
    return patcher


def status(patcher: pc.Patcher, name: str) -> tuple[str, str]:
    record = patcher.report()[name]
    return record.status, record.reason


def test_a_patch_waits_for_its_phase_and_is_reverted_exactly(shop: Any) -> None:
    original, code = shop.price, shop.price.__code__
    patcher = patcher_of(patch("a", "worker"))
    assert "apply    a [local code]: waits for phase worker" in str(patcher.plan())
    with patcher:
        assert status(patcher, "a") == ("pending", "waits for phase worker")
        assert (shop.price(), patcher.report().summary()) == ("price", "1 pending")
        pc.reach("worker")
        pc.reach("worker")
        assert (shop.price(), status(patcher, "a")) == ("a(price)", ("applied", ""))
    assert shop.price is original
    assert shop.price.__code__ is code


def test_a_phase_that_is_reached_counts_for_later_patchers(shop: Any) -> None:
    pc.reach("worker")
    with patcher_of(patch("a", "worker")):
        assert shop.price() == "a(price)"


def test_a_revert_ends_the_wait(shop: Any) -> None:
    patcher = patcher_of(patch("a", "worker"), patch("b", "before:shop.later", "shop:label"))
    patcher.apply()
    assert [record.status for record in patcher.revert().patches] == ["reverted", "reverted"]
    pc.reach("worker")
    assert (shop.price(), phases.PHASES._doors) == ("price", {})


def test_a_phase_reaches_those_that_are_listed_before_it(shop: Any) -> None:
    applied: list[str] = []

    class Watcher:
        @pc.hookimpl
        def after_apply(self, patch: pc.Patch, outcome: Any) -> None:
            if outcome.status == "applied":
                applied.append(patch.name)

    patcher = patcher_of(patch("late", "worker"), patch("early", "platform", "shop:label"))
    patcher.plugins.add(Watcher(), "watcher")
    with patcher:
        pc.reach("platform")
        assert applied == ["early"]
    applied.clear()
    with patcher_of(patch("one", "worker"), patch("two", "platform", "shop:label")) as other:
        assert status(other, "two")[0] == "applied"
        pc.reach("worker")
    patcher = patcher_of(patch("late", "b2"), patch("early", "b1", "shop:label"), names=("b1", "b2"))
    patcher.plugins.add(Watcher(), "watcher")
    with patcher:
        pc.reach("b2")
    assert applied == ["early", "late"]


def test_a_patch_on_top_of_one_that_waits_waits_as_well(shop: Any) -> None:
    below, above = patch("below", "worker"), patch("above", after="below")
    highest = patch("highest", "platform", after="*", priority=1)
    with patcher_of(highest, above, below) as patcher:
        assert status(patcher, "above") == ("pending", "waits for phase worker, as it goes on top of below")
        pc.reach("platform")
        assert shop.price() == "price"
        pc.reach("worker")
        assert shop.price() == "highest(above(below(price)))"


@pytest.mark.parametrize("order", list(itertools.permutations(["platform", "worker", "before:shop"])))
def test_patches_stack_alike_in_whatever_order_phases_are_reached(make_package: Any, order: Any) -> None:
    make_package({"shop": SHOP})
    names = ("platform", "before:shop", "worker")
    patches = [patch("c", "worker", after=["a", "b"]), patch("b", "before:shop", after="a"), patch("a", "platform")]
    with patcher_of(*patches, names=names):
        for phase in order:
            if phase == "before:shop":
                importlib.import_module("shop")
            else:
                pc.reach(phase)
        import shop

        assert shop.price() == "c(b(a(price)))"


def test_the_import_of_a_module_reaches_the_phases_before_and_after_it(make_package: Any) -> None:
    tools = "import shop\nBEFORE = shop.price(), shop.label()"
    make_package({"shop": SHOP, "tools": "", "tools.sub": tools})
    import shop

    patches = patch("a", "before:tools.sub"), patch("b", "after:tools.sub", "shop:label")
    with patcher_of(*patches, names=()) as patcher:
        assert status(patcher, "a") == ("pending", "waits for phase before:tools.sub")
        import tools

        assert shop.price() == "price"
        importlib.import_module("tools.sub")
        assert tools.sub.BEFORE == ("a(price)", "label")
        assert (shop.price(), shop.label()) == ("a(price)", "b(label)")
        assert not patcher.report()["a"].remarks


def test_a_module_that_is_being_patched_may_be_the_one_of_the_phase(make_package: Any) -> None:
    make_package({"shop": SHOP, "user": "from shop import price"})
    with patcher_of(patch("a", "before:shop"), names=()):
        import user

        assert user.price() == "a(price)"
    assert user.price() == "price"


def test_the_import_of_a_namespace_package_is_one_as_well(make_package: Any) -> None:
    make_package({"shop": SHOP, "ns.part": ""})
    import shop

    with patcher_of(patch("a", "before:ns"), names=()):
        importlib.util.find_spec("ns")
        assert shop.price() == "price"
        importlib.import_module("ns.part")
        assert shop.price() == "a(price)"


def test_a_patch_that_comes_after_the_import_of_its_phase_says_so(shop: Any) -> None:
    patcher = patcher_of(patch("a", "before:shop"), names=())
    text = "too late for phase before:shop: shop was imported before the patch was there"
    assert [remark.text for remark in patcher.plan().remarks(patcher.plan()["a"])] == [text]
    with patcher:
        assert (shop.price(), patcher.report()["a"].remarks) == ("a(price)", (text,))


def test_a_failing_import_does_not_reach_the_phase_after_it(make_package: Any) -> None:
    make_package({"shop": SHOP, "tools": "raise OSError('no')"})
    import shop

    with patcher_of(patch("a", "after:tools"), patch("b", "before:tools", "shop:label"), names=()):
        with pytest.raises(OSError, match="no"):
            importlib.import_module("tools")
        assert (shop.price(), shop.label()) == ("price", "b(label)")


def test_an_unknown_phase_is_an_error_with_the_nearest_name(shop: Any) -> None:
    wrong = "no plugin names a phase 'wroker'; did you mean 'worker'?; the hook register_phases does"
    with patcher_of(patch("a", "wroker")) as patcher:
        assert wrong in patcher.report()["a"].reason
        assert any(wrong in str(problem) for problem in patcher.report().problems)
        with pytest.raises(pc.UnknownName, match="did you mean 'worker'"):
            pc.reach("wroker")
    with pytest.raises(pc.PatchError, match="did you mean 'worker'"):
        patcher_of(patch("b", "wroker"), strict=True).apply()
    with pytest.raises(pc.DeclarationError, match=r"phase must be a name or 'before:package\.module'"):
        patch("c", "on import of shop")


def test_an_order_that_is_a_cycle_is_a_problem_of_a_plugin(shop: Any) -> None:
    patcher = patcher_of(patch("a", "worker"))
    patcher.plugins.add(Plugin(["worker", "platform"]), "other")
    with patcher:
        assert "the order of phases is a cycle" in str(patcher.report().problems[0])
        pc.reach("platform")
        assert shop.price() == "a(price)"


def test_an_unplanned_program_may_reach_phases(shop: Any) -> None:
    pc.reach("anything")
    assert phases.PHASES.reached == ["anything"]


def test_a_patch_of_two_patchers_goes_on_for_both_and_leaves_with_the_last(shop: Any) -> None:
    shared = patch("a", "worker")
    first, second = patcher_of(shared), patcher_of(shared)
    first.apply()
    second.apply()
    first.revert()
    del first
    pc.reach("worker")
    assert (shop.price(), status(second, "a")) == ("a(price)", ("applied", ""))
    second.revert()
    assert shop.price() == "price"


def test_a_patcher_that_is_reverted_is_forgotten(shop: Any) -> None:
    patcher = patcher_of(patch("a", "worker"))
    patcher.plan()
    with patcher:
        alive = weakref.ref(patcher)
    del patcher
    gc.collect()
    assert alive() is None


def test_a_failure_in_a_phase_reverts_all_under_the_policy_to_raise(shop: Any) -> None:
    patches = [patch("fine"), pc.Patch("broken", pc.Replace("shop:label", "shop:nothing"), phase="worker")]
    patcher = patcher_of(*patches, strict=True)
    patcher.apply()
    assert shop.price() == "fine(price)"
    with pytest.raises(pc.PatchError, match=r"broken .* failed"):
        pc.reach("worker")
    assert (patcher.applied, shop.price(), shop.label()) == (False, "price", "label")


def test_replan_and_refresh_leave_patches_waiting(shop: Any) -> None:
    with patcher_of(patch("a", "worker")) as patcher:
        patcher.refresh()
        patcher.replan()
        assert status(patcher, "a")[0] == "pending"
        pc.reach("worker")
        patcher.replan()
        assert shop.price() == "a(price)"
        patcher.disable("a").replan()
        assert shop.price() == "price"
        patcher.enable("a").replan()
        assert shop.price() == "a(price)"


def test_threads_reach_a_phase_while_another_applies(shop: Any) -> None:
    for number in range(30):
        name = f"phase{number}"
        patcher = patcher_of(patch(f"a{number}", name), names=(name,))
        barrier = threading.Barrier(3)

        def go(barrier: threading.Barrier = barrier, name: str = name) -> None:
            barrier.wait()
            phases.PHASES.reach(name)

        threads = [threading.Thread(target=go) for _ in range(2)]
        for thread in threads:
            thread.start()
        barrier.wait()
        patcher.apply()
        for thread in threads:
            thread.join()
        assert shop.price() == f"a{number}(price)"
        patcher.revert()
        assert shop.price() == "price"


WORKERS = """
    import multiprocessing, sys
    import patchcore as pc, shop

    class Plugin:
        @pc.hookimpl
        def register_phases(self):
            return ["platform", "worker"]

        @pc.hookimpl
        def register_patches(self):
            wrap = lambda tag: lambda original: f"{tag}({original()})"
            return [
                pc.Patch("p", pc.Wrap("shop:label", wrap("p")), phase="platform"),
                pc.Patch("w", pc.Wrap("shop:price", wrap("w")), phase="worker"),
            ]

    patcher = pc.Patcher()
    patcher.plugins.add(Plugin(), "plugin")
    patcher.apply()

    def work(queue):
        before = shop.price(), shop.label()
        pc.reach("worker")
        queue.put((before, (shop.price(), shop.label())))

    if __name__ == "__main__":
        pc.reach("platform")
        context = multiprocessing.get_context(sys.argv[1])
        queue = context.Queue()
        worker = context.Process(target=work, args=(queue,))
        worker.start()
        print(queue.get(timeout=60))
        worker.join()
        print((shop.price(), shop.label()))
"""


@pytest.mark.parametrize(
    ("method", "before"), [("fork", "('price', 'p(label)')"), ("spawn", "('price', 'label')")], ids=["fork", "spawn"]
)
def test_a_forked_worker_has_the_phases_of_its_parent_and_a_spawned_one_its_own(
    make_package: Any, method: str, before: str
) -> None:
    if sys.platform == "win32" and method == "fork":
        pytest.skip("no fork")
    folder = make_package({"shop": SHOP, "start": WORKERS})
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(folder / "start.py"), method]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == [f"({before}, ('w(price)', 'p(label)'))", "('price', 'p(label)')"], done.stderr


def test_the_commands_show_the_wait(make_package: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = """
        import patchcore as pc

        @pc.hookimpl
        def register_phases():
            return ["worker"]

        @pc.hookimpl
        def register_patches():
            return [pc.Patch("shop.price", pc.Replace("shop:price", len), phase="worker")]
    """
    make_package({"shop": SHOP, "shop_plugin": plugin})
    monkeypatch.setenv("PATCHCORE_PLUGINS", "")
    for command in (["list", "-p", "shop_plugin"], ["explain", "-p", "shop_plugin", "shop.price"]):
        assert main(command) == 0
        assert "waits for phase worker" in capsys.readouterr().out
