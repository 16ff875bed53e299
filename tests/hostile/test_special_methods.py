"""Special methods: a class behaves like one that nobody patched, while a wrapper passes calls on and after the revert.

CPython computes a table of C functions for each class, and takes some of them back only in part. Each test here makes a
module twice, patches a class of one of the two, and compares what every operation of Python does with both.
"""

from __future__ import annotations

import collections.abc
import copy
import ctypes
import itertools
import operator
import pickle
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turns import in_turn

import patchcore as pc
from patchcore.objects import type_slots
from patchcore.objects.special_methods import SLOTTED

pytestmark = pytest.mark.skipif(sys.implementation.name != "cpython", reason="slots are CPython's")

PATCHED, TWIN = "hostile_patched", "hostile_twin"

#: Sources of modules: class ``A`` is patched; ``make(cls)`` makes an instance of it, or of a subclass.
SHAPES = {
    "nothing of its own": """
        class A: pass
        make = lambda cls: cls()
    """,
    "constructor": """
        class A:
            def __init__(self, x): self.x = x
        make = lambda cls: cls(3)
    """,
    "new": """
        class A:
            def __new__(cls, x):
                self = object.__new__(cls)
                self.x = x
                return self
            def __getnewargs__(self): return (self.x,)
        make = lambda cls: cls(3)
    """,
    "slots": """
        class A:
            __slots__ = ("x",)
            def __init__(self, x): self.x = x
        make = lambda cls: cls(3)
    """,
    "everything": """
        class A:
            def __new__(cls, *args): return super().__new__(cls)
            def __init__(self, *args): self.rows = [1, 2, 3]
            def __call__(self, *args): return args
            def __hash__(self): return 7
            def __eq__(self, other): return isinstance(other, A)
            def __lt__(self, other): return False
            def __repr__(self): return "A!"
            def __str__(self): return "a"
            def __bool__(self): return True
            def __iter__(self): return iter(self.rows)
            def __next__(self): raise StopIteration
            def __len__(self): return 3
            def __contains__(self, item): return item == 2
            def __getitem__(self, key): return self.rows[key]
            def __setitem__(self, key, value): self.rows[key] = value
            def __delitem__(self, key): del self.rows[key]
            def __add__(self, other): return NotImplemented
            def __radd__(self, other): return "radd"
            def __mul__(self, other): return "mul"
            def __rmul__(self, other): return "rmul"
            def __neg__(self): return "neg"
            def __index__(self): return 2
            def __int__(self): return 5
            def __float__(self): return 5.5
            def __pow__(self, other, mod=None): return "pow"
            def __matmul__(self, other): return "matmul"
            def __getattr__(self, name):
                if name.startswith("__"): raise AttributeError(name)
                return name
            def __setattr__(self, name, value): object.__setattr__(self, name, value)
            def __delattr__(self, name): object.__delattr__(self, name)
            def __enter__(self): return "in"
            def __exit__(self, *args): return None
            async def __aenter__(self): return "in"
            async def __aexit__(self, *args): return None
            def __await__(self): return iter(())
            def __aiter__(self): return self
            async def __anext__(self): raise StopAsyncIteration
            def __get__(self, instance, owner): return "got"
            def __set__(self, instance, value): pass
            def __delete__(self, instance): pass
            def __format__(self, spec): return spec
            def __reversed__(self): return iter("cba")
            def __buffer__(self, flags): return memoryview(b"abc")
        make = lambda cls: cls(3)
    """,
    "all inherited": """
        class Base:
            def __new__(cls, *args): return super().__new__(cls)
            def __init__(self, *args): self.rows = [1, 2, 3]
            def __call__(self, *args): return args
            def __eq__(self, other): return isinstance(other, A)
            def __hash__(self): return 7
            def __len__(self): return 3
            def __getitem__(self, key): return self.rows[key]
            def __setitem__(self, key, value): self.rows[key] = value
            def __iter__(self): return iter(self.rows)
            def __add__(self, other): return "add"
            def __imul__(self, other): return "imul"
            def __getattribute__(self, name): return object.__getattribute__(self, name)
            def __await__(self): return iter(())
            def __buffer__(self, flags): return memoryview(b"abc")
        class A(Base): pass
        make = lambda cls: cls(3)
    """,
    "unhashable": """
        class A:
            def __eq__(self, other): return True
        make = lambda cls: cls()
    """,
    "list": "class A(list): pass\nmake = lambda cls: cls([1, 2])",
    "tuple": "class A(tuple): pass\nmake = lambda cls: cls([1, 2])",
    "str": "class A(str): pass\nmake = lambda cls: cls('ab')",
    "bytes": "class A(bytes): pass\nmake = lambda cls: cls(b'ab')",
    "bytearray": "class A(bytearray): pass\nmake = lambda cls: cls(b'ab')",
    "dict": "class A(dict): pass\nmake = lambda cls: cls(k=1)",
    "dict with a default": """
        class A(dict):
            def __missing__(self, key): return key
        make = lambda cls: cls(k=1)
    """,
    "set": "class A(set): pass\nmake = lambda cls: cls([1])",
    "int": "class A(int): pass\nmake = lambda cls: cls(3)",
    "float": "class A(float): pass\nmake = lambda cls: cls(3)",
    "exception": "class A(Exception): pass\nmake = lambda cls: cls(3)",
    "deque": "import collections\nclass A(collections.deque): pass\nmake = lambda cls: cls([1, 2])",
    "array": "import array\nclass A(array.array): pass\nmake = lambda cls: cls('i', [1, 2])",
    "counter": "import collections\nclass A(collections.Counter): pass\nmake = lambda cls: cls('aab')",
    "partial": "import functools\nclass A(functools.partial): pass\nmake = lambda cls: cls(max, 1)",
    "generic alias": "import types\nclass A(types.GenericAlias): pass\nmake = lambda cls: cls(list, int)",
    "module": "import types\nclass A(types.ModuleType): pass\nmake = lambda cls: cls('m')",
    "structure": """
        import ctypes
        class A(ctypes.Structure): _fields_ = [("x", ctypes.c_int)]
        make = lambda cls: cls(3)
    """,
    "named tuple": """
        import collections
        class A(collections.namedtuple("Point", "x y")): pass
        make = lambda cls: cls(1, 2)
    """,
    "abstract mapping": """
        import collections.abc
        class A(collections.abc.Mapping):
            def __getitem__(self, key): raise KeyError(key)
            def __iter__(self): return iter(())
            def __len__(self): return 0
        make = lambda cls: cls()
    """,
    "mix-in": """
        class A: pass
        class Mixed(A, dict): pass
        class AlsoMixed(dict, A): pass
        make = lambda cls: cls()
    """,
    "mix-in of a class with a constructor": """
        class A: pass
        class Other:
            def __new__(cls, x): return super().__new__(cls)
            def __init__(self, x): self.x = x
        class Mixed(A, Other): pass
        make = lambda cls: cls(3) if issubclass(cls, Other) else cls()
    """,
    "own metaclass": """
        class Meta(type):
            def __call__(cls, *args): return super().__call__(*args)
            def __setattr__(cls, name, value): raise AttributeError("closed")
            def __getattribute__(cls, name): return super().__getattribute__(name)
        class A(metaclass=Meta):
            def __init__(self, x): self.x = x
        make = lambda cls: cls(3)
    """,
    "metaclass": """
        class A(type): pass
        class Instance(metaclass=A):
            def __init__(self, x): self.x = x
        def make(cls):
            class Made(metaclass=cls):
                def __init__(self, x): self.x = x
            return Made
    """,
    "metaclass with methods": """
        class A(type):
            def __new__(mcs, name, bases, body, **kwargs): return super().__new__(mcs, name, bases, body)
            def __call__(cls, *args): return super().__call__(*args)
            def __len__(cls): return 4
            def __getitem__(cls, key): return key
            def __contains__(cls, item): return True
            def __iter__(cls): return iter("ab")
        class Instance(metaclass=A): pass
        def make(cls):
            return cls("Made", (), {})
    """,
}

