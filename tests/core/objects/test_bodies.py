"""Bodies of functions: whoever holds a patched function follows, and gets exactly the function back."""

from __future__ import annotations

import asyncio
import copy
import functools
import importlib
import inspect
import os
import pickle
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

import pytest

import patchcore as pc
from patchcore.objects.bodies import Body, copy_of, patched_body
from patchcore.plugins import Plugins

LIBRARY = '''
def area(x, y=2, *, scale=1):
    """Return an area."""
    return x * y * scale

class Shape:
    side = 3
    def grow(self, by): return self.side + by
    @staticmethod
    def unit(): return 1
    @classmethod
    def named(cls, name): return (cls.__name__, name)
    @property
    def size(self): return self.side ** 2
    def described(self): return super().__repr__()[:4]

class Square(Shape):
    pass

async def fetch(x): return x
def count(n):
    for i in range(n):
        got = yield i
        if got: yield got
async def stream(n):
    for i in range(n):
        yield i

def made():
    args, kwargs, cls = 1, 2, 3
    def inner(x): return args + kwargs + cls + x
    return inner
inner = made()
'''


@pytest.fixture
def lib(make_package: Any) -> Any:
    make_package({"lib": LIBRARY, "lib_user": "from lib import area"})
    import lib

    return lib


def doubled(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return ("new", original(*args, **kwargs))


def patched(*changes: Any) -> pc.Patcher:
    return pc.Patcher([pc.Patch("p", list(changes))], strict=True)


def holders(lib: ModuleType) -> dict[str, Callable[[], Any]]:
    area, shape = lib.area, lib.Shape()
    bound, static, named, getter = shape.grow, lib.Shape.unit, lib.Shape.named, lib.Shape.size

    def closure() -> Any:
        return area(1)

    def default(f: Any = area) -> Any:
        return f(1)

    table, partial, partial_method = {area: 1, "f": [(area,)]}, functools.partial(area, 1), functools.partial(bound, 1)
    return {
        "closure": closure,
        "default argument": default,
        "container": lambda: table["f"][0][0](1),  # type: ignore[index]
        "key": lambda: next(iter(table))(1),  # type: ignore[operator]
        "partial": partial,
        "partial of a bound method": partial_method,
        "bound method": lambda: bound(1),
        "static method": lambda: static(),
        "bound class method": lambda: named("a"),
        "property": lambda: getter.fget(shape),
        "subclass": lambda: lib.Square().grow(1),
    }


def test_every_holder_of_the_function_follows_and_goes_back(lib: Any) -> None:
    held = holders(lib)
    before = {name: call() for name, call in held.items()}
    targets = ("area", "Shape.grow", "Shape.unit", "Shape.named", "Shape.size")
    with patched(*[pc.Wrap(f"lib:{name}", doubled) for name in targets]):
        assert {name: call() for name, call in held.items()} == {name: ("new", b) for name, b in before.items()}
    assert {name: call() for name, call in held.items()} == before


#: What of a class is held, by the target that is patched: the source of what is held, and how it is called.
OF_CLASSES = {
    "lib:Shape.named": ("lib.Shape.named", "{}('a')"),
    "lib:Shape.unit": ("lib.Shape.unit", "{}()"),
    "lib:Shape.grow": ("lib.Shape().grow", "{}(1)"),
    "lib:Shape.size": ("vars(lib.Shape)['size'].fget", "{}(lib.Shape())"),
}
#: How it is held: the source of a module with ``HELD`` for it, and how that module gets at it.
WAYS = {
    "a name": ("name = HELD", "name"),
    "a default argument": ("def f(g=HELD): return g", "f()"),
    "a closure": ("f = (lambda g: lambda: g)(HELD)", "f()"),
    "a list": ("names = [HELD]", "names[0]"),
    "a tuple in a dict": ("names = {'a': (HELD,)}", "names['a'][0]"),
    "an attribute of an object": ("class C: ...\nc = C()\nc.g = HELD", "c.g"),
    "a static method of another class": ("class C: g = staticmethod(HELD)", "C.g"),
    "a partial": ("import functools\nf = functools.partial(HELD)", "f"),
    "a generator": ("def made(g): yield g\nf = made(HELD)", "next(f)"),
    "an iterator": ("f = iter([HELD])", "next(f)"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", OF_CLASSES)
@pytest.mark.parametrize("kind", ["wrapped", "everywhere"])
def test_every_holder_of_something_of_a_class_follows(
    lib: Any, make_package: Any, target: str, way: str, kind: str
) -> None:
    (held, call), (source, expression) = OF_CLASSES[target], WAYS[way]
    make_package(
        {"held": f"import lib\n{source.replace('HELD', held)}\ndef called(): return {call.format(expression)}"}
    )
    import held as module

    before = eval(call.format(held), {"lib": lib})

    def new(*args: Any, **kwargs: Any) -> Any:
        return ("new", before)

    change = pc.Wrap(target, doubled) if kind == "wrapped" else pc.Replace(target, new, everywhere=True)
    with patched(change):
        assert module.called() == ("new", before)
    if way not in ("a generator", "an iterator"):  # which give it once
        assert module.called() == before


@pytest.mark.parametrize(
    "change",
    [
        pc.Wrap("lib:area", doubled),
        pc.Wrap("lib:area", lambda original, x, y=2, *, scale=1: ("new", original(x, y, scale=scale))),
        pc.Replace("lib:area", lambda x, y=2, *, scale=1: ("new", x * y * scale), when_call=lambda *a, **k: True),
        pc.Replace("lib:area", factory=lambda f: lambda *args, **kwargs: ("new", f(*args, **kwargs))),
        pc.Replace("lib:area", lambda x, y=2, *, scale=1: ("new", x * y * scale), everywhere=True),
    ],
    ids=["any parameters", "own parameters", "when_call", "factory", "everywhere"],
)
@pytest.mark.parametrize("count", [False, True])
def test_the_function_stays_the_same_object_and_comes_back_exactly(lib: Any, change: Any, count: bool) -> None:
    area = lib.area
    area.mark = mark = object()
    parts = ("__code__", "__defaults__", "__kwdefaults__", "__name__", "__qualname__", "__module__", "__doc__")
    before = {name: getattr(area, name) for name in parts}
    with pc.Patcher([pc.Patch("p", [change])], strict=True, count=count) as patcher:
        assert lib.area is area
        assert area(2) == ("new", 4)
        assert area(2, y=3, scale=2) == area(2, 3, scale=2) == ("new", 12)
        assert str(inspect.signature(area)) == "(x, y=2, *, scale=1)"
        assert "Return an area" in inspect.getsource(area)
        assert pickle.loads(pickle.dumps(area)) is copy.deepcopy(area) is area
        assert patcher.report()["p"].changes[0].calls == (3 if count else None)
        with pytest.raises(TypeError):
            area()
        assert pc.original("lib:area")(2) == 4
    assert {name: getattr(area, name) for name in parts} == before
    assert area.__code__ is before["__code__"]
    assert vars(area) == {"mark": mark}
    assert patched_body(area) is None


def test_functions_keep_their_kind(lib: Any) -> None:
    def wrapper(original: Any, *args: Any) -> Any:
        return original(*args)

    with patched(*[pc.Wrap(f"lib:{name}", wrapper) for name in ("fetch", "count", "stream")]):
        assert inspect.iscoroutinefunction(lib.fetch)
        assert inspect.isgeneratorfunction(lib.count)
        assert inspect.isasyncgenfunction(lib.stream)
        assert asyncio.run(lib.fetch(3)) == 3
        numbers = lib.count(3)
        assert (next(numbers), numbers.send("sent"), next(numbers)) == (0, "sent", 1)

        async def all_of() -> list[int]:
            return [i async for i in lib.stream(3)]

        assert asyncio.run(all_of()) == [0, 1, 2]


def test_free_variables_may_have_any_name(lib: Any) -> None:
    inner = lib.inner
    with patched(pc.Wrap("lib:Shape.described", doubled)):
        assert lib.Shape().described() == ("new", "<lib")
    cells = inner.__closure__
    lib.inner.__qualname__ = "inner"
    with patched(pc.Wrap("lib:inner", doubled)):
        assert lib.inner is inner
        assert inner(1) == ("new", 7)
    assert inner.__closure__ is cells
    assert inner(1) == 7


@pytest.mark.skipif(sys.version_info < (3, 12), reason="a def with type parameters has such a free variable since 3.12")
def test_a_function_with_a_variable_that_no_source_can_name_is_patched_by_name(make_package: Any) -> None:
    make_package({"lib": "def area[T: int](x: T = 1, y: T = 2) -> T: return x"})
    import lib

    free = [name for name in lib.area.__code__.co_freevars if not name.isidentifier()]
    with patched(pc.Wrap("lib:area", doubled)):
        assert lib.area(1) == ("new", 1)
    assert not free or lib.area(1) == 1


def doubling() -> Any:
    return pc.Wrap("lib:area", lambda original, x, *args, **kwargs: ("new", x))


def instead() -> Any:
    return pc.Replace("lib:area", lambda x, y=2, *, scale=1: ("new", x), when_call=lambda *args, **kwargs: True)


def everywhere() -> Any:
    return pc.Replace("lib:area", lambda x, y=2, *, scale=1: ("new", x), everywhere=True)


class TestNamesOfTheOriginal:
    """What a wrapper saved before means the original, as if the wrapper had got it."""

    @pytest.mark.parametrize("later", [False, True], ids=["", "in a helper of the same package"])
    def test_a_global_of_the_wrapper(self, lib: Any, make_package: Any, later: bool) -> None:
        call = "helper(*args)" if later else "saved(*args)"
        make_package(
            {
                "plug": f"""
                    from lib import area as saved
                    def helper(*args): return saved(*args)
                    def wrapper(original, *args, **kwargs): return ("plug", {call}, original(*args, **kwargs))
                """
            }
        )
        import plug

        held = lib.area
        with patched(pc.Wrap("lib:area", "plug:wrapper")) as patcher:
            assert held(1) == ("plug", 2, 2)
            assert patcher.report()["p"].changes[0].kept == ("plug:saved",)
        assert plug.saved is lib.area is held

    @pytest.mark.parametrize("form", ["staticmethod(lib.area)", "lib.area"])
    def test_an_attribute_of_a_class_of_the_wrapper(self, lib: Any, make_package: Any, form: str) -> None:
        source = f"""
            import lib
            class Saved: area = "lib.area"; original = {form}
            def wrapper(original, *args, **kwargs): return ("plug", Saved.original(*args), original(*args, **kwargs))
        """
        make_package({"plug": source})
        import plug

        raw = vars(plug.Saved)["original"]
        with patched(pc.Wrap("lib:area", "plug:wrapper")) as patcher:
            assert lib.area(1) == ("plug", 2, 2)
            assert patcher.report()["p"].changes[0].kept == ("plug:Saved.original",)
        assert vars(plug.Saved)["original"] is raw
        assert lib.area(1) == 2

    def test_of_two_patches_that_read_one_name_either_may_go_first(self, lib: Any, make_package: Any) -> None:
        source = """
            from lib import area as saved
            def one(original, *args, **kwargs): return ("one", saved(*args), original(*args, **kwargs))
            def two(original, *args, **kwargs): return ("two", saved(*args), original(*args, **kwargs))
        """
        make_package({"plug": source})
        import plug

        one = pc.Patcher([pc.Patch("one", [pc.Wrap("lib:area", "plug:one")])], strict=True)
        two = pc.Patcher([pc.Patch("two", [pc.Wrap("lib:area", "plug:two")], after=["one"])], strict=True)
        for first, second, left in ((one, two, ("two", 2, 2)), (two, one, ("one", 2, 2))):
            one.apply()
            two.apply()
            assert lib.area(1) == ("two", 2, ("one", 2, 2))
            first.revert()
            assert lib.area(1) == left
            second.revert()
            assert plug.saved is lib.area
            assert lib.area(1) == 2

    @pytest.mark.parametrize("change", [doubling, instead, everywhere])
    def test_a_name_that_the_patch_lists(self, lib: Any, make_package: Any, change: Callable[[], Any]) -> None:
        make_package({"plug": "from lib import area as saved, area as other\nclass Holder: kept = saved"})
        import plug

        held = lib.area
        keep = ["plug:saved", "plug:Holder.kept"]
        with pc.Patcher([pc.Patch("p", change(), keep=keep)], strict=True) as patcher:
            assert plug.saved(1) == plug.Holder.kept(1) == 2
            assert plug.other(1) == held(1) == ("new", 1)
            assert set(patcher.report()["p"].changes[0].kept) == set(keep)
        assert plug.saved is plug.Holder.kept is held
        assert held(1) == 2

    def test_what_is_kept_by_one_patch_leaves_another_in_force(self, lib: Any, make_package: Any) -> None:
        make_package({"plug": "from lib import area as one, area as two"})
        import plug

        first = pc.Patcher([pc.Patch("first", doubling(), keep=["plug:one", "plug:two"])], strict=True)
        second = pc.Patcher([pc.Patch("second", doubling(), after="*", keep="plug:one")], strict=True)
        for patcher in (first, second):
            patcher.apply()
        first.revert()
        assert lib.area(1) == plug.two(1) == ("new", 1)
        assert plug.one(1) == 2
        second.revert()
        assert plug.one is plug.two is lib.area
        assert lib.area(1) == 2

    @pytest.mark.parametrize(
        ("wrapper", "where"),
        [
            ("free", "a free variable of make.<locals>.wrapper"),
            ("default", "a default argument of wrapper"),
            ("item", "what plug:SAVED holds"),
            ("attribute", "what plug:saved holds"),
        ],
    )
    def test_what_has_no_name_has_the_patch_go_by_names(
        self, lib: Any, make_package: Any, wrapper: str, where: str
    ) -> None:
        make_package(
            {
                "plug": """
                    from lib import area
                    def make(saved):
                        def wrapper(original, *args, **kwargs): return ("plug", saved(*args))
                        return wrapper
                    free = make(area)
                    def wrapper(original, *args, saved=area, **kwargs): return ("plug", saved(*args))
                    default = wrapper
                    SAVED = {"area": area}
                    def item(original, *args, **kwargs): return ("plug", SAVED["area"](*args))
                    class State: ...
                    saved = State()
                    saved.area = area
                    def attribute(original, *args, **kwargs): return ("plug", saved.area(*args))
                    del area
                """
            }
        )
        import lib_user

        held = [lib.area]
        with patched(pc.Wrap("lib:area", f"plug:{wrapper}")) as patcher:
            assert lib.area(1) == lib_user.area(1) == ("plug", 2)
            assert held[0](1) == 2
            assert patcher.report()["p"].changes[0].reason == f"by name: the original is kept as {where}"
        assert lib.area is lib_user.area is held[0]

    def test_a_predicate(self, lib: Any, make_package: Any) -> None:
        make_package({"plug": "from lib import area\ndef when(x): return area(x) > 2\ndef new(x): return ('new', x)"})
        change = pc.Replace("lib:area", "plug:new", when_call=__import__("plug").when)
        with patched(change):
            assert (lib.area(1), lib.area(2)) == (2, ("new", 2))


class TestEverywhere:
    def test_counters_and_defaults(self, lib: Any) -> None:
        with patched(pc.Replace("lib:area", lambda x, y=5, *, scale=1: (x, y), everywhere=True)):
            assert lib.area(1) == (1, 5)
        with patched(pc.Replace("lib:Shape.named", lambda cls, name: (cls, name), everywhere=True)):
            assert lib.Square.named("a") == (lib.Square, "a")
        with patched(pc.Replace("lib:Shape.unit", staticmethod(lambda: 2), everywhere=True)):
            assert lib.Shape().unit() == 2

    @pytest.mark.parametrize(
        ("target", "replacement", "message"),
        [
            ("lib:Shape", lambda: None, r"cannot write the body of lib:Shape: it is no Python function, but lib:Shape"),
            ("lib:Square.grow", lambda self, by: 0, r"it is no Python function, but a deletion"),
            ("lib_user:area", lambda x: 0, r"that is a name of lib:area; target that"),
            ("lib:area", "plug:new", r"the replacement keeps the original as plug:saved.*write Wrap\('lib:area'"),
            ("lib:area", int, r"everywhere=True needs a function, found <class 'int'>"),
        ],
    )
    def test_what_cannot_be_everywhere_is_refused(
        self, lib: Any, make_package: Any, target: str, replacement: Any, message: str
    ) -> None:
        import lib_user

        make_package({"plug": "from lib import area as saved\ndef new(x, y=2, *, scale=1): return saved(x)"})
        with pytest.raises(pc.PatchError, match=message):
            patched(pc.Replace(target, replacement, everywhere=True)).apply()
        assert lib_user.area is lib.area
        assert lib.area(1) == 2

    def test_there_is_an_original(self) -> None:
        with pytest.raises(pc.DeclarationError, match="everywhere= needs an original"):
            pc.Replace("lib:area", len, everywhere=True, create=True)


def test_a_factory_that_returns_no_function_is_put_in_the_place(lib: Any) -> None:
    held = lib.area
    with patched(pc.Replace("lib:area", factory=functools.lru_cache)):
        assert lib.area.cache_info().hits == 0
        assert lib.area.__wrapped__ is held
    assert lib.area is held


def test_layers_are_taken_out_in_any_order(lib: Any) -> None:
    held = lib.area

    def make(name: str) -> pc.Patcher:
        wrapper = lambda original, *args, **kwargs: (name, original(*args, **kwargs))  # noqa: E731
        patch = pc.Patch(name, [pc.Wrap("lib:area", wrapper)], after=["a", "b", "c"][: "abc".index(name)])
        return pc.Patcher([patch], strict=True)

    a, b, c = map(make, "abc")
    for patcher in (a, b, c):
        patcher.apply()
    assert held(1) == ("c", ("b", ("a", 2)))
    b.revert()
    assert held(1) == ("c", ("a", 2))
    a.revert()
    assert held(1) == ("c", 2)
    c.revert()
    assert held(1) == 2
    assert lib.area is held


def test_a_function_that_is_replaced_while_its_body_is_patched(lib: Any) -> None:
    import lib_user

    held = lib.area
    outer = pc.Patch("outer", [pc.Replace("lib:area", lambda x, y=2, *, scale=1: "outer")], after=["p"])
    with patched(pc.Wrap("lib:area", doubled)):
        with pc.Patcher([outer], strict=True):
            assert lib.area(1) == lib_user.area(1) == "outer"
            assert held(1) == ("new", 2)
            assert pc.original("lib:area")(1) == 2
        assert lib.area is lib_user.area is held
    assert held(1) == 2


def test_what_a_program_sets_while_it_is_patched_stays(lib: Any) -> None:
    patcher = patched(pc.Wrap("lib:area", doubled))
    patcher.apply()
    lib.area.calls = 3
    lib.area.__defaults__ = (7,)
    patcher.revert()
    assert lib.area.calls == 3
    assert lib.area(1) == 7


def test_a_body_that_somebody_else_writes_on_top_goes_with_the_patch_and_is_named(
    lib: Any, caplog: pytest.LogCaptureFixture
) -> None:
    patcher = patched(pc.Wrap("lib:area", doubled))
    patcher.apply()
    code = (lambda *args, **kwargs: "theirs").__code__
    lib.area.__code__ = code
    assert lib.area(1) == "theirs"
    patcher.revert()
    assert "lib:area: other code had put lib:area on top of the patch; both are removed" in caplog.text
    assert lib.area(1) == 2


def test_threads_get_the_old_function_or_the_new_one(lib: Any) -> None:
    area, stop, wrong = lib.area, threading.Event(), []

    def call() -> None:
        while not stop.is_set():
            try:
                got = area(2)
            except Exception as error:
                wrong.append(error)
                return
            if got not in (4, ("new", 4), ("own", 8)):
                wrong.append(got)

    own = pc.Wrap("lib:area", lambda original, x, y=4, *, scale=1: ("own", original(x, y, scale=scale)))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=call) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for change in (pc.Wrap("lib:area", doubled), own) * 100:
            with patched(change):
                pass
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert not wrong


def test_a_call_that_is_handed_over_is_so_before_the_patch_and_once(lib: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tensor:
        def take(self, function: Any, *args: Any, **kwargs: Any) -> Any:
            return ("taken", function(*(1 if arg is self else arg for arg in args), **kwargs))

    def hands_over(*args: Any, **kwargs: Any) -> bool:
        return any(isinstance(arg, Tensor) for arg in args)

    def hand_over(function: Any, *args: Any, **kwargs: Any) -> Any:
        return next(arg for arg in args if isinstance(arg, Tensor)).take(function, *args, **kwargs)

    handover = lambda original: (hands_over, hand_over) if original.__name__ in ("area", "hex") else None  # noqa: E731
    monkeypatch.setattr(Plugins, "functions", lambda self, hook: [handover] if hook == "register_handovers" else [])
    lib.hex = hex
    with patched(pc.Wrap("lib:area", doubled), pc.Wrap("lib:hex", doubled)):
        assert lib.area(Tensor()) == ("taken", ("new", 2))
        assert lib.area(1) == ("new", 2)
        assert lib.hex(Tensor()) == ("taken", ("new", "0x1"))


class TestEdits:
    """``%autoreload`` of IPython writes the code of functions whose source was edited."""

    EDITED = "def area(x, y=2, *, scale=1): return x + y + scale"
    PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__doc__", "__dict__")

    def write(self, old: Any, new: Any) -> None:
        for part in self.PARTS:
            setattr(old, part, getattr(new, part))

    @pytest.mark.parametrize("told", [True, False])
    def test_an_edited_function_is_the_new_original(self, lib: Any, told: bool) -> None:
        held = lib.area
        patcher = pc.Patcher([pc.Patch("p", pc.Wrap("lib:area", doubled))], strict=True)
        patcher.apply()
        space: dict[str, Any] = {"__name__": "lib"}
        exec(self.EDITED, space)
        self.write(lib.area, space["area"])
        assert lib.area(1) == 4
        if told:
            (remark,) = patcher.report()["p"].remarks
            assert remark == "lib:area was edited: the patch is not called until it is reverted and applied again"
        assert patcher.revert().notes == ("lib:area was edited while it was patched: the new code stays",)
        assert lib.area is held
        assert lib.area(1) == 4
        with patcher:
            assert lib.area(1) == ("new", 4)
            assert not patcher.report()["p"].remarks
        assert (lib.area(1), lib.area(1, 1, scale=2)) == (4, 4)
        assert lib.area.__kwdefaults__ == {"scale": 1}
        assert not hasattr(lib.area, "__wrapped__")

    @pytest.mark.parametrize("told", [True, False])
    def test_a_function_that_gets_the_body_of_a_reloaded_one_is_patched_and_follows_it(
        self, lib: Any, tmp_path: Any, told: bool
    ) -> None:
        held = lib.area
        patcher = pc.Patcher([pc.Patch("p", pc.Wrap("lib:area", doubled))], strict=True)
        patcher.apply()
        source = Path(lib.__file__)
        source.write_text(self.EDITED)
        os.utime(source, (1e9, 1e9))
        importlib.reload(lib)
        self.write(held, lib.area)
        assert held(1) == lib.area(1) == ("new", 4)
        assert not told or not patcher.report()["p"].remarks
        patcher.revert()
        assert held(1) == lib.area(1) == 4

    def test_code_of_others_that_calls_the_patch_is_removed_with_it(self, lib: Any) -> None:
        patcher = pc.Patcher([pc.Patch("p", pc.Wrap("lib:area", doubled))], strict=True)
        patcher.apply()
        code = lib.area.__code__
        lib.area.__code__ = code.replace(co_consts=(*code.co_consts, "theirs"))
        (remark,) = patcher.report()["p"].remarks
        assert remark == "lib:area holds lib:area now, which other code has put there"
        (note,) = patcher.revert().notes
        assert "both are removed" in note
        assert lib.area(1) == 2


def at_each_line(function: Callable[..., Any], between: Callable[[], Any], call: Callable[[], Any]) -> None:
    """Run ``call``, and ``between`` before each line of ``function``, where another thread could come in."""

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code is not function.__code__:
            return None
        if event == "line":
            sys.settrace(None)
            between()
            sys.settrace(trace)
        return trace

    found = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(found)


def body_and_values() -> tuple[Body, list[Any]]:
    def target() -> str:
        return "original"

    body = Body(target)
    values = [body.original]
    for text in ("first", "second"):
        value = copy_of(target)
        value.__code__ = target.__code__.replace(co_consts=(None, text), co_name=text)
        values.append(value)
    return body, values


def test_a_body_that_is_read_at_any_point_of_a_write_is_one_of_the_two() -> None:
    body, values = body_and_values()
    for before, after in [*zip(values, values[1:]), *zip(values[::-1], values[-2::-1])]:
        body.write(before, in_class=False)
        seen: list[Any] = []
        write = functools.partial(body.write, after, in_class=False)
        at_each_line(Body.write, lambda seen=seen: seen.append(body.read()), write)
        assert {id(value) for value in seen} == {id(before), id(after)}
        assert body.read() is after
        assert body.original is values[0]


def test_a_write_at_any_point_of_a_read_is_what_is_read_next() -> None:
    body, values = body_and_values()
    turn = 0

    def write() -> None:
        nonlocal turn
        turn += 1
        for value in (values[turn % 3], values[(turn + 1) % 3]):
            body.write(value, in_class=False)

    for _ in range(9):
        got: list[Any] = []
        at_each_line(Body.read, write, lambda got=got: got.append(body.read()))
        assert got[0] in values
        assert body.read() is values[(turn + 1) % 3]
        assert body.original is values[0]
