"""Slots: read, written and put back exactly, without running anybody's code."""

from __future__ import annotations

import collections
import enum
import functools
import importlib
import sys
import types
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patchcore
from patchcore.declare.slots import ClassSlot, MemberSlot, NamespaceSlot, Slot, find_slot
from patchcore.declare.target import Item, Target
from patchcore.errors import TargetError, TargetNotFound
from patchcore.objects.extensions import Extensions, using
from patchcore.objects.modules import ABSENT

NEW = object()


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Slots are found as for a patch of a Patcher that knows the registry of the module ``m``."""
    with using(Extensions(tables=["_module_dict"])):
        yield


# --- slots: read, write, put back -----------------------------------------------------------------------------------


class Meta(type):
    def of_meta(cls) -> str:
        return f"meta {cls.__name__}"

    @property
    def computed(cls) -> str:
        raise AssertionError("a property of the metaclass was read")


class Base(metaclass=Meta):
    inherited_value = 1

    def inherited(self) -> str:
        return "base"


class Owner(Base):
    value = 2

    def method(self) -> str:
        return "method"

    @staticmethod
    def static() -> str:
        return "static"

    @classmethod
    def klass(cls) -> str:
        return "class"

    @property
    def prop(self) -> str:
        raise AssertionError("a property was read")

    @functools.cached_property
    def cached(self) -> str:
        raise AssertionError("a cached property was read")

    builtin = divmod

    class Inner:
        def method(self) -> str:
            return "inner"


class Slotted:
    __slots__ = ("empty", "filled")
    shared = 3

    def __init__(self) -> None:
        self.filled = "filled"


class Registry:
    def __init__(self) -> None:
        self._module_dict = {"Net": Owner}


class Frozen(type):
    def __setattr__(cls, name: str, value: Any) -> None:
        raise AttributeError("this class is closed")

    __delattr__ = __setattr__


class Closed(metaclass=Frozen):
    def method(self) -> None: ...


class Color(enum.Enum):
    RED = 1

    def paint(self) -> str:
        return "painted"


class Untouchable(dict):
    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("an item was computed")

    __contains__ = get = __missing__ = __getitem__


@pytest.fixture
def module() -> types.ModuleType:
    made = types.ModuleType("m")
    made.__dict__.update(
        function=lambda: "function",
        Meta=Meta,
        Base=Base,
        Owner=Owner,
        Slotted=Slotted,
        Closed=Closed,
        Color=Color,
        slotted=Slotted(),
        instance=Owner(),
        TABLE={"a": 1, 0: 2},
        ORDERED=collections.OrderedDict(x=1, y=2),
        DEFAULTS=collections.defaultdict(lambda: pytest.fail("the factory ran"), a=1),
        CHAIN=collections.ChainMap({"a": 1}, {"b": 2}),
        UNTOUCHABLE=Untouchable(a=1),
        MODELS=Registry(),
        documented=Owner,
    )
    return made


def snapshot(slot: Slot) -> Any:
    owner = slot.owner
    if isinstance(owner, type):
        return dict(type.__getattribute__(owner, "__dict__"))
    if isinstance(owner, dict):
        return list(dict.items(owner))
    if isinstance(owner, MutableMapping):
        return dict(owner)
    if isinstance(owner, Slotted):
        return [getattr(owner, name, ABSENT) for name in ("empty", "filled")]
    return dict(vars(owner))


def identical(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return list(first) == list(second) and all(first[key] is second[key] for key in first)
    return len(first) == len(second) and all(a is b or a == b for a, b in zip(first, second))


OWN = [
    "m:function",
    "m:Owner",
    "m:Owner.value",
    "m:Owner.method",
    "m:Owner.static",
    "m:Owner.klass",
    "m:Owner.prop",
    "m:Owner.cached",
    "m:Owner.builtin",
    "m:Owner.Inner",
    "m:Owner.Inner.method",
    "m:Owner.__doc__",
    "m:Meta.of_meta",
    "m:Meta.computed",
    "m:Slotted.shared",
    "m:Slotted.__init__",
    "m:Closed.method",
    "m:Color.paint",
    "m:slotted.filled",
    "m:TABLE['a']",
    "m:TABLE[0]",
    "m:ORDERED['x']",
    "m:DEFAULTS['a']",
    "m:CHAIN['a']",
    "m:MODELS['Net']",
    "m:MODELS._module_dict",
]
INHERITED = ["m:Owner.inherited", "m:Owner.inherited_value", "m:Owner.of_meta", "m:instance.method"]
MISSING = [
    "m:missing",
    "m:Owner.missing",
    "m:Owner.__call__",  # type has it: that is how classes work, and none of this class
    "m:slotted.empty",
    "m:instance.missing",
    "m:TABLE['missing']",
    "m:ORDERED['missing']",
    "m:DEFAULTS['missing']",
    "m:CHAIN['missing']",
    "m:MODELS['Missing']",
]


@pytest.mark.parametrize("text", OWN)
def test_what_a_slot_holds_is_put_back_identically(module: types.ModuleType, text: str) -> None:
    slot = find_slot(Target.parse(text), module)
    before = snapshot(slot)
    raw = slot.read()
    assert raw is not ABSENT
    assert slot.lookup() is raw
    slot.write(NEW)
    assert slot.read() is NEW
    slot.write(raw)
    assert slot.read() is raw
    assert identical(before, snapshot(slot))


@pytest.mark.parametrize("text", INHERITED)
def test_what_is_inherited_is_absent_and_is_removed_again(module: types.ModuleType, text: str) -> None:
    slot = find_slot(Target.parse(text), module)
    before = snapshot(slot)
    inherited = slot.lookup()
    assert slot.read() is ABSENT
    assert slot.inherited() is inherited is not ABSENT
    slot.write(NEW)
    assert slot.read() is slot.lookup() is NEW
    assert slot.inherited() is inherited
    slot.write(ABSENT)
    slot.write(ABSENT)  # once more changes nothing
    assert identical(before, snapshot(slot))
    assert slot.lookup() is inherited


@pytest.mark.parametrize("text", MISSING)
def test_what_is_missing_is_not_found_but_can_be_created_and_removed(module: types.ModuleType, text: str) -> None:
    target = Target.parse(text)
    with pytest.raises(TargetNotFound, match=r" has no .*\(target "):
        find_slot(target, module)
    slot = find_slot(target, module, may_be_absent=True)
    before = snapshot(slot)
    assert slot.read() is slot.lookup() is ABSENT
    slot.write(NEW)
    assert slot.read() is NEW
    slot.write(ABSENT)
    assert identical(before, snapshot(slot))


def test_an_item_of_a_mapping_is_read_past_the_code_of_its_class(module: types.ModuleType) -> None:
    slot = find_slot(Target.parse("m:UNTOUCHABLE['a']"), module)
    assert slot.read() == 1
    assert find_slot(Target.parse("m:UNTOUCHABLE['b']"), module, may_be_absent=True).read() is ABSENT


def test_two_slots_are_one_place_exactly_when_their_identities_agree(module: types.ModuleType) -> None:
    def identity(text: str) -> Any:
        return find_slot(Target.parse(text), module, may_be_absent=True).identity

    assert identity("m:documented.method") == identity("m:Owner.method")
    assert identity("m:Owner.method") != identity("m:Base.inherited")
    assert identity("m:Owner.inherited") != identity("m:Base.inherited")
    module.__dict__["TABLE"]["a"] = NEW
    assert identity("m:TABLE['a']") == identity("m:TABLE['a']")
    assert identity("m:TABLE['a']") != find_slot(Target("m", ("TABLE", Item(0))), module).identity


def test_a_mapping_that_refuses_a_change_is_not_asked_for_one_by_putting_back_what_it_holds() -> None:
    class Refusing(dict):
        def __setitem__(self, key: Any, value: Any) -> None:
            raise TypeError("read only")

        __delitem__ = __setitem__

    module = types.ModuleType("m")
    module.__dict__["TABLE"] = Refusing(a=1)
    slot = find_slot(Target.parse("m:TABLE['a']"), module)
    with pytest.raises(TypeError, match="read only"):
        slot.write(NEW)
    slot.write(slot.read())
    find_slot(Target.parse("m:TABLE['b']"), module, may_be_absent=True).write(ABSENT)
    assert module.TABLE == {"a": 1}


# --- what the owner would have to hold ------------------------------------------------------------------------------


def test_a_function_of_the_metaclass_is_called_with_the_class(module: types.ModuleType) -> None:
    slot = find_slot(Target.parse("m:Owner.of_meta"), module)
    own = slot.as_own(slot.lookup())
    assert isinstance(own, classmethod)
    assert own.__func__ is vars(Meta)["of_meta"]
    slot.write(own)
    try:
        assert Owner.of_meta() == "meta Owner"
        assert type("Sub", (Owner,), {}).of_meta() == "meta Sub"
        assert slot.as_own(own) is own
        assert isinstance(slot.as_own(slot.inherited()), classmethod)  # of a layer below, too
    finally:
        slot.write(ABSENT)


def test_a_method_found_through_an_instance_is_bound(module: types.ModuleType) -> None:
    for name, result in (("method", "method"), ("static", "static"), ("klass", "class")):
        slot = find_slot(Target.parse(f"m:instance.{name}"), module)
        assert slot.as_own(slot.lookup())() == result


@pytest.mark.parametrize(
    "text", ["m:function", "m:Owner.method", "m:Owner.static", "m:Owner.inherited", "m:TABLE['a']"]
)
def test_anything_else_is_held_as_it_is_found(module: types.ModuleType, text: str) -> None:
    slot = find_slot(Target.parse(text), module)
    assert slot.as_own(slot.lookup()) is slot.lookup()


# --- what cannot be a slot ------------------------------------------------------------------------------------------


def test_a_property_of_the_metaclass_is_refused_with_the_target_to_write(module: types.ModuleType) -> None:
    with pytest.raises(TargetError) as caught:
        find_slot(Target.parse("m:Owner.computed"), module)
    assert f"target '{__name__}:Meta.computed' instead" in str(caught.value)


def test_a_property_of_a_module_is_refused_with_the_target_to_write() -> None:
    class Lazy(types.ModuleType):
        @property
        def version(self) -> str:
            raise AssertionError("the property was read")

    with pytest.raises(TargetError, match=r"m:version is computed by property .*Lazy.version.*target '.*Lazy.version'"):
        find_slot(Target.parse("m:version"), Lazy("m"))


@pytest.mark.parametrize("name", ["__code__", "__globals__", "__name__"])
def test_what_a_builtin_object_computes_is_refused(module: types.ModuleType, name: str) -> None:
    with pytest.raises(TargetError, match=r"replace the object as a whole"):
        find_slot(Target.parse(f"m:function.{name}"), module)


@pytest.mark.parametrize("text", ["m:NUMBER.real", "m:INT.bit_length", "m:FUNCTION_TYPE.__call__", "m:TEXT.missing"])
def test_an_attribute_of_a_builtin_type_is_refused(module: types.ModuleType, text: str) -> None:
    module.__dict__.update(NUMBER=3, INT=int, FUNCTION_TYPE=types.FunctionType, TEXT=str)
    with pytest.raises(TargetError, match=r"replace the"):
        find_slot(Target.parse(text), module, may_be_absent=True)


def test_a_slot_that_only_c_code_sets_is_refused(module: types.ModuleType) -> None:
    module.__dict__["PARTIAL"] = functools.partial(len)
    with pytest.raises(TargetError):
        find_slot(Target.parse("m:PARTIAL.func"), module)


def test_an_item_of_something_that_is_no_mapping_is_refused(module: types.ModuleType) -> None:
    module.__dict__["LIST"] = [1]
    with pytest.raises(TargetError, match=r"m:LIST\[0\]: expected a mutable mapping before \[0\], found list"):
        find_slot(Target.parse("m:LIST[0]"), module)


def test_the_kind_of_slot_follows_the_owner(module: types.ModuleType) -> None:
    assert isinstance(find_slot(Target.parse("m:slotted.filled"), module), MemberSlot)
    assert isinstance(find_slot(Target.parse("m:Slotted.filled"), module), ClassSlot)
    assert isinstance(find_slot(Target.parse("m:instance.method"), module), NamespaceSlot)


# --- what is not there ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m:functon", "m has no functon (target m:functon); did you mean 'function'?"),
        ("m:Owner.metod", "m:Owner has no metod (target m:Owner.metod); did you mean 'method'?"),
        ("m:Owner.inheritd", "m:Owner has no inheritd (target m:Owner.inheritd); did you mean 'inherited'?"),
        ("m:Ownr.method", "m has no Ownr (target m:Ownr.method); did you mean 'Owner'?"),
        ("m:MODELS['Nt']", "m:MODELS has no ['Nt'] (target m:MODELS['Nt']); did you mean 'Net'?"),
        ("m:zzzz", "m has no zzzz (target m:zzzz)"),
    ],
)
def test_a_target_that_does_not_exist_is_not_found_with_the_nearest_name(
    module: types.ModuleType, text: str, message: str
) -> None:
    with pytest.raises(TargetNotFound) as caught:
        find_slot(Target.parse(text), module)
    assert message in str(caught.value)


def test_a_module_written_behind_the_colon_is_recognised(make_package) -> None:
    make_package({"shop": "", "shop.tools": "def price(): ..."})
    shop = importlib.import_module("shop")
    with pytest.raises(TargetNotFound, match=r"that is a module; write 'shop.tools:price'"):
        find_slot(Target.parse("shop:tools.price"), shop)


# --- what is loaded lazily ------------------------------------------------------------------------------------------

PEP_562 = """
__all__ = ["promised", "Promised"]
def __getattr__(name):
    raise AssertionError(f"{name} was asked for")