METHODS = """
    __new__ __init__ __call__ __getattribute__ __getattr__ __setattr__ __delattr__ __hash__ __eq__ __lt__ __repr__
    __str__ __bool__ __iter__ __next__ __len__ __contains__ __getitem__ __setitem__ __delitem__ __add__ __radd__
    __iadd__ __mul__ __rmul__ __imul__ __sub__ __rsub__ __or__ __neg__ __int__ __float__ __index__ __pow__
    __matmul__ __enter__ __exit__ __aenter__ __await__ __aiter__ __anext__ __get__ __set__ __delete__ __del__
    __format__ __reversed__ __buffer__ __reduce_ex__
    """.split()  # noqa: SIM905


class Right:
    """The right operand, which has an answer to every operator."""

    def answer(self, other: object) -> str:
        return "right"

    __radd__ = __rmul__ = __rsub__ = __ror__ = __rmatmul__ = __rpow__ = answer


async def _enter(thing: Any) -> Any:
    async with thing as entered:
        return entered


async def _walk(thing: Any) -> list[Any]:
    return [item async for item in thing]


async def _wait(thing: Any) -> Any:
    return await thing


def _enter_now(thing: Any) -> Any:
    with thing as entered:
        return entered


def _delete(thing: Any, key: Any) -> Any:
    del thing[key]
    return thing


