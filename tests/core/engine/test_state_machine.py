"""Whatever is applied, reverted and imported, in whatever order: in the end every namespace is as if never patched."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import patchcore as pc
from patchcore.engine.engine import ENGINE

SOURCES = {
    "geo": """
        from geo.ops import area, Shape
        from geo.fn import fn
        __imports__ = {"area": "geo.ops:area", "Shape": "geo.ops:Shape", "fn": "geo.fn:fn"}
    """,
    "geo.ops": """
        def area(): return "area"
        def size(): return "size"
        class Meta(type):
            def describe(cls): return "describe"
        class Shape(metaclass=Meta):
            def method(self): return "method"
            def other(self): return "other"
            @staticmethod
            def static(): return "static"
            @classmethod
            def klass(cls): return "klass"
            @property
            def prop(self): return "prop"
        class Sub(Shape):
            pass
        class Point:
            __slots__ = ("x",)
        class Registry:
            pass
        class Net:
            pass
        POINT = Point()
        POINT.x = "x"
        TABLE = {"area": area}
        REGISTRY = Registry()
        REGISTRY._module_dict = {"Net": Net}
        __all__ = ["area", "promised"]
        def __getattr__(name): raise AttributeError(name)
        __imports__ = {}
    """,
    "geo.fn": "def fn(): return 'fn'\n__imports__ = {}",  # shadowed in geo by the function of its name
    "geo.extra": "def extra(): return 'extra'\n__imports__ = {}",
    "kernels": """
        def area(): return "kernel"
        def fn(): return "kernel"
        class Net: pass
        __imports__ = {}
    """,
    "early": """
        from geo.ops import area as a, size, Shape, Sub
        method, static, inherited = Shape.method, Shape.static, Sub.method
        class Mine(Shape):
            taken = a
            boxed = staticmethod(a)
        __imports__ = {
            "a": "geo.ops:area", "size": "geo.ops:size", "Shape": "geo.ops:Shape", "Sub": "geo.ops:Sub",
            "method": "geo.ops:Shape.method", "static": "geo.ops:Shape.static", "inherited": "geo.ops:Shape.method",
            "Mine.taken": "geo.ops:area", "Mine.boxed": "geo.ops:area",
        }
    """,
    "late": """
        from geo import area, fn as f, Shape as S
        from geo.extra import extra
        __imports__ = {"area": "geo:area", "f": "geo:fn", "S": "geo:Shape", "extra": "geo.extra:extra"}
    """,
}


class Memory:
    """A module as its body left it, and where it took its imports from."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.space = dict(vars(module))
        self.imports = {
            name: (sys.modules[source.partition(":")[0]], source.partition(":")[2])
            for name, source in module.__imports__.items()
        }
        self.classes = {
            value: dict(vars(value))
            for value in self.space.values()
            if isinstance(value, type) and value.__module__ == module.__name__
        }
        self.tables = [(table, dict(table)) for table in self._tables()]
        self.point = getattr(module, "POINT", None)

    def _tables(self) -> Iterator[dict[str, Any]]:
        if "TABLE" in self.space:
            yield self.space["TABLE"]
            yield self.space["REGISTRY"]._module_dict


memories: dict[int, Memory] = {}


def take(name: str) -> None:
    """Called by each module at its end, before anybody patches it."""
    module = sys.modules[name]
    memories[id(module)] = Memory(module)


def original(module: ModuleType, path: str) -> Any:
    """The object that ``path`` had in an unpatched ``module``."""
    memory = memories[id(module)]
    if path in memory.imports:
        return original(*memory.imports[path])
    first, _, rest = path.partition(".")
    value = memory.space[first]
    return function_of(memory.classes[value][rest]) if rest else value


def originals(module: ModuleType, path: str) -> list[Any]:
    """What :func:`original` returns, from every module of the name that was executed."""
    source, name = memories[id(module)].imports.get(path, (None, ""))
    if source is None:
        return [original(module, path)]
    versions = [memory.module for memory in memories.values() if memory.module.__name__ == source.__name__]
    return [value for version in versions for value in originals(version, name)]


def function_of(raw: Any) -> Any:
    return raw.__func__ if isinstance(raw, staticmethod) else raw


