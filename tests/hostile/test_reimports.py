"""Modules that are imported again while patched: the old ones live as long as without patches, and go back exactly."""

from __future__ import annotations

import gc
import importlib
import sys
import weakref
from typing import Any

import pytest

import patchcore as pc
from patchcore.engine.engine import ENGINE

LIBRARY = """
    import logging
    logger = logging.getLogger(__name__)
    def f(): return "f"
    def g(): return f()
    class Net:
        def m(self): return "m"
        @classmethod
        def c(cls): return super().__init__
    class Config:
        x = 1
    TABLE = {"f": f}
    """


def wrapped(original: Any, *args: Any) -> Any:
    return ("new", original(*args))


def new(*args: Any) -> str:
    return "replaced"


PATCHES = {
    "wrap": [pc.Wrap("lib:f", wrapped)],
    "replace": [pc.Replace("lib:f", new)],
    "method": [pc.Wrap("lib:Net.m", wrapped), pc.Wrap("lib:Net.c", wrapped)],
    "when_call": [pc.Replace("lib:f", new, when_call=lambda: True)],
    "attribute": [pc.Replace("lib:Config.x", pc.Literal(2))],
    "item": [pc.Replace("lib:TABLE['f']", new)],
    "all": [pc.Wrap("lib:f", wrapped), pc.Replace("lib:g", new), pc.Wrap("lib:Net.m", wrapped)],
}


def again() -> Any:
    del sys.modules["lib"]
    return importlib.import_module("lib")


@pytest.mark.parametrize("kind", PATCHES)
@pytest.mark.parametrize("count", [False, True])
def test_old_modules_that_nobody_uses_are_freed(make_package: Any, kind: str, count: bool) -> None:
    make_package({"lib": LIBRARY})
    classes = []
    with pc.Patcher([pc.Patch("p", PATCHES[kind])], strict=True, count=count):
        importlib.import_module("lib")
        classes += [weakref.ref(again().Net) for _ in range(20)]
        gc.collect()
        assert sum(klass() is not None for klass in classes) == 1
        assert len(list(ENGINE.journal)) == len(PATCHES[kind])


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", PATCHES)
@pytest.mark.parametrize("held", ["f", "g", "Net", "Config", "TABLE", "instance", "module", "space"])
def test_an_old_module_of_which_something_is_used_stays_patched_and_goes_back(
    make_package: Any, kind: str, held: str
) -> None:
    make_package({"lib": LIBRARY})
    lib = importlib.import_module("lib")
    space, owners = vars(lib), (lib.Net, lib.Config)
    before = {key: value for key, value in space.items() if not key.startswith("__")}
    attributes = [dict(vars(owner)) for owner in owners]
    table = dict(lib.TABLE)
    patcher = pc.Patcher([pc.Patch("p", PATCHES[kind])], strict=True)
    patcher.apply()
    user: Any = {"instance": lib.Net(), "module": lib, "space": space}.get(held) or before[held]
    patched = {key: space[key] for key in before}
    whole = held in ("module", "space", "g", "f")  # by these its namespace is used, by others what is in it
    del lib, space
    if held not in ("Net", "Config", "instance"):
        del owners
    for _ in range(3):
        again()
        gc.collect()
    space = {"module": lambda: vars(user), "space": lambda: user}.get(held, lambda: user.__globals__)() if whole else {}
    assert all(space[key] is patched[key] for key in before if whole)
    patcher.revert()
    assert all(space[key] is before[key] for key in before if whole)
    if held in ("Net", "Config", "instance"):
        for owner, then in zip(owners, attributes):
            assert all(vars(owner)[key] is then[key] for key in then if not key.startswith("__"))
    if held == "TABLE":
        assert user == table


def test_one_old_module_that_is_used_keeps_no_others(make_package: Any) -> None:
    make_package({"lib": LIBRARY})
    with pc.Patcher([pc.Patch("p", PATCHES["all"])], strict=True):
        first = importlib.import_module("lib")
        classes = [weakref.ref(again().Net) for _ in range(20)]
        gc.collect()
        assert sum(klass() is not None for klass in classes) == 1
        assert first.f() == sys.modules["lib"].f() == ("new", "f")
    assert first.f() == "f"
