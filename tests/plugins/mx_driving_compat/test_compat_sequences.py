"""Any sequence of adding, applying and reverting patches of the API ends, once all are reverted, where it began."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from migrations import assert_identical, no_plugins, spaces, told, wrapping  # noqa: F401

import patchcore as pc
from mx_driving_compat.patcher.patch import AtomicPatch
from mx_driving_compat.patcher.patcher import Patcher
from mx_driving_compat.patches.application import Run, Unit
from patchcore.planning.provenance import Provenance

SOURCES = {
    "geo_x": "",
    "geo_x.ops": """
        def area(x): return ("area", x)
        def size(x): return ("size", x)
        def fast(x): return ("fast", x)
        class Shape:
            def method(self, x): return ("method", x)
            @staticmethod
            def static(x): return ("static", x)
            @classmethod
            def klass(cls, x): return ("klass", x)
            @property
            def prop(self): return "prop"
            again = method
        class Sub(Shape): pass
        TABLE = {"area": area, "limit": 3}
        """,
    "user_x": """
        from geo_x.ops import area, area as surface, fast, Shape
        def use(x): return area(x)
        """,
    "kernel_x": """
        def area(*args): return ("kernel", *args[-1:])
        """,
}
EXPORTS = {"geo_x": ("geo_x.ops", "area", "Shape")}

FUNCTIONS = ("geo_x.ops.area", "geo_x.area", "user_x.surface", "geo_x.ops.fast", "geo_x.ops.TABLE.area")
TARGETS = (
    *FUNCTIONS,
    "geo_x.ops.size",
    "geo_x.ops.Shape.static",
    "geo_x.ops.Shape.klass",
    "geo_x.ops.Shape.method",
    "geo_x.ops.Sub.method",
    "geo_x.ops.Sub.static",
    "geo_x.Shape.method",
)


def build() -> list[ModuleType]:
    """Make the modules anew."""
    modules = []
    for name, source in SOURCES.items():
        module = ModuleType(name)
        sys.modules[name] = module
        if name == "geo_x":
            module.__path__ = []  # type: ignore[attr-defined]
        exec(compile(textwrap.dedent(source), f"<{name}>", "exec"), vars(module))
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
        modules.append(module)
        for package, (inner, *names) in EXPORTS.items():
            if inner == name:
                vars(sys.modules[package]).update((key, vars(module)[key]) for key in names)
    return modules


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for name in SOURCES:
        sys.modules.pop(name, None)


WRAPPERS = {tag: wrapping(tag) for tag in "ab"}


def replaced(*args: Any) -> Any:
    return ("replaced", *args[-1:])


#: What nobody may take for a name of what was patched.
OWN = replaced, dict(WRAPPERS)


def is_big(*args: Any) -> bool:
    return args[-1] > 2


replacing = st.builds(
    AtomicPatch,
    st.sampled_from(TARGETS),
    st.sampled_from([replaced, "kernel_x.area", "kernel_x.absent"]),
    aliases=st.lists(st.sampled_from(FUNCTIONS), max_size=2, unique=True),
    runtime_check=st.sampled_from([None, is_big]),
    precheck=st.sampled_from([None, lambda: True, lambda: False, lambda: 1 / 0]),
)
wrapping = st.builds(
    AtomicPatch,
    st.sampled_from(TARGETS),
    target_wrapper=st.sampled_from(list(WRAPPERS.values())),
    aliases=st.lists(st.sampled_from(FUNCTIONS), max_size=2, unique=True),
)
items = st.builds(AtomicPatch, st.just("geo_x.ops.TABLE.limit"), replacement=st.integers(5, 6), precheck=st.just(None))
properties = st.builds(AtomicPatch, st.just("geo_x.ops.Shape.prop"), st.just(replaced))
patches = st.one_of(replacing, wrapping, items, properties)

PATCHERS = st.integers(0, 2)
steps = st.one_of(
    st.tuples(st.just("add"), PATCHERS, patches),
    st.tuples(st.just("apply"), PATCHERS, st.none()),
    st.tuples(st.just("revert"), PATCHERS, st.none()),
    st.tuples(st.just("alone"), PATCHERS, patches),
)


def use_everything(modules: list[ModuleType]) -> None:
    """Call whatever can be called: nothing is unbound or bound twice."""
    ops, user = modules[1], modules[2]
    exported = (user.use, user.surface, user.fast, modules[0].area)
    for function in (ops.area, ops.size, ops.fast, ops.TABLE["area"], *exported):
        assert isinstance(function(3), tuple)
    for shape in (ops.Shape(), ops.Sub(), user.Shape()):
        for call in (shape.method, shape.static, shape.klass, type(shape).static, type(shape).klass):
            assert isinstance(call(3), tuple)
        assert shape.prop


@settings(max_examples=40)
@given(st.lists(steps, min_size=3, max_size=14))
def test_everything_is_as_it_was(sequence: list[tuple[str, int, Any]]) -> None:
    modules = build()
    before = spaces(*modules)
    patchers = [Patcher() for _ in range(3)]
    alone: list[AtomicPatch] = []
    try:
        for action, number, patch in sequence:
            patcher = patchers[number]
            if action == "add":
                patcher.add(patch)
            elif action == "alone":
                alone.append(patch)
                patch.apply()
            else:
                getattr(patcher, action)()
            use_everything(modules)
    finally:
        for undone in (*patchers, *alone):
            undone.revert()
    assert_identical(spaces(*modules), before)
    assert (replaced, WRAPPERS) == OWN


def test_what_many_patches_declare_grows_with_their_number_only() -> None:
    units = [Unit(pc.Patch(f"geo.p{i}", [pc.Replace(f"json.tool:f{i}", print)]), [None]) for i in range(100)]
    theirs = Unit(pc.Patch("theirs.p", [pc.Replace("json.tool:g", print)]), [None], Provenance("theirs"))
    run = Run([*units[:50], theirs, *units[50:]])
    declared = sum(len(unit.patch.after) + len(unit.patch.before) for unit in run.units)
    assert declared <= 3 * len(run.units)
    assert [e.patch.name for e in run._patcher.plan()] == [unit.patch.name for unit in run.units]
    assert run.units[0].patch.stacks_with(run.units[99].patch)