def check(memory: Memory) -> None:
    name = memory.module.__name__
    now, before = dict(vars(memory.module)), dict(memory.space)
    for key, value in list(now.items()):
        if isinstance(value, ModuleType) and value.__name__ == f"{name}.{key}":  # by the import of a submodule
            now.pop(key)
            before.pop(key, None)
    check_space(memory, now, before, name, "")
    for klass, space in memory.classes.items():
        check_space(memory, dict(vars(klass)), space, f"{name}.{klass.__name__}", f"{klass.__name__}.")
    for table, content in memory.tables:
        assert list(table) == list(content), name
        assert all(table[key] is content[key] for key in content), name
    if memory.point is not None:
        assert memory.point.x == "x"


def check_space(memory: Memory, now: dict[str, Any], before: dict[str, Any], name: str, prefix: str) -> None:
    assert set(now) == set(before), f"{name}: {set(now) ^ set(before)}"
    for key, then in before.items():
        if prefix + key not in memory.imports:
            assert now[key] is then, f"{name}.{key} is {now[key]!r}, was {then!r}"
            continue
        if sys.modules.get(memory.module.__name__) is not memory.module:  # imported again: nobody can find the old one
            continue
        expected = original(memory.module, prefix + key)
        if function_of(then) is expected:  # it was imported while nothing was patched
            assert now[key] is then, f"{name}.{key} is {now[key]!r}, was {then!r}"
        else:  # what came from the first of two modules of a name cannot be told from what came from the second
            assert any(function_of(now[key]) is one for one in originals(memory.module, prefix + key)), f"{name}.{key}"
        assert type(now[key]) is type(then), f"{name}.{key}"


def tagged(tag: str) -> Any:
    def wrapper(original: Any, *args: Any) -> str:
        return f"<{tag}>{original(*args)}"

    return wrapper


def replaced(*args: Any) -> str:
    return "replaced"


def by_hand(module: Any, options: Any) -> None:
    size, other = module.size, module.Shape.__dict__.get("other", replaced)
    module.size = lambda: f"<hand>{size()}"
    module.Shape.other = lambda self: f"<hand>{other(self)}"
    module.by_hand = replaced


def subclass(base: Any) -> Any:
    return type("Fancy", (base,), {"__module__": "elsewhere"})


POOL = [
    pc.Patch("replace", [pc.Replace("geo.ops:area", "kernels:area")]),
    pc.Patch("wrap", [pc.Wrap("geo.ops:area", tagged("wrap")), pc.Wrap("geo.ops:size", tagged("wrap"))]),
    pc.Patch("stacked", [pc.Wrap("geo.ops:area", tagged("stacked"))], after=["wrap", "replace"]),
    pc.Patch("alias", [pc.Wrap("geo:area", tagged("alias"))], after=["wrap", "replace", "stacked"]),
    pc.Patch(
        "both", [pc.Wrap(t, WRAP) for WRAP in [tagged("both")] for t in ("geo.ops:size", "geo.ops:area", "geo:area")]
    ),
    pc.Patch("method", [pc.Wrap("geo.ops:Shape.method", tagged("method"))]),
    pc.Patch("inherited", [pc.Wrap("geo.ops:Sub.method", tagged("inherited"))]),
    pc.Patch(
        "static", [pc.Wrap("geo.ops:Shape.static", tagged("static")), pc.Replace("geo.ops:Shape.klass", replaced)]
    ),
    pc.Patch("prop", [pc.Wrap("geo.ops:Shape.prop", tagged("prop")), pc.Wrap("geo.ops:Meta.describe", tagged("prop"))]),
    pc.Patch(
        "items", [pc.Replace('geo.ops:TABLE["area"]', replaced), pc.Replace('geo.ops:TABLE["new"]', len, create=True)]
    ),
    pc.Patch("register", [pc.Register("geo.ops:REGISTRY", "kernels:Net"), pc.Register("geo.ops:REGISTRY", replaced)]),
    pc.Patch("create", [pc.Replace("geo.ops:added", replaced, create=True), pc.Replace("geo.ops:promised", replaced)]),
    pc.Patch("member", [pc.Replace("geo.ops:POINT.x", pc.Literal("y"))]),
    pc.Patch("subclass", [pc.Replace("geo.ops:Shape", factory=subclass)]),
    pc.Patch("call", [pc.Call(by_hand, module="geo.ops")]),
    pc.Patch("shadow", [pc.Replace("geo.fn:fn", "kernels:fn"), pc.Replace("geo.extra:extra", replaced)]),
    pc.Patch("when_call", [pc.Replace("geo.fn:fn", "kernels:fn", when_call=lambda: False)]),
    pc.Patch("home", [pc.Wrap("kernels:area", tagged("home"))]),
    pc.Patch("fails", [pc.Wrap("geo.ops:size", tagged("fails")), pc.Replace("geo.extra:missing", replaced)]),
]
PATCHERS = st.integers(0, 2)


