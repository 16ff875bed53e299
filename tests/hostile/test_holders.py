"""Every kind of object that holds a function or class by value follows a patch, or is reported with where it is."""

from __future__ import annotations

import gc
import importlib
import re
import sys
import textwrap
import weakref
from collections.abc import Iterator
from types import CoroutineType
from typing import Any

import pytest

import patchcore as pc

pytestmark = pytest.mark.usefixtures("registries")

LIBRARY = """
    def f(x=None): return "original"
    class Net:
        def forward(self): return "original"
        @classmethod
        def make(cls): return super().__init__
    class Meta(type): ...
    """


def new(x: Any = None) -> str:
    return "new"


class NewNet:
    pass


class NewMeta(type):
    pass


def table(outcome: str, text: str, wrapped: str = "follows") -> list[Any]:
    """Read a table of holders, which blank lines separate.

    ``outcome`` is that of a plain replacement, ``wrapped`` of a ``Wrap``.

    An entry is the kind, a row of docs/semantics.md; lines with ``=``; and the source of a module, without its imports.
    Of holders that are rebound, the line with ``=`` is an expression whose value is the replacement. Of those that are
    reported, these lines are exactly the places of the report, without the lines of the source.
    """
    entries = []
    for entry in textwrap.dedent(text).strip().split("\n\n"):
        kind, *lines = entry.split("\n")
        expected = tuple(DIFFERENT.get(line[2:], line[2:]) for line in lines if line.startswith("= "))
        source = "\n".join(line for line in lines if not line.startswith("= "))
        used = ["lib", *(name for name in IMPORTED if f"{name}." in entry)]
        mark = pytest.mark.holder(kind, wrapped, outcome)
        entries.append(pytest.param(f"import {', '.join(used)}\n{source}", expected, marks=mark, id=kind))
    return entries


IMPORTED = """
    abc atexit builtins codecs collections concurrent.futures contextvars copyreg dataclasses enum functools itertools
    json queue signal sys threading types typing unittest.mock weakref
    """.split()  # noqa: SIM905
HELD_BY_C = "reference held by C code or by a running call"
#: Places that differ between Pythons.
DIFFERENT = {
    "MADE_INIT": "closure demo:C.__init__"
    if sys.version_info >= (3, 10)
    else "closure demo:__create_fn__.<locals>.__init__, at demo:C.__init__",
    "HELD_BY_C": HELD_BY_C,
    "AT_EXIT": "module demo:atexit" if sys.version_info < (3, 10) else HELD_BY_C,
    "CALLBACK": f"{type(weakref.ref(pc)).__name__} demo:R.__callback__",
}

REBOUND = table(
    "rebound",
    """
    a name of a module, `from lib import f`
    = f
    from lib import f

    a name under another name, `from lib import f as g`
    = g
    from lib import f as g

    a name by `from lib import *`
    = f
    from lib import *

    a name of a module that is no identifier
    = globals()['a b']
    globals()['a b'] = lib.f

    a name of another library's module
    = sys.modules['json'].pc_test
    json.pc_test = lib.f

    a name in `builtins`
    = pc_test
    builtins.pc_test = lib.f

    a hook of `sys`, `sys.excepthook`
    = sys.excepthook
    sys.excepthook = lib.f

    a class attribute
    = C.__dict__['op']
    from lib import f
    class C:
        op = f

    a `staticmethod` in a class
    = C.op
    from lib import f
    class C:
        op = staticmethod(f)

    an attribute of a class in a class
    = C.D.op
    from lib import f
    class C:
        class D:
            op = staticmethod(f)

    an attribute of a metaclass
    = M.__dict__['op']
    from lib import f
    class M(type):
        op = f

    an entry of an OpenMMLab registry
    = R._module_dict['f']
    class Registry: ...
    R = Registry()
    R._module_dict = {'f': lib.f}

    a module that `sys.modules` has under an odd name
    = sys.modules['a b'].g
    sys.modules["a b"] = types.ModuleType("a b")
    sys.modules["a b"].g = lib.f
    """,
)