"""


def test_a_name_that_a_lazy_module_promises_is_a_slot_and_is_not_loaded(make_package) -> None:
    make_package({"lazy": PEP_562})
    lazy = importlib.import_module("lazy")
    before = dict(vars(lazy))
    slot = find_slot(Target.parse("lazy:promised"), lazy)
    assert slot.is_promised
    assert slot.read() is slot.lookup() is ABSENT
    slot.write(NEW)
    assert lazy.promised is NEW
    slot.write(ABSENT)
    assert identical(before, dict(vars(lazy)))


def test_a_name_that_a_lazy_module_does_not_promise_is_not_found(make_package) -> None:
    make_package({"lazy": PEP_562})
    with pytest.raises(TargetNotFound, match=r"did you mean 'promised'\?"):
        find_slot(Target.parse("lazy:promise"), importlib.import_module("lazy"))


def test_something_inside_what_is_not_loaded_yet_says_where_to_go(make_package) -> None:
    make_package({"lazy": PEP_562})
    with pytest.raises(TargetNotFound, match=r"it is loaded lazily; target the module that defines it"):
        find_slot(Target.parse("lazy:Promised.method"), importlib.import_module("lazy"))


def test_a_name_in_all_of_a_module_that_is_not_lazy_is_not_promised() -> None:
    plain = types.ModuleType("plain")
    vars(plain)["__all__"] = ["missing"]
    with pytest.raises(TargetNotFound):
        find_slot(Target.parse("plain:missing"), plain)


# --- any class hierarchy --------------------------------------------------------------------------------------------

_RAW = st.sampled_from(
    [len, staticmethod(len), classmethod(len), property(id), lambda self: 1, 5, None, type("Inner", (), {})]
)
_attributes = st.dictionaries(st.sampled_from(["a", "b", "c"]), _RAW, max_size=3)


@given(bodies=st.lists(_attributes, min_size=1, max_size=4), key=st.sampled_from(["a", "b", "c"]), data=st.data())
def test_any_class_in_any_hierarchy_is_restored_exactly(bodies: Any, key: str, data: st.DataObject) -> None:
    classes: list[type] = []
    for index, body in enumerate(bodies):
        bases = tuple(classes[-1:]) if data.draw(st.booleans()) else ()
        classes.append(type(f"C{index}", bases, dict(body)))
    module = types.ModuleType("m")
    module.__dict__.update({klass.__name__: klass for klass in classes})
    chosen = data.draw(st.sampled_from(classes))
    before = {klass: dict(vars(klass)) for klass in classes}
    slot = find_slot(Target("m", (chosen.__name__, key)), module, may_be_absent=True)
    raw = slot.read()
    assert slot.lookup() is next((vars(k)[key] for k in chosen.__mro__ if key in vars(k)), ABSENT)
    for value in data.draw(st.lists(_RAW, min_size=1, max_size=3)):
        slot.write(value)
        assert vars(chosen)[key] is value
    slot.write(raw)
    for klass in classes:
        assert before[klass].keys() == vars(klass).keys()
        assert all(before[klass][name] is vars(klass)[name] for name in before[klass])


def test_a_patch_whose_write_is_refused_fails_and_leaves_nothing() -> None:
    class Refusing(dict):
        def __setitem__(self, key: Any, value: Any) -> None:
            raise TypeError("read only")

    module = types.ModuleType("refusing")
    original = module.__dict__["function"] = lambda x: None
    module.__dict__["TABLE"] = Refusing(a=1)
    changes = [patchcore.Replace("refusing:function", len), patchcore.Replace("refusing:TABLE['a']", 2)]
    sys.modules["refusing"] = module
    try:
        with patchcore.Patcher([patchcore.Patch("p", changes)]) as patcher:
            assert patcher.report()["p"].status == "failed"
            assert "read only" in patcher.report()["p"].reason
            assert module.function is original
            assert module.TABLE == {"a": 1}
    finally:
        del sys.modules["refusing"]


def test_an_item_that_is_a_new_text_at_every_read_is_replaced_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0

    class Texts(dict):
        def __getitem__(self, key: str) -> str:
            nonlocal reads
            reads += 1
            assert reads < 100, "read again and again"
            return "".join(list(super().__getitem__(key)))

    texts = collections.UserDict()
    texts.data = Texts(cards="0,1")
    library = types.ModuleType("library_of_texts")
    library.TEXTS = texts
    monkeypatch.setitem(sys.modules, "library_of_texts", library)
    with patchcore.Patcher(
        [patchcore.Patch("cards", patchcore.Replace('library_of_texts:TEXTS["cards"]', patchcore.Literal("2")))]
    ) as patcher:
        assert patcher.report().ok
        assert texts["cards"] == "2"
    assert texts["cards"] == "0,1"
    assert patcher.report().notes == ()


@pytest.mark.filterwarnings("ignore:functools.partial will be a method descriptor:FutureWarning")
@pytest.mark.parametrize(
    "value", [functools.partial(lambda *args: args), lambda *args: args], ids=["partial", "function"]
)
def test_what_a_module_finds_in_its_class_is_called_as_python_calls_it(value: Any) -> None:
    """A class of modules binds a function, and a partial since Python 3.14."""
    kind = type("Lazy", (types.ModuleType,), {"found": value})
    lazy = kind("m")
    slot = find_slot(Target.parse("m:found"), lazy)
    assert slot.as_own(slot.lookup())() == lazy.found()
