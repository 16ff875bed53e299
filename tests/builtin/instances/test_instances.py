"""instances: a method of the objects of a class that a predicate chooses."""

from __future__ import annotations

import copy
import gc
import importlib
import inspect
import pickle
import sys
import threading
import weakref
from typing import Any

import pytest

import patchcore as pc

TILLS = """
    class Till:
        def __init__(self, number=0):
            self.number = number

        def total(self, tax=1):
            return self.number + tax

    class Big(Till):
        def __init__(self, *args):
            super().__init__(*args)
            self.big = True

    class Plain(Till):
        pass
"""


@pytest.fixture
def tills(make_package: Any) -> Any:
    make_package({"tills": TILLS})
    return importlib.import_module("tills")


def tagged(tag: str) -> Any:
    def wrapper(original: Any, self: Any, tax: int = 1) -> Any:
        return tag, original(self, tax)

    return wrapper


def patch(name: str = "a", where: Any = None, method: str = "total", **declared: Any) -> pc.Patch:
    return pc.Patch(name, pc.Instances("tills:Till", tagged(name), method=method, where=where), **declared)


def test_the_chosen_objects_have_the_method_until_the_revert(tills: Any) -> None:
    old = tills.Till(1)
    spaces = {cls: dict(vars(cls)) for cls in (tills.Till, tills.Big, tills.Plain)}
    with pc.Patcher([patch(where=lambda till: till.number > 1)]) as patcher:
        one, two, plain = tills.Till(1), tills.Till(2), tills.Plain(3)
        assert [till.total() for till in (old, one, two, plain)] == [2, 2, ("a", 3), ("a", 4)]
        assert patcher.report()["a"].changes[0].reason == "changed 2 objects made since"
        assert inspect.signature(two.total) == inspect.signature(one.total)
    assert [till.total() for till in (old, one, two, plain)] == [2, 2, 3, 4]
    assert vars(two) == {"number": 2}
    assert {cls: dict(vars(cls)) for cls in spaces} == spaces


def test_the_predicate_sees_the_whole_object_and_each_object_once(tills: Any) -> None:
    seen: list[Any] = []

    def where(till: Any) -> bool:
        seen.append((type(till).__name__, vars(till).copy()))
        return True

    with pc.Patcher([patch(where=where)]):
        till = tills.Big(5)
        till.__init__(6)
        assert till.total() == ("a", 7)
    assert seen == [("Big", {"number": 5, "big": True})]


def test_subclasses_that_are_made_later_count(tills: Any) -> None:
    with pc.Patcher([patch(where=lambda till: getattr(till, "late", False))]):

        class Late(tills.Till):
            def __init__(self) -> None:
                super().__init__(1)
                self.late = True

        init = Late.__init__
        assert Late().total() == ("a", 2)
    assert Late().total() == 2
    assert Late.__init__ is not init


def test_a_class_that_is_changed_behind_the_back_is_told_of(tills: Any) -> None:
    def changed(self: Any) -> None:
        tills.Till.__init__(self, 8)

    with pc.Patcher([patch()]) as patcher:
        tills.Plain.__init__ = changed
        assert tills.Plain().total() == 9
        assert tills.Plain().total() == ("a", 9)
        assert "the first object of tills:Plain was not looked at" in patcher.report()["a"].reason or any(
            "tills:Plain" in change.reason for change in patcher.report()["a"].changes
        )
    assert tills.Plain.__init__ is changed


def test_objects_are_held_weakly(tills: Any) -> None:
    with pc.Patcher([patch()]):
        alive = weakref.ref(tills.Till(1))
        gc.collect()
        assert alive() is None


def test_two_changes_stack_and_leave_in_any_order(tills: Any) -> None:
    below, above = pc.Patcher([patch("a")]), pc.Patcher([patch("b", after="a")])
    below.apply()
    above.apply()
    till = tills.Till(1)
    assert till.total() == ("b", ("a", 2))
    below.revert()
    assert till.total() == ("b", 2)
    above.revert()
    assert vars(till) == {"number": 1}


def test_two_changes_of_one_method_need_an_order(tills: Any) -> None:
    (conflict,) = pc.Patcher([patch("a"), patch("b")]).plan().conflicts
    assert "tills:Till['total of objects'] is patched by both" in conflict.reason


def test_a_patch_of_the_class_is_found_below(tills: Any) -> None:
    with pc.Patcher([patch("a")]):
        till = tills.Till(1)
        with pc.Patcher([pc.Patch("all", pc.Replace("tills:Till.total", lambda self, tax=1: "all"))]):
            assert till.total() == ("a", "all")
        assert till.total() == ("a", 2)


def test_a_method_that_the_object_has_itself_is_given_back(tills: Any) -> None:
    class Own(tills.Till):
        def __init__(self) -> None:
            self.total = lambda tax=1: "own"

    with pc.Patcher([patch()]):
        till = Own()
        own_before = [value for key, value in vars(till).items() if key == "total"]
        assert till.total() == ("a", "own")
    assert till.total() == "own"
    assert own_before != [till.total]


def test_what_the_program_sets_later_stays_and_is_noted(tills: Any) -> None:
    patcher = pc.Patcher([patch()])
    patcher.apply()
    till = tills.Till(1)
    till.total = lambda: "new"
    report = patcher.revert()
    assert till.total() == "new"
    assert any("total of an object of tills:Till holds something else by now" in note for note in report.notes)