REPORTED = table(
    "reported",
    """
    an attribute of an object, `self.act = F.relu`
    = instance attribute demo:NET.act
    class C:
        def __init__(self): self.act = lib.f
    NET = C()

    an attribute of an object with `__slots__`
    = instance attribute demo:NET.act
    class C:
        __slots__ = ("act",)
        def __init__(self): self.act = lib.f
    NET = C()

    an attribute of an object in an object in a dict
    = instance attribute demo:NET.parts['a'].act
    class C: ...
    NET, part = C(), C()
    NET.parts = {"a": part}
    part.act = lib.f
    del part

    an attribute of a `SimpleNamespace`
    = SimpleNamespace demo:NS.act
    NS = types.SimpleNamespace(act=lib.f)

    a list
    = list demo:L[1]
    L = [1, lib.f]

    a tuple
    = tuple demo:T[0]
    T = (lib.f,)

    a set
    = set demo:S
    S = {lib.f}

    a frozenset
    = frozenset demo:S
    S = frozenset([lib.f])

    a value of a dict
    = dict demo:D['a']
    D = {'a': lib.f}

    a key of a dict
    = dict key demo:D
    D = {lib.f: 1}

    a tuple in a dict
    = tuple demo:D['a'][0]
    D = {'a': (lib.f, 1)}

    lists in lists
    = list demo:L[0][0][1]
    L = [[[0, lib.f]]]

    a dict in a list in a class attribute
    = dict demo:C.TABLE[0]['a']
    class C:
        TABLE = [{'a': lib.f}]

    a `deque`
    = deque demo:D[0]
    D = collections.deque([lib.f])

    an `OrderedDict`
    = OrderedDict demo:D['a']
    D = collections.OrderedDict(a=lib.f)

    a `defaultdict`
    = defaultdict demo:D['a']
    D = collections.defaultdict(int, a=lib.f)

    the factory of a `defaultdict`
    = defaultdict demo:D.default_factory
    D = collections.defaultdict(lib.f)

    a `ChainMap`
    = dict demo:D.maps[0]['a']
    D = collections.ChainMap({'a': lib.f})

    a `MappingProxyType`
    = dict demo:D['a']
    D = types.MappingProxyType({'a': lib.f})

    a view of a dict
    = dict demo:D['a']
    D = {'a': lib.f}.values()

    a namedtuple
    = demo.N demo:T[0]
    N = collections.namedtuple('N', 'act')
    T = N(lib.f)

    a subclass of list with attributes
    = instance attribute demo:L.act
    class C(list): ...
    L = C()
    L.act = lib.f

    a field of a dataclass's instance
    = instance attribute demo:D.act
    @dataclasses.dataclass
    class C:
        act: object
    D = C(lib.f)

    the `default_factory` of a dataclass's field
    = MADE_INIT
    = instance attribute demo:C.__dataclass_fields__['act'].default_factory
    @dataclasses.dataclass
    class C:
        act: object = dataclasses.field(default_factory=lib.f)

    a `partial`
    = partial demo:P.func
    P = functools.partial(lib.f, 1)

    an argument of a `partial`
    = tuple demo:P.args[0]
    P = functools.partial(map, lib.f)

    a keyword of a `partial`
    = dict demo:P.keywords['key']
    P = functools.partial(sorted, key=lib.f)

    a `partialmethod`
    = partialmethod demo:C.m.func
    class C:
        m = functools.partialmethod(lib.f)

    a property, `property(f)`
    = property demo:C.p.fget
    class C:
        p = property(lib.f)

    a `classmethod(f)`
    = classmethod demo:C.c.__func__
    class C:
        c = classmethod(lib.f)

    a `cached_property(f)`
    = cached_property demo:C.c.func
    class C:
        c = functools.cached_property(lib.f)

    a `staticmethod` in a list
    = staticmethod demo:L[0].__func__
    L = [staticmethod(lib.f)]

    an `lru_cache(f)`
    = _lru_cache_wrapper demo:g.__wrapped__
    g = functools.lru_cache()(lib.f)

    what an `lru_cache` returned
    = dict demo:get[()]
    @functools.lru_cache(None)
    def get(): return lib.f
    get()

    the registry of a `singledispatch`
    = dict demo:show.registry[int]
    @functools.singledispatch
    def show(x): ...
    show.register(int, lib.f)

    a `singledispatchmethod`
    = dict demo:C.show.registry[int], at demo:C.show.dispatcher
    class C:
        @functools.singledispatchmethod
        def show(self, x): ...
        show.register(int, lib.f)

    an attribute of a function
    = function attribute demo:g.op
    def g(): ...
    g.op = lib.f

    `__wrapped__` of a decorated function
    = function attribute demo:g.__wrapped__
    @functools.wraps(lib.f)
    def _g(): ...
    _g.__name__ = _g.__qualname__ = 'g'
    _g.__module__ = 'demo'
    g = _g
    del _g

    a default argument
    = default argument demo:g
    def g(op=lib.f): ...

    a keyword-only default argument
    = default argument demo:g
    def g(*, op=lib.f): ...

    a default argument of a method
    = default argument demo:C.m
    class C:
        def m(self, op=lib.f): ...

    a list in a default argument
    = list demo:g, default op[0]
    def g(op=[lib.f]): ...

    a default argument of a nested function
    = default argument demo:o.<locals>.g, at demo:G[0]
    def o():
        def g(op=lib.f): ...
        return g
    G = [o()]

    a closure
    = closure demo:o.<locals>.g, at demo:g
    def o(op):
        def g(): return op
        return g
    g = o(lib.f)

    a list in a closure
    = list demo:o.<locals>.g, closure op[0], at demo:g
    def o(op):
        def g(): return op
        return g
    g = o([lib.f])

    a closure in a closure
    = closure demo:o.<locals>.g.<locals>.h, at demo:g
    def o(op):
        def g():
            def h(): return op
            return h
        return g()
    g = o(lib.f)

    a closure of a function that is an object's attribute
    = closure demo:o.<locals>.g, at demo:NET.g
    def o(op):
        def g(): return op
        return g
    class C: ...
    NET = C()
    NET.g = o(lib.f)

    a lambda's default argument in a list
    = default argument demo:<lambda>, at demo:L[0]
    L = [lambda op=lib.f: op()]

    a generator
    = generator demo:G
    def g(op):
        yield op
    G = g(lib.f)
    next(G)

    a coroutine
    = coroutine demo:G
    async def g(op):
        return op
    G = g(lib.f)

    a thread's target
    = instance attribute demo:T._target
    T = threading.Thread(target=lib.f)

    a thread local
    = thread-local attribute demo:LOCAL.act
    LOCAL = threading.local()
    LOCAL.act = lib.f

    a context variable
    = context variable act
    VAR = contextvars.ContextVar('act')
    VAR.set(lib.f)

    a queue
    = deque demo:Q.queue[0]
    Q = queue.Queue()
    Q.put(lib.f)

    a callback of a future
    = list demo:FUTURE._done_callbacks[0]
    FUTURE = concurrent.futures.Future()
    FUTURE.add_done_callback(lib.f)

    an iterator, `map(f, ...)`
    = map demo:M
    M = map(lib.f, [])

    an iterator of itertools
    = filterfalse demo:M
    M = itertools.filterfalse(lib.f, [])

    an iterator over a list
    = list demo:I[0]
    I = iter([lib.f])

    a weak reference
    = weak reference demo:R
    R = weakref.ref(lib.f)

    a `WeakValueDictionary`
    = weak reference demo:D.data['a']
    D = weakref.WeakValueDictionary(a=lib.f)

    a `WeakSet`
    = weak reference demo:S.data
    S = weakref.WeakSet([lib.f])

    a `WeakKeyDictionary`
    = weak reference demo:D.data, a key
    D = weakref.WeakKeyDictionary({lib.f: 1})

    a callback of a weak reference
    = CALLBACK
    class C: ...
    OBJ = C()
    R = weakref.ref(OBJ, lib.f)

    a value of an enum's member
    = tuple demo:E._value2member_map_, a key[0]
    class E(enum.Enum):
        A = (lib.f, 1)

    a `Mock`
    = instance attribute demo:M._mock_side_effect
    M = unittest.mock.Mock(side_effect=lib.f)

    a table of `copyreg`
    = dict copyreg:dispatch_table[demo:C]
    class C: ...
    copyreg.pickle(C, lib.f)

    a function for `atexit`
    = AT_EXIT
    atexit.register(lib.f)

    a signal handler
    = signal handler SIGUSR1
    BEFORE = signal.signal(signal.SIGUSR1, lib.f)

    an error handler of codecs
    = dict <dict>['pc-test'], held by C code or by a running call
    codecs.register_error('pc-test', lib.f)

    a name of a module under a key that is no text
    = name demo:[42]
    globals()[42] = lib.f

    a module that `sys.modules` has under a key that is no text
    = module attribute sys:modules[42].g
    sys.modules[42] = types.ModuleType('m')
    sys.modules[42].g = lib.f

    a module that is not in `sys.modules`
    = module attribute demo:M.g
    M = types.ModuleType('m')
    M.g = lib.f

    the globals of a function that `exec` made
    = global scope:run, global 'g', at demo:run
    scope = {'__name__': 'scope', 'g': lib.f}
    exec('def run(): return g()', scope)
    run = scope['run']
    del scope

    a dict whose values Python cannot compare
    = dict demo:D['a']
    class Odd:
        def __eq__(self, other): raise TypeError
        __hash__ = None
    D = {'a': lib.f, 'b': Odd()}

    an attribute of a class that no name leads to
    = class attribute demo:o.<locals>.C.op, at demo:L[0]
    def o():
        class C:
            op = lib.f
        return C
    L = [o()]
    """,
)

