"""Changes: immutable declarations, and what each puts in its slot."""

from __future__ import annotations

import copy
import functools
import importlib
import re
import types
from typing import Any

import pytest

from patchcore.builtin.call.change import Call
from patchcore.declare.changes import Literal, Register, Replace, Skip, Wrap, resolve
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError, PatchcoreError, TargetError, TargetNotFound
from patchcore.objects.extensions import Extensions, using
from patchcore.objects.modules import ABSENT


def new(*args: Any, **kwargs: Any) -> Any:
    return ("new", *args)


class Array:
    """Like a numpy array: no hash, and a comparison that is neither true nor false."""

    __hash__ = None

    def __eq__(self, other: object) -> Any:
        return Array()

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    def __repr__(self) -> str:
        return "Array()"


def put(change: Any, module: types.ModuleType) -> Any:
    """Build a change and put it in its slot; return the slot and what was there."""
    with using(Extensions(tables=["_module_dict"])):
        slot = change.find_slot(change.target, module)
    before = slot.read()
    slot.write(change.build(slot.lookup(), slot))
    return slot, before


@pytest.fixture
def module() -> types.ModuleType:
    class Meta(type):
        def of_meta(cls) -> Any:
            return "meta", cls.__name__

    class Base:
        def inherited(self) -> Any:
            return "inherited", self

    class Owner(Base, metaclass=Meta):
        def method(self, x: int = 0) -> Any:
            return "method", self, x

        @staticmethod
        def static(x: int) -> Any:
            return "static", x

        @classmethod
        def klass(cls) -> Any:
            return "class", cls

        @property
        def prop(self) -> Any:
            return "prop", self

        builtin = divmod

    class Registry:
        def __init__(self) -> None:
            self._module_dict: dict[str, Any] = {"Old": Owner}

    made = types.ModuleType("m")
    vars(made).update(
        Meta=Meta,
        Base=Base,
        Owner=Owner,
        instance=Owner(),
        function=lambda x: ("function", x),
        VERSION="1.0",
        MODELS=Registry(),
        __all__=["lazy"],
        __getattr__=lambda name: pytest.fail(f"{name} was asked for"),
    )
    return made


# --- declarations ---------------------------------------------------------------------------------------------------

DECLARATIONS = [
    Replace("m:f", new),
    Replace("m:f", "other:g"),
    Replace("m:f", factory=new),
    Replace("m:f", new, when_call=bool),
    Replace("m:f", new, create=True),
    Replace("m:f", new, aliases=["n:f"]),
    Replace("m:f", Literal("2.0")),
    Replace("m:f", None),
    Wrap("m:f", new),
    Wrap("m:f", "other:g"),
    Register("m:MODELS", dict),
    Register("m:MODELS", dict, name="Dict", force=False),
    Call(new, module="m"),
    Call(new, module="m", options={"rate": 0.1, "sizes": [1, 2], "nested": {"a": 1}}),
    Skip("because"),
    Literal("text"),
]


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda d: re.sub(" at 0x[0-9a-f]+", "", repr(d)))
def test_a_declaration_cannot_be_changed(declaration: Any) -> None:
    name = next(iter(vars(declaration)))
    with pytest.raises(AttributeError, match=r"is immutable; create a new one instead of setting"):
        setattr(declaration, name, 1)
    with pytest.raises(AttributeError, match=r"is immutable; create a new one instead of deleting"):
        delattr(declaration, name)
    with pytest.raises(AttributeError, match="immutable"):
        declaration.something = 1


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=lambda d: re.sub(" at 0x[0-9a-f]+", "", repr(d)))
def test_a_declaration_equals_a_copy_of_itself_and_no_other(declaration: Any) -> None:
    twin = copy.copy(declaration)
    assert twin is not declaration
    assert twin == declaration
    assert hash(twin) == hash(declaration)
    assert sum(other == declaration for other in DECLARATIONS) == 1
    assert declaration != 3


def test_two_declarations_of_the_same_are_equal() -> None:
    assert Replace("m:f", new, aliases=["n:f"]) == Replace(Target.parse("m:f"), new, aliases=[Target.parse("n:f")])
    options = {"rate": 0.1, "sizes": [1, 2]}
    assert Call(new, module="m", options=options) == Call(new, module="m", options=dict(reversed(options.items())))
    assert Call(new, module="m", options={"x": 1}) != Call(new, module="m", options={"x": True})
    assert Replace("m:f", 1) != Replace("m:f", 1.0)
    assert Replace("m:f", new) != Wrap("m:f", new)