def _held(thing: Any) -> Any:
    holder = type("Holder", (), {"attribute": thing})()
    return holder.attribute is thing or holder.attribute


def _set_held(thing: Any) -> None:
    type("Holder", (), {"attribute": thing})().attribute = 1


def _c(name: str) -> Callable[[Any], int]:
    function = getattr(ctypes.pythonapi, name)
    function.argtypes = [ctypes.py_object]
    return function  # type: ignore[no-any-return]


#: Ways to make an instance: these get the class.
CONSTRUCTIONS: dict[str, Callable[[Any], Any]] = {
    "unknown argument": lambda cls: cls(),
    "one argument": lambda cls: cls(1),
    "two arguments": lambda cls: cls(1, 2),
    "three arguments": lambda cls: cls("Name", (), {}),
    "new": lambda cls: cls.__new__(cls),
    "new with an argument": lambda cls: cls.__new__(cls, 1),
}

#: These get an instance.
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "hash": lambda o: hash(o) == hash(o),
    "init": lambda o: o.__init__(),
    "init with an argument": lambda o: o.__init__(3),
    "eq": lambda o: (o == o, o == 3, o != 3),
    "lt": lambda o: (o < o, o > o),
    "repr": repr,
    "str": str,
    "format": lambda o: format(o, ">9"),
    "bool": bool,
    "call": lambda o: o(1),
    "call without": lambda o: o(),
    "len": len,
    "length_hint": operator.length_hint,
    "iter": lambda o: list(itertools.islice(iter(o), 5)),
    "next": next,
    "reversed": lambda o: list(itertools.islice(reversed(o), 5)),
    "in": lambda o: 2 in o,
    "item": lambda o: o[0],
    "last item": lambda o: o[-1],
    "key": lambda o: o["k"],
    "slice": lambda o: o[0:1],
    "set item": lambda o: operator.setitem(o, 0, 1),
    "set key": lambda o: operator.setitem(o, "k", 1),
    "set slice": lambda o: operator.setitem(o, slice(0, 1), o),
    "delete item": lambda o: _delete(o, 0),
    "delete key": lambda o: _delete(o, "k"),
    "add": lambda o: o + o,
    "concat": lambda o: operator.concat(o, o),
    "iadd": lambda o: operator.iadd(o, o),
    "iconcat": lambda o: operator.iconcat(o, o),
    "mul": lambda o: o * 2,
    "rmul": lambda o: 2 * o,
    "imul": lambda o: operator.imul(o, 2),
    "sub": lambda o: o - o,
    "or": lambda o: o | o,
    "neg": operator.neg,
    "pow": lambda o: o**2,
    "matmul": lambda o: o @ o,
    "int": int,
    "float": float,
    "index": operator.index,
    "in range": lambda o: list(range(o)),
    "bytes": lambda o: bytes(memoryview(o)),
    "missing attribute": lambda o: o.missing,
    "class attribute": lambda o: o.__class__.__name__,
    "set attribute": lambda o: (setattr(o, "x", 1), o.x),
    "delete attribute": lambda o: (setattr(o, "x", 1), delattr(o, "x")),
    "with": _enter_now,
    "async with": lambda o: asyncio_run(_enter(o)),
    "async for": lambda o: asyncio_run(_walk(o)),
    "await": lambda o: asyncio_run(_wait(o)),
    "get": _held,
    "set": _set_held,
    "copy": lambda o: copy.copy(o),
    "deepcopy": lambda o: copy.deepcopy(o),
    "pickle": lambda o: [pickle.loads(pickle.dumps(o, protocol)) for protocol in (2, pickle.HIGHEST_PROTOCOL)],
    "abstract": lambda o: [n for n in collections.abc.__all__ if isinstance(o, getattr(collections.abc, n))],
    "isinstance": lambda o: isinstance(3, o),
    "C sequence": _c("PySequence_Check"),
    "C mapping": _c("PyMapping_Check"),
    "C number": _c("PyNumber_Check"),
    "C index": _c("PyIndex_Check"),
    "C iterator": _c("PyIter_Check"),
    "C buffer": _c("PyObject_CheckBuffer"),
    "C callable": _c("PyCallable_Check"),
}
#: These too; a method that is written in Python, or wrapped, raises where Python would have asked the right operand.
REFLECTED: dict[str, Callable[[Any], Any]] = {
    "right add": lambda o: o + Right(),
    "right mul": lambda o: o * Right(),
    "right sub": lambda o: o - Right(),
    "right or": lambda o: o | Right(),
    "right iadd": lambda o: operator.iadd(o, Right()),
    "right imul": lambda o: operator.imul(o, Right()),
}