OF_METHODS = table(
    "reported",
    """
    a bound method in a name
    = method demo:m.__func__
    m = lib.Net().forward

    a bound method in an object
    = method demo:NET.m.__func__
    class C: ...
    NET = C()
    NET.m = lib.Net().forward

    a bound method in a dict
    = method demo:D['m'].__func__
    D = {'m': lib.Net().forward}

    a `WeakMethod`
    = weak reference demo:R._func_ref
    NET = lib.Net()
    R = weakref.WeakMethod(NET.forward)
    """,
)

OF_CLASSES = table(
    "reported",
    """
    an instance of a replaced class
    = instance demo:NET
    NET = lib.Net()

    an instance in a list
    = instance demo:L[0]
    L = [lib.Net()]

    a subclass of a replaced class
    = subclass demo:Sub
    class Sub(lib.Net): ...

    a bound class method
    = method demo:make.__self__
    make = lib.Net.make

    a class registered with an abstract base class
    = weak reference demo:A, registered
    class A(abc.ABC): ...
    A.register(lib.Net)

    an annotation
    = annotation demo:g
    def g(x: lib.Net): ...

    a type, `Optional[Net]`
    = tuple demo:T.__args__[0]
    T = typing.Optional[lib.Net]

    a tuple of classes for `isinstance` and `except`
    = tuple demo:KINDS[0]
    KINDS = (lib.Net, int)

    a class as key of a dict
    = dict key demo:D
    D = {lib.Net: 1}
    """,
    "refused",
)