class Process(RuleBasedStateMachine):
    """A process in which three Patchers with overlapping patches come and go while modules are imported."""

    def __init__(self) -> None:
        super().__init__()
        forget()
        memories.clear()
        self.patchers: dict[int, pc.Patcher] = {}  # by number, once they have been applied

    @rule(number=PATCHERS, patches=st.lists(st.sampled_from(POOL), unique=True, max_size=6), count=st.booleans())
    def apply(self, number: int, patches: list[pc.Patch], count: bool = False) -> None:
        if number not in self.patchers or not self.patchers[number].applied:
            self.patchers[number] = pc.Patcher(patches, count=count)
        self.patchers[number].apply()

    @rule(number=PATCHERS)
    def apply_again(self, number: int) -> None:
        if number in self.patchers:
            self.patchers[number].apply()

    @rule(number=PATCHERS)
    def revert(self, number: int) -> None:
        if number in self.patchers:
            self.patchers[number].revert()

    @rule(name=st.sampled_from(sorted(SOURCES)))
    def import_(self, name: str) -> None:
        importlib.import_module(name)

    @precondition(lambda self: any(name in sys.modules for name in SOURCES))
    @rule(name=st.sampled_from(sorted(set(SOURCES) - {"geo.fn"})))  # which would put the module in geo's fn
    def import_again(self, name: str) -> None:
        if sys.modules.pop(name, None) is not None:
            importlib.import_module(name)

    @rule(number=PATCHERS)
    def report(self, number: int) -> None:
        if number in self.patchers:
            str(self.patchers[number].report())

    @invariant()
    def nothing_is_wrapped_twice(self) -> None:
        for name in SOURCES:
            for key, value in list(vars(sys.modules.get(name, ModuleType("none"))).items()):
                if isinstance(value, type) and hasattr(value, "prop"):
                    once(value().method(), value.static(), value.klass(), value().prop, value().other())
                elif key in ("area", "a", "size", "fn", "f", "extra") and callable(value):
                    once(value())

    def teardown(self) -> None:
        for patcher in self.patchers.values():
            patcher.revert()
        for memory in memories.values():
            check(memory)
        assert not list(ENGINE.journal)
        assert not ENGINE._active
        assert not ENGINE._waiting
        assert not ENGINE.rebinder._homes


def once(*results: str) -> None:
    for result in results:
        if "<hand>" in result:  # keeps calling what it was put over, which may have been removed and put on top since
            continue
        tags = Counter(re.findall("<.*?>", result))
        assert not [tag for tag, count in tags.items() if count > 1], result


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in {"geo", "kernels", "early", "late"}]:
        del sys.modules[name]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, source in SOURCES.items():
        path = tmp_path.joinpath(*name.split("."), *(("__init__",) if name == "geo" else ())).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(source) + "\n__import__('recorder').take(__name__)\n")
    recorder = ModuleType("recorder")
    recorder.take = take
    monkeypatch.setitem(sys.modules, "recorder", recorder)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    forget()
    memories.clear()


def test_reverting_everything_leaves_every_namespace_identical(world) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
    run_state_machine_as_test(
        Process,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=checks,
        ),
    )


def test_a_patch_of_a_name_and_its_alias_is_in_each_once_when_what_lay_below_it_goes(world) -> None:
    pool = {patch.name: patch for patch in POOL}
    process = Process()
    process.apply(1, [pool["both"]])
    process.apply(2, [pool["wrap"], pool["alias"]])
    process.import_("early")
    process.apply(0, [pool["replace"]])
    process.revert(1)
    process.apply_again(1)
    process.revert(0)
    process.nothing_is_wrapped_twice()
    process.teardown()