def test_objects_are_compared_by_identity_whatever_they_make_of_it() -> None:
    array, other = Array(), Array()
    assert Replace("m:f", array) == Replace("m:f", array)
    assert Replace("m:f", array) != Replace("m:f", other)
    assert hash(Replace("m:f", array)) == hash(Replace("m:f", array))
    assert Replace("m:f", [array, 1]) == Replace("m:f", [array, 1])
    assert Replace("m:f", (array,)) != Replace("m:f", (other,))
    assert len({Replace("m:f", array), Replace("m:f", array), Replace("m:f", other)}) == 2


def test_a_declaration_shows_what_was_given_and_no_defaults() -> None:
    assert repr(Replace("m:f", Literal("2"))) == (
        "Replace(target=Target(module='m', path=('f',)), replacement=Literal(value='2'))"
    )
    assert "Array()" in repr(Replace("m:f", Array()))


def test_the_declared_options_are_a_copy_nobody_can_change() -> None:
    options = {"x": 1}
    change = Call(new, module="m", options=options)
    options["x"] = 2
    assert change.options == {"x": 1}
    with pytest.raises(TypeError):
        change.options["x"] = 3


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: Replace("m:f"), r"Replace\('m:f'\): give either a replacement or factory="),
        (lambda: Replace("m:f", new, factory=new), r"Replace\('m:f'\): give either a replacement or factory="),
        (lambda: Replace("m:f", factory=3), r"factory must be a callable or the target of one, got 3"),
        (lambda: Replace("m:f", new, when_call=3), r"when_call must be callable, got 3"),
        (
            lambda: Replace("m:f", new, when_call=new, create=True),
            r"when_call= needs an original, but create=True",
        ),
        (lambda: Replace("m:f", factory=new, create=True), r"factory= needs an original, but create=True"),
        (lambda: Replace("m:f", factory=new, create="always"), r"factory= needs an original, but create='always'"),
        (lambda: Replace("m:f", new, create="allways"), r"create must be True, False or 'always', got 'allways'"),
        (lambda: Replace("m:f", "2.0"), r"has no ':'; write 'package.module:attribute' .* or Literal\('2.0'\)"),
        (lambda: Replace("m:f", new, aliases=3), r"aliases must be a list, got 3"),
        (lambda: Replace("m", new), r"target 'm' names a module, not something in it; write 'm:attribute'"),
        (lambda: Replace(new, new), r"a target is a string like 'package.module:Class.attribute', got function"),
        (lambda: Wrap("m:f", None), r"Wrap\('m:f'\): wrapper must be a callable or the target of one, got None"),
        (lambda: Wrap("m:f", "wrapper"), r"has no ':'"),
        (lambda: Wrap("m:f", Literal("x")), r"wrapper must be a callable or the target of one"),
        (lambda: Register("m:MODELS", Array()), r"has no __name__; pass name='...'"),
        (lambda: Register("m:MODELS", "other:TABLE['x']"), r"pass name='...'"),
        (lambda: Register("m:MODELS", dict, name=3), r"pass name='...'"),
        (lambda: Call(None, module="m"), r"func must be a callable or the target of one, got None"),
        (lambda: Call(new, module="m n"), r"'m n' is not a dotted module name"),
        (lambda: Call(new, module="m", options=3), r"options must be a mapping, got 3"),
    ],
)
def test_a_malformed_declaration_says_what_fixes_it(declare: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declare()


def test_aliases_expand_into_changes_of_their_own() -> None:
    change = Replace("m:f", new, when_call=bool, aliases=["n:f", "o.g"])
    expanded = change.expand()
    assert [str(c.target) for c in expanded] == ["m:f", "n:f", "o.g"]
    assert all(c.replacement is new and c.when_call is bool and c.aliases == () for c in expanded)
    assert Replace("m:f", new).expand() == (Replace("m:f", new),)


@pytest.mark.parametrize(
    ("change", "kind", "text", "source", "makes_product"),
    [
        (Replace("m:f", new), "replace", "replace m:f", new, False),
        (Replace("m:f", factory=new), "replace", "replace m:f", new, True),
        (Replace("m:f", new, when_call=bool), "replace", "replace m:f", new, True),
        (Wrap("m:f", new), "wrap", "wrap m:f", new, True),
        (Register("m:MODELS", dict), "register", "register m:MODELS['dict']", dict, False),
        (Call(new, module="a.b"), "call", "call new(a.b)", new, False),
        (Call("other:run", module="a.b"), "call", "call other:run(a.b)", Target.parse("other:run"), False),
    ],
)
def test_a_change_says_what_it_does(change: Any, kind: str, text: str, source: Any, makes_product: bool) -> None:
    assert (change.kind, str(change), change.source) == (kind, text, source)
    assert change.makes_product is makes_product


# --- replace --------------------------------------------------------------------------------------------------------


def test_a_replacement_is_imported_when_it_is_built(make_package, module: types.ModuleType) -> None:
    make_package({"plugin": "def fast(x): return ('fast', x)", "plugin_missing": ""})
    change = Replace("m:function", "plugin:fast")
    put(change, module)
    assert module.function(1) == ("fast", 1)
    with pytest.raises(TargetNotFound, match=r"plugin:fats does not exist.*did you mean 'fast'\?"):
        put(Replace("m:function", "plugin:fats"), module)
    with pytest.raises(ModuleNotFoundError):
        put(Replace("m:function", "no_such_plugin:fast"), module)


@pytest.mark.parametrize("name", ["method", "static", "klass", "prop", "inherited", "of_meta", "builtin"])
def test_a_function_takes_the_form_of_what_it_replaces(module: types.ModuleType, name: str) -> None:
    slot, before = put(Replace(f"m:Owner.{name}", new), module)
    owner = module.Owner()
    expected = {"method": (owner,), "inherited": (owner,), "prop": (owner,), "klass": (module.Owner,)}
    if name == "prop":
        assert owner.prop == ("new", owner)
    elif name == "of_meta":
        assert module.Owner.of_meta() == ("new", module.Owner)
    else:
        assert getattr(owner, name)() == ("new", *expected.get(name, ()))
    slot.write(before)
    assert vars(module.Owner).get(name, ABSENT) is before


def test_a_static_method_named_by_text_keeps_its_form_in_a_class(make_package, module: types.ModuleType) -> None:
    make_package({"plugin": "class Fast:\n    @staticmethod\n    def static(x): return ('fast', x)"})
    put(Replace("m:Owner.static", "plugin:Fast.static"), module)
    assert type(vars(module.Owner)["static"]) is staticmethod
    assert module.Owner().static(1) == ("fast", 1)


@pytest.mark.parametrize("name", ["static", "klass"])
def test_a_method_named_by_text_is_callable_outside_of_a_class(
    make_package, module: types.ModuleType, name: str
) -> None:
    source = """
        class Fast:
            @staticmethod
            def static(x): return ("fast", x)
            @classmethod
            def klass(cls, x): return ("fast", x)
        """
    make_package({"plugin": source})
    put(Replace("m:function", f"plugin:Fast.{name}"), module)
    assert module.function(1) == ("fast", 1)


def test_a_function_put_in_an_instance_is_called_as_python_calls_it(module: types.ModuleType) -> None:
    slot, _ = put(Replace("m:instance.method", new), module)
    assert module.instance.method(1) == ("new", 1)
    slot.write(ABSENT)
    put(Wrap("m:instance.method", lambda original, x: ("wrapped", original(x))), module)
    assert module.instance.method(1) == ("wrapped", ("method", module.instance, 1))


def test_a_factory_on_a_static_method_gets_the_function_and_keeps_the_form(module: types.ModuleType) -> None:
    function = module.Owner.static
    put(Replace("m:Owner.static", factory=lambda found: functools.partial(found, 5)), module)
    assert type(vars(module.Owner)["static"]) is staticmethod
    assert module.Owner().static() == function(5)


def test_create_adds_what_is_missing_and_leaves_alone_what_exists(module: types.ModuleType) -> None:
    def built(target: str) -> Any:
        change = Replace(target, new, create=True)
        slot = change.find_slot(change.target, module)
        return change.build(slot.lookup(), slot)

    assert built("m:missing") is new
    assert built("m:Owner.missing") is new
    for existing in ("m:function", "m:Owner.inherited", "m:Owner.of_meta", "m:lazy"):
        assert built(existing) == Skip(f"{existing} already exists")


def test_create_always_adds_what_is_missing_and_replaces_what_exists(module: types.ModuleType) -> None:
    def built(target: str) -> Any:
        change = Replace(target, new, create="always")
        slot = change.find_slot(change.target, module)
        return change.build(slot.lookup(), slot)

    for target in ("m:missing", "m:Owner.missing", "m:function", "m:Owner.inherited", "m:lazy"):
        assert built(target) is new
    assert Replace("m:function", new, create="always").covers


@pytest.mark.parametrize(
    "change",
    [Replace("m:lazy", new, when_call=bool), Replace("m:lazy", factory=new), Wrap("m:lazy", new)],
    ids=["when_call", "factory", "wrap"],
)
def test_what_needs_an_original_is_refused_where_none_is_loaded(module: types.ModuleType, change: Any) -> None:
    with pytest.raises(TargetError, match=r"m:lazy is loaded lazily .* target the module that defines it"):
        put(change, module)


# --- wrap, register, call -------------------------------------------------------------------------------------------


def test_a_wrapper_is_imported_when_it_is_built(make_package, module: types.ModuleType) -> None:
    make_package({"plugin": "def note(original, x): return ('noted', original(x))\nTEXT = 'no function'"})
    put(Wrap("m:function", "plugin:note"), module)
    assert module.function(1) == ("noted", ("function", 1))
    with pytest.raises(DeclarationError, match=r"'no function' is not callable"):
        put(Wrap("m:function", "plugin:TEXT"), module)


def test_a_class_is_registered_under_another_name_and_by_text(make_package, module: types.ModuleType) -> None:
    make_package({"plugin": "class Net: ..."})
    put(Register("m:MODELS", "plugin:Net"), module)
    put(Register("m:MODELS", "plugin:Net", name="Old"), module)
    net = importlib.import_module("plugin").Net
    assert module.MODELS._module_dict == {"Net": net, "Old": net}


def test_an_entry_is_not_replaced_without_force(module: types.ModuleType) -> None:
    with pytest.raises(DeclarationError, match=r"m:MODELS already has 'Old' .* pass force=True"):
        put(Register("m:MODELS", dict, name="Old", force=False), module)


def test_a_registry_of_dots_is_pinned_like_any_target() -> None:
    target = Register("json.MODELS", dict).target
    assert str(target.pin()) == "json:MODELS['dict']"


def test_a_function_is_called_with_module_and_a_copy_of_its_options(make_package) -> None:
    calls: list[Any] = []
    change = Call(lambda module, options: calls.append((module, options)), module="m", options={"x": 1})
    change.run("the module")
    calls[0][1]["x"] = 2
    assert change.options == {"x": 1}
    assert calls[0][0] == "the module"
    assert str(change.target) == "m:__dict__"
    make_package({"plugin": "class Legacy:\n    @staticmethod\n    def run(module, options): module.append(options)"})
    Call("plugin:Legacy.run", module="m").run(calls)
    assert calls[1] == {}


# --- resolve --------------------------------------------------------------------------------------------------------


def test_a_target_of_dots_is_resolved_too(make_package) -> None:
    make_package({"plugin": "", "plugin.fast": "class Ops:\n    TABLE = {'a': 1}"})
    assert resolve(Target.parse("plugin.fast.Ops.TABLE['a']")) == 1


def test_what_a_lazy_module_loads_is_resolved_by_asking_for_it(make_package) -> None:
    source = """
        class _Ops:
            @staticmethod
            def fast(): return "fast"
        def __getattr__(name):
            if name == "Ops":
                return _Ops
            raise AttributeError(f"plugin does not have {name} on this device")
        """
    make_package({"plugin": source})
    assert type(resolve(Target.parse("plugin:Ops.fast"), raw=True)) is staticmethod
    with pytest.raises(TargetNotFound, match="does not have Obs on this device"):
        resolve(Target.parse("plugin:Obs"))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("plugin:Ops.fats", "did you mean 'fast'"),
        ("plugin:TABLE['kye']", "did you mean 'key'"),
        ("plugin:TABLE['key'].x", "does not exist"),
    ],
)
def test_a_replacement_that_does_not_exist_is_not_found_with_the_nearest_name(
    make_package, text: str, hint: str
) -> None:
    make_package({"plugin": "class Ops:\n    def fast(self): ...\nTABLE = {'key': 1}"})
    for raw in (True, False):
        with pytest.raises(TargetNotFound, match=hint) as caught:
            resolve(Target.parse(text), raw=raw)
        assert isinstance(caught.value, PatchcoreError)


def test_what_is_no_target_resolves_to_itself() -> None:
    assert resolve(new) is new
    assert resolve(Literal("a:b")) == "a:b"


def test_what_a_metaclass_makes_up_is_resolved_for_a_class_too(make_package) -> None:
    source = """
        class Meta(type):
            def __getattr__(cls, name): return f"made up {name}"
        class Ops(metaclass=Meta): ...
        """
    make_package({"plugin": source})
    assert resolve(Target.parse("plugin:Ops.fast"), raw=True) == "made up fast"