#: What does not work as before while a method is wrapped; test_what_changes_besides_is_reported has the reasons.
LOST = {
    "__new__": ["init with an argument"],
    "__init__": ["new with an argument"],
    "__getitem__": ["C mapping of deque", "C sequence of generic alias"],
    "__setitem__": ["C mapping of deque"],
    "__hash__": ["abstract of mix-in"],
    **dict.fromkeys(  # noqa: RUF024
        ("__add__", "__radd__", "__iadd__", "__mul__", "__rmul__", "__imul__"), [*REFLECTED, "iadd", "iconcat", "imul"]
    ),
}


def asyncio_run(coroutine: Any) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    except StopAsyncIteration:
        raise RuntimeError from None
    finally:
        coroutine.close()
    return "waits"


def module_of(name: str, source: str) -> Any:
    """Execute a shape as module ``name``, in place of one that has the name."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    body = textwrap.dedent(source) + "\nclass Between(A): __slots__ = ()\nclass Below(Between): pass\n"
    exec(body, vars(module))
    return module


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    yield
    for name in (PATCHED, TWIN):
        sys.modules.pop(name, None)


def derive(module: Any, name: str) -> None:
    """Define a subclass of the patched class now."""
    exec(f"class {name}(A): pass", vars(module))


def classes(module: Any) -> list[type]:
    return [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, module.A)]


def answer(operation: Callable[[Any], Any], *args: Any) -> str:
    """Return what an operation gives, without addresses and module names."""
    try:
        text = repr(operation(*args))
    except Exception as error:
        return type(error).__name__
    return re.sub(rf"0x[0-9a-f]+|{PATCHED}|{TWIN}", "...", text)


def behaviour(module: Any, *names: str) -> dict[str, str]:
    """Return what every operation does with the named classes of a module."""
    found = {}
    for cls in (vars(module)[name] for name in names if name in vars(module)):
        for name, construct in CONSTRUCTIONS.items():
            found[f"{cls.__name__}: {name}"] = answer(lambda made: type(made[0](made[1])).__name__, (construct, cls))
        for name, operation in {**OPERATIONS, **REFLECTED}.items():
            found[f"{cls.__name__}: {name}"] = answer(lambda given: given[0](module.make(given[1])), (operation, cls))
    return found


def slots_of(module: Any) -> dict[tuple[str, int], int]:
    """Return every slot of every class, as the stable ABI gives them."""
    for cls in classes(module):  # CPython makes this faster at the first call
        answer(lambda klass: module.make(klass).missing, cls)
    get = ctypes.pythonapi.PyType_GetSlot
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    last = 82 if sys.version_info >= (3, 10) else 80
    tested = classes(module)
    return {(cls.__name__, number): get(cls, number) for cls in tested for number in range(1, last)}


def different(found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> dict[Any, tuple[Any, Any]]:
    return {key: (found.get(key), value) for key, value in expected.items() if key in found and found.get(key) != value}


def pass_on(original: Any, *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs)


def change_of(module: Any, method: str) -> Union[pc.Wrap, pc.Replace]:
    """Return a change of a special method: a wrapper that passes calls on, or a method where there was none."""
    target = f"{PATCHED}:A.{method}"
    if any(method in vars(base) for base in module.A.__mro__) and module.A.__dict__.get(method, 1) is not None:
        return pc.Wrap(target, pass_on)
    return pc.Replace(target, lambda *args: NotImplemented, create=True)


#: Methods whose inherited form Python refuses to wrap: ``__hash__ = None`` of a class that has ``__eq__``.
def can_wrap(module: Any, method: str) -> bool:
    found = next((vars(base)[method] for base in module.A.__mro__ if method in vars(base)), pass_on)
    return found is not None


def is_kept(shape: str, method: str, operation: str) -> bool:
    """Tell whether an operation works as before also while ``method`` is wrapped."""
    name = operation.partition(": ")[2]
    return not {name, f"{name} of {shape}"}.intersection(LOST.get(method, ()))


def methods_of(shape: str) -> list[str]:
    """Return the methods to try on a shape: in turn half of them, the other half on the next shape."""
    return in_turn(METHODS, turn=list(SHAPES).index(shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_class_behaves_like_one_that_nobody_patched(shape: str) -> None:
    source = SHAPES[shape]
    twin = module_of(TWIN, source)
    derive(twin, "Late"), derive(twin, "Last")
    expected = behaviour(twin, "A", "Below", "Late", "Last", "Mixed", "AlsoMixed")
    wrong: dict[str, Any] = {}
    for method in methods_of(shape):
        module = module_of(PATCHED, source)
        if not can_wrap(module, method):
            continue
        change = change_of(module, method)
        slots, own = slots_of(module), namespace_of(module.A)
        with pc.Patcher([pc.Patch("one", change)], strict=True):
            derive(module, "Late")
            if isinstance(change, pc.Wrap):
                kept = {key: value for key, value in expected.items() if is_kept(shape, method, key)}
                wrong[f"{method} wrapped"] = different(behaviour(module, "A", "Below", "Mixed", "AlsoMixed"), kept)
        assert namespace_of(module.A) == own, method
        wrong[f"{method}: slots"] = different(slots_of(module), slots)
        derive(module, "Last")
        wrong[f"{method} reverted"] = different(behaviour(module, "A", "Late", "Last", "Mixed"), expected)
    lines = [f"{where}: {key}: {values}" for where, found in wrong.items() for key, values in found.items()]
    assert not lines, "\n".join(lines)


def namespace_of(cls: type) -> dict[str, Any]:
    return {key: value for key, value in vars(cls).items() if key != "__slotnames__"}  # copyreg's, at any time


@pytest.mark.parametrize("shape", SHAPES)
def test_a_patch_that_fails_leaves_no_trace(shape: str) -> None:
    for method in in_turn(sorted(SLOTTED), turn=list(SHAPES).index(shape)):
        module = module_of(PATCHED, SHAPES[shape])
        slots, own = slots_of(module), namespace_of(module.A)
        patch = pc.Patch("one", [change_of(module, method), pc.Replace(f"{PATCHED}:A.nothing.there", len)])
        with pc.Patcher([patch]) as patcher:
            assert patcher.report()["one"].status == "failed"
            assert namespace_of(module.A) == own
            assert not different(slots_of(module), slots)


#: What is done to a module: a method is patched by one of three Patchers, one is reverted, a subclass is defined.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("apply"), st.integers(0, 2), st.sampled_from(["A", "Between", "Below"])),
        st.tuples(st.just("revert"), st.integers(0, 2), st.just("")),
        st.tuples(st.just("derive"), st.integers(0, 2), st.sampled_from(["A", "Between", "Below"])),
    ),
    max_size=12,
)


@given(shape=st.sampled_from(sorted(SHAPES)), method=st.sampled_from(sorted(SLOTTED)), steps=STEPS)
@settings(max_examples=80, deadline=None)
def test_patches_of_bases_and_subclasses_come_and_go_in_any_order(
    shape: str, method: str, steps: list[tuple[str, int, str]]
) -> None:
    module, twin = module_of(PATCHED, SHAPES[shape]), module_of(TWIN, SHAPES[shape])
    slots = slots_of(module)
    patchers: dict[int, pc.Patcher] = {}
    derived = 0
    for what, number, name in steps:
        if what == "apply" and number not in patchers:
            found = any(method in vars(base) for base in vars(module)[name].__mro__)
            target = f"{PATCHED}:{name}.{method}"
            change = (
                pc.Wrap(target, pass_on) if found else pc.Replace(target, lambda *args: NotImplemented, create=True)
            )
            patchers[number] = pc.Patcher([pc.Patch(f"p{number}", change)])
            patchers[number].apply()
        elif what == "revert" and number in patchers:
            patchers.pop(number).revert()
        elif what == "derive":
            derived += 1
            for each in (module, twin):
                exec(f"class Derived{derived}({name}): pass", vars(each))
    for patcher in patchers.values():
        patcher.revert()
    assert not different(slots_of(module), slots)
    names = [name for name in vars(module) if name.startswith("Derived")]
    assert behaviour(module, "A", *names) == behaviour(twin, "A", *names)


def make_thing(original: Any, cls: type, *args: Any) -> Any:
    return original(cls, *args)


def test_a_class_without_a_constructor_in_python_can_be_made_after_the_revert() -> None:
    module = module_of(PATCHED, SHAPES["constructor"])
    patcher = pc.Patcher([pc.Patch("new", pc.Wrap(f"{PATCHED}:A.__new__", make_thing))])
    for _ in range(2):
        with patcher:
            assert module.A(3).x == module.Below(3).x == 3
        assert module.A(3).x == module.Below(3).x == 3
        assert "__new__" not in vars(module.A)


def test_by_hand_is_undone_as_well() -> None:
    module = module_of(PATCHED, SHAPES["constructor"])

    def by_hand(found: Any, options: Mapping[str, Any]) -> None:
        found.A.__new__ = lambda cls, *args: object.__new__(cls)

    slots = slots_of(module)
    with pc.Patcher([pc.Patch("call", pc.Call(by_hand, module=PATCHED))]):
        assert module.A(3).x == 3
    assert module.A(3).x == 3
    assert not different(slots_of(module), slots)


def test_abstract_classes_forget_what_they_took_a_class_for() -> None:
    module = module_of(PATCHED, SHAPES["nothing of its own"])
    assert not isinstance(module.A(), collections.abc.Sized)
    with pc.Patcher([pc.Patch("len", pc.Replace(f"{PATCHED}:A.__len__", lambda self: 2, create=True))]):
        assert isinstance(module.A(), collections.abc.Sized)
        assert issubclass(module.Below, collections.abc.Sized)
    assert not isinstance(module.A(), collections.abc.Sized)
    assert not issubclass(module.Below, collections.abc.Sized)


def reason_of(patch: pc.Patch) -> str:
    with pc.Patcher([patch]) as patcher:
        (change,) = patcher.report()["one"].changes
        return str(change.reason)


REASONS = {
    ("constructor", "__new__"): "object.__init__ takes any arguments while this is patched",
    ("new", "__init__"): "object.__new__ takes any arguments while this is patched",
    ("list", "__mul__"): "while this is patched, the operator calls the left operand first and creates a new object",
    ("generic alias", "__getitem__"): "C code treats a subclass that is defined while this is patched as a sequence",
    ("everything", "__new__"): "",
    ("everything", "__mul__"): "",
    ("everything", "__getitem__"): "",
}


@pytest.mark.limit(
    "a wrapped `+` or `*` of a subclass of `list`, `str`, `bytes` and the like: the right operand is not asked first, "
    "`+=` and `*=` make a new object",
    told="the change's line in the report",
)
@pytest.mark.limit(
    "a subclass, defined while it is patched, of a class that is a mapping to C code only (`torch.Tensor`): it is a "
    "sequence too until the revert",
    told="the change's line in the report",
)
@pytest.mark.limit(
    "an inherited `__new__` or `__init__` that is wrapped: the other one of the two, where it is that of `object`, "
    "takes any arguments when it is called directly",
    told="the change's line in the report",
)
@pytest.mark.parametrize(("shape", "method"), REASONS)
def test_what_changes_besides_is_reported(shape: str, method: str) -> None:
    module_of(PATCHED, SHAPES[shape])
    wrap = pc.Wrap(f"{PATCHED}:A.{method}", pass_on)
    assert reason_of(pc.Patch("one", wrap)) == REASONS[shape, method]


@pytest.mark.limit(
    "`__new__` of a class that is written in C and can be changed (`_random.Random`, `os.stat_result`)",
    told="the patch fails, and says what to patch instead",
)
def test_a_constructor_in_c_is_refused() -> None:
    import _random

    with pc.Patcher([pc.Patch("one", pc.Wrap("_random:Random.__new__", pass_on))]) as patcher:
        outcome = patcher.report()["one"]
        assert outcome.status == "failed"
        assert "Random is " in outcome.reason
        assert _random.Random(3).random() == _random.Random(3).random()


def test_a_python_with_another_layout_refuses_what_it_could_not_take_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_slots, "is_known", False)
    module = module_of(PATCHED, SHAPES["constructor"])
    with pc.Patcher([pc.Patch("one", pc.Wrap(f"{PATCHED}:A.__new__", make_thing))]) as patcher:
        outcome = patcher.report()["one"]
        assert outcome.status == "failed"
        assert f"target '{PATCHED}:A.__init__' instead" in outcome.reason
    assert module.A(3).x == 3


def test_torch_modules_can_be_made_after_the_revert(torch: Any) -> None:
    patch = pc.Patch("new", pc.Wrap("torch.nn:Module.__new__", make_thing))
    for _ in range(2):
        with pc.Patcher([patch], strict=True):
            assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)
        assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)
        assert torch.nn.Sequential(torch.nn.ReLU())(torch.ones(1)) == 1
    assert "__new__" not in vars(torch.nn.Module)


def test_the_slotted_methods_are_the_known_ones() -> None:
    assert set(type_slots.SLOTS) == SLOTTED