OF_METACLASSES = table(
    "reported",
    """
    a class of a replaced metaclass
    = class demo:C
    class C(metaclass=lib.Meta): ...
    """,
    "refused",
)


@pytest.fixture
def demo(make_package: Any) -> Iterator[Any]:
    """Return a function that makes a module from a source, next to a library that it uses."""
    before = dict(sys.modules), sys.excepthook

    def make(source: str) -> Any:
        make_package({"lib": LIBRARY, "demo": source})
        return importlib.import_module("demo")

    yield make
    sys.excepthook = before[1]
    for name in [name for name in sys.modules if name not in before[0]]:
        if not str(name).startswith("patchcore"):  # its packages hold their modules
            del sys.modules[name]
    vars(sys.modules.get("json", sys)).pop("pc_test", None)
    vars(sys.modules["builtins"]).pop("pc_test", None)


def places(patcher: pc.Patcher) -> list[str]:
    """Return the places that the patcher reports, without the lines of the source."""
    (change,) = patcher.report(unreachable=True)["p"].changes
    shown = [re.sub(r" \([^()]*:\d+\)", "", place) for place in change.unreachable]
    # several modules have a name for these; the first in the alphabet is given
    shown = [re.sub(r"^module [\w.]+:atexit", "module demo:atexit", place) for place in shown]
    return [re.sub(r"\b(copy|pickle):dispatch_table", "copyreg:dispatch_table", place) for place in shown]


def close_coroutines(module: Any) -> None:
    """Close the coroutines of a module: Python would warn of them in whatever test collects them."""
    for held in vars(module).values():
        if type(held) is CoroutineType:
            held.close()


def patched(target: str, value: Any) -> pc.Patcher:
    return pc.Patcher([pc.Patch("p", [pc.Replace(target, value)])], strict=True)


@pytest.mark.parametrize(("source", "expected"), REBOUND)
def test_a_holder_follows_and_goes_back(demo: Any, source: str, expected: tuple[str]) -> None:
    space = vars(demo(source))
    (expression,) = expected
    original = id(eval(expression, space))
    with patched("lib:f", new) as patcher:
        assert eval(expression, space) is new
        assert places(patcher) == []
    assert id(eval(expression, space)) == original