def test_copies_call_the_method_of_the_copy_and_follow_the_revert(tills: Any) -> None:
    with pc.Patcher([patch()]):
        till = tills.Till(1)
        twin, pickled = copy.deepcopy(till), pickle.loads(pickle.dumps(till))
        twin.number = 5
        assert (twin.total(), till.total(), pickled.number) == (("a", 6), ("a", 2), 1)
    assert (twin.total(), till.total()) == (6, 2)


def test_a_predicate_that_raises_fails_the_patch_and_not_the_program(tills: Any) -> None:
    with pc.Patcher([patch(where=lambda till: till.nothing)]) as patcher:
        till = tills.Till(1)
        record = patcher.report()["a"]
        assert (record.status, till.total()) == ("failed", 2)
        assert "has no attribute 'nothing'" in record.reason
    with pc.Patcher([patch(where=lambda till: till.nothing)], strict=True):
        with pytest.raises(pc.PatchError, match="nothing"):
            tills.Till(1)
        assert tills.Till(1).total() == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"target": "tills:Till", "method": "totl"}, "tills:Till has no method 'totl'; did you mean 'total'"),
        ({"target": "tills:Slots", "method": "total"}, "have no __dict__"),
        ({"target": "tills:Till", "method": "kind"}, "Till.kind is no method, but property"),
        ({"target": "tills:number", "method": "total"}, "tills:number is no class, but int"),
    ],
)
def test_objects_that_cannot_have_the_method_fail_the_patch(make_package: Any, change: Any, error: str) -> None:
    more = """
    class Slots:
        __slots__ = ()
        def total(self): return 1

    Till.kind = property(lambda self: "till")
    number = 3
    """
    make_package({"tills": TILLS + more})
    tills = importlib.import_module("tills")
    with pc.Patcher([pc.Patch("a", pc.Instances(wrapper=tagged("a"), **change))]) as patcher:
        tills.Till()
        tills.Slots()
        record = patcher.report()["a"]
    assert record.status == "failed"
    assert error in record.reason


def test_special_methods_are_refused() -> None:
    with pytest.raises(
        pc.DeclarationError, match=r"looks special methods up in the class.*Wrap\('m:C.__call__', wrapper"
    ):
        pc.Instances("m:C", tagged("a"), method="__call__")
    with pytest.raises(pc.DeclarationError, match="method must be the name of a method"):
        pc.Instances("m:C", tagged("a"), method="a.b")


def test_a_class_without_init_accepts_what_it_accepted(make_package: Any) -> None:
    source = """
        class Till:
            def __new__(cls, *args): return object.__new__(cls)
            def total(self, tax=1): return tax
    """
    make_package({"tills": source})
    tills = importlib.import_module("tills")
    with pc.Patcher([patch()]):
        assert tills.Till(1, 2).total() == ("a", 1)
    assert "__init__" not in vars(tills.Till)
    assert tills.Till(1, 2).total() == 1


def test_it_waits_for_the_import_and_survives_a_reload(make_package: Any) -> None:
    make_package({"tills": TILLS})
    with pc.Patcher([patch()]) as patcher:
        assert patcher.report()["a"].status == "pending"
        tills = importlib.import_module("tills")
        old = tills.Till(1)
        tills = importlib.reload(tills)
        new = tills.Till(2)
        assert (old.total(), new.total()) == (("a", 2), ("a", 3))
    assert (old.total(), new.total(), vars(old), vars(new)) == (2, 3, {"number": 1}, {"number": 2})


def test_objects_that_threads_make_during_a_revert_are_as_before_in_the_end(tills: Any) -> None:
    made: list[Any] = []
    stop = threading.Event()

    def make() -> None:
        while not stop.is_set() and len(made) < 20_000:
            made.append(tills.Big(1))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=make) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            with pc.Patcher([patch()]):
                tills.Big(1)
        stop.set()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert {till.total() for till in made} == {2}
    assert not [till for till in made if "total" in vars(till)]


def test_modules_of_torch(torch: Any, make_package: Any) -> None:
    make_package(
        {
            "tills": """
            import torch

            class Till(torch.nn.Module):
                def __init__(self, size):
                    super().__init__()
                    self.layer = torch.nn.Linear(size, 1)

                def forward(self, x):
                    return self.layer(x)
            """
        }
    )
    tills = importlib.import_module("tills")
    change = pc.Instances(
        "tills:Till",
        lambda original, self, x: original(self, x) * 0 + 5,
        method="forward",
        where=lambda module: module.layer.in_features == 2,
    )
    with pc.Patcher([pc.Patch("a", change)]):
        two, three = tills.Till(2), tills.Till(3)
        assert two(torch.ones(1, 2)).item() == 5
        assert copy.deepcopy(two)(torch.ones(1, 2)).item() == 5
        assert three(torch.ones(1, 3)).item() != 5
        assert list(two.state_dict()) == ["layer.weight", "layer.bias"]
        compiled = torch.compile(two, backend="eager", fullgraph=True)
        assert compiled(torch.ones(1, 2)).item() == 5
    assert two(torch.ones(1, 2)).item() != 5
    assert "forward" not in vars(two)