@pytest.mark.parametrize(
    ("target", "value", "source", "expected"),
    [
        pytest.param(target, value, *entry.values, marks=entry.marks, id=entry.id)
        for target, value, entries in (
            ("lib:f", new, REPORTED),
            ("lib:Net.forward", lambda self: "new", OF_METHODS),
            ("lib:Net", NewNet, OF_CLASSES),
            ("lib:Meta", NewMeta, OF_METACLASSES),
        )
        for entry in entries
    ],
)
def test_a_holder_is_reported_and_nothing_else(
    demo: Any, target: str, value: Any, source: str, expected: tuple[str, ...]
) -> None:
    module = demo(source)
    with patched(target, value) as patcher:
        assert places(patcher) == list(expected)
    close_coroutines(module)


@pytest.mark.parametrize(
    ("target", "source"),
    [
        pytest.param(target, entry.values[0], id=entry.id)
        for target, entries in (("lib:f", [*REBOUND, *REPORTED]), ("lib:Net.forward", OF_METHODS))
        for entry in entries
    ],
)
def test_every_holder_of_a_function_has_it_still_while_its_body_is_patched(demo: Any, target: str, source: str) -> None:
    module = demo(source)
    lib = sys.modules["lib"]
    held = lib.f if target == "lib:f" else lib.Net.forward
    call = held if target == "lib:f" else lib.Net().forward
    with pc.Patcher(
        [pc.Patch("p", [pc.Wrap(target, lambda original, *args, **kwargs: "new")])], strict=True
    ) as patcher:
        assert places(patcher) == []
        assert (lib.f if target == "lib:f" else lib.Net.forward) is held
        assert call() == "new"
    assert call() == "original"
    close_coroutines(module)


# --- whose code is not called ----------------------------------------------------------------------------------------

HOSTILE = """
    import lib, sys, types, weakref
    touched = []

    def touch(self, *args, **kwargs):
        touched.append(sys._getframe(1).f_code.co_name)
        raise SystemExit("hostile code was called")

    NAMES = (
        "__getattr__ __getattribute__ __eq__ __ne__ __hash__ __len__ __bool__ __iter__ __contains__ __repr__ __str__ "
        "__format__ __getitem__ __call__ __instancecheck__ __subclasscheck__ __get__ __dir__ __lt__ __index__ keys "
        "values items get __reversed__ __length_hint__ __fspath__ __enter__"
    ).split()
    trap = {name: touch for name in NAMES}
    for name in "__class__ __dict__ __module__ __name__ __wrapped__ __func__ __file__ fget func".split():
        trap[name] = property(touch)

    unsafe = {"__class__", "__dict__", "__call__", "__get__"}
    Meta = type("Meta", (type,), {k: v for k, v in trap.items() if k not in unsafe})
    safe = {k: v for k, v in trap.items() if k != "__dict__"}
    Plain = type.__call__(type, "Plain", (), dict(trap))
    Slotted = type("Slotted", (), {**safe, "__slots__": ("act",)})
    Hashed = type("Hashed", (), {k: v for k, v in trap.items() if k not in ("__hash__",)})
    bases = (dict, list, tuple, set, types.ModuleType, weakref.ref, staticmethod, property)
    kinds = [type(f"Hostile{base.__name__}", (base,), dict(safe)) for base in bases]
    WithMeta = type.__call__(Meta, "WithMeta", (), {"op": lib.f, **safe})

    PLAIN, SLOTTED = object.__new__(Plain), object.__new__(Slotted)
    Slotted.__dict__["act"].__set__(SLOTTED, lib.f)
    TABLE = {"key": lib.f, 1: PLAIN, "in": [SLOTTED]}
    D = dict.__new__(kinds[0]); dict.__setitem__(D, "a", lib.f)
    L = list.__new__(kinds[1]); list.append(L, lib.f)
    T = tuple.__new__(kinds[2], (lib.f,))
    MODULE = types.ModuleType.__new__(kinds[4])
    sys.modules["hostile_module"] = PLAIN
    sys.modules["hostile_slotted"] = SLOTTED
    class S(staticmethod):
        __func__ = __isabstractmethod__ = property(touch)
    S = S(lib.f)
    P = property.__new__(kinds[7]); property.__init__(P, lib.f)

    class Registry: ...
    R = Registry()
    R._module_dict = D
    class Text(str):
        __hash__ = str.__hash__
        __eq__ = __repr__ = __str__ = __format__ = touch
    class Key:
        ready = False
        def __hash__(self):
            return touch(self) if Key.ready else 7
        __eq__ = __repr__ = __str__ = __format__ = touch
    KEYS = Key(), Key
    sys.modules[KEYS[0]] = PLAIN
    sys.modules[Text("hostile text")] = PLAIN
    sys.modules[3.5] = types.SimpleNamespace(g=lib.f)
    globals()[KEYS[0]] = lib.f
    globals()[Text("a text")] = lib.f
    D2 = {KEYS[0]: lib.f, Text("t"): lib.f}
    Key.ready = True
    """


def test_no_code_of_holders_is_called(make_package: Any, run_python: Any) -> None:
    tables = "import patchcore as pc\n@pc.hookimpl\ndef registry_tables(): return ['_module_dict']\n"
    make_package({"lib": LIBRARY, "demo": HOSTILE, "tables": tables})
    lines = run_python(
        """
        import demo, lib, sys
        import patchcore as pc
        patch = pc.Patch("p", [pc.Replace("lib:f", lambda x=None: "new")])
        settings = pc.Settings(plugins=())
        patcher = pc.Patcher.discover(patches=[patch], modules=["tables"], settings=settings, strict=True)
        demo.touched.clear()
        patcher.apply()
        (change,) = patcher.report(unreachable=True)["p"].changes
        patcher.revert()
        print(*demo.touched)
        print(*change.unreachable, sep="\\n")
        demo.Key.ready = False
        """
    ).splitlines()
    assert lines[0] == ""
    assert lines[1:] == [
        "?.Hostilelist demo:L[0]",
        "?.Hostiletuple demo:T[0]",
        "SimpleNamespace sys:modules[3.5].g",
        "class attribute <WithMeta>.op, at demo:WithMeta",
        "dict demo:D2[<demo.Key>]",
        "dict demo:D2[<demo.Text>]",
        "dict demo:TABLE['key']",
        "instance attribute demo:P.fget",
        "instance attribute demo:S.__func__",
        "instance attribute demo:SLOTTED.act",
        "name demo:[<demo.Key>]",
        "name demo:[<demo.Text>]",
    ]


@pytest.mark.libraries("torch")
def test_an_activation_in_a_real_module_is_reported(demo: Any) -> None:
    source = """
        import torch.nn.functional as F
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.act = F.relu
        NET = nn.Sequential(nn.Linear(2, 2), Net())
        """
    assert demo(source)
    with patched("torch.nn.functional:relu", lambda input, inplace=False: input) as patcher:
        assert "instance attribute demo:NET._modules['1'].act" in places(patcher)


def test_a_running_function_is_reported_with_its_variable(demo: Any) -> None:
    module = demo("import lib\ndef run(report):\n    act = lib.f\n    return report(), act")
    with patched("lib:f", new) as patcher:
        assert places(patcher) == []
    report: list[str] = []
    other = patched("lib:f", new)

    def apply_and_report() -> None:
        other.apply()
        report.extend(places(other))

    module.run(apply_and_report)
    other.revert()
    assert report == ["local variable demo:run, act"]


def test_garbage_is_not_reported(demo: Any) -> None:
    source = """
        import lib
        def make():
            def inner(op=lib.f): return inner
            loop = [lib.f]
            loop.append(loop)
        make()
        """
    gc.disable()
    try:
        assert demo(source)
        with patched("lib:f", new) as patcher:
            assert places(patcher) == []
    finally:
        gc.enable()


def test_a_holder_that_the_garbage_collector_ignores_is_reported(demo: Any) -> None:
    assert demo("import lib\nclass Holder: ...\nH = Holder()\nH.act = lib.f")
    gc.freeze()
    try:
        with patched("lib:f", new) as patcher:
            assert places(patcher) == ["instance attribute demo:H.act"]
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("frozen", [True, False])
def test_what_a_program_has_frozen_stays_so(demo: Any, frozen: bool) -> None:
    """A program freezes its objects before it forks, so that the children share their pages."""
    assert demo("import lib\nact = lib.f")
    if frozen:
        gc.freeze()
    try:
        with patched("lib:f", new) as patcher:
            patcher.report(unreachable=True)
        assert (gc.get_freeze_count() > 0) == frozen
    finally:
        gc.unfreeze()


def test_many_holders_of_a_kind_are_counted(demo: Any) -> None:
    assert demo("import lib\nNETS = [lib.Net() for _ in range(1000)]")
    with patched("lib:Net", NewNet) as patcher:
        found = places(patcher)
    assert len(found) == 26
    assert "975 more of type lib.Net" in found


def test_a_class_written_in_c_is_found_where_the_garbage_collector_does_not_look(demo: Any) -> None:
    assert demo("import datetime\nT = {'when': (datetime.datetime,)}")
    with patched("datetime:datetime", NewNet) as patcher:
        assert "tuple demo:T['when'][0]" in places(patcher)
