"""What goes into a slot: called as what was there, original within reach, exceptions never swallowed."""

from __future__ import annotations

import functools
import pickle
import sys
import warnings
from typing import Any, Callable

import pytest

from patchcore.errors import DeclarationError
from patchcore.objects.binding import (
    bind_like,
    copy_metadata,
    has_identity,
    held_value,
    make_dispatcher,
    wrap_raw,
)
from patchcore.objects.generated import signature_of


class Owner:
    def method(self, x: int) -> tuple[Any, ...]:
        return "original", self, x

    @staticmethod
    def static(x: int) -> tuple[Any, ...]:
        return "original", x

    @classmethod
    def klass(cls, x: int) -> tuple[Any, ...]:
        return "original", cls, x

    @property
    def prop(self) -> Any:
        return "original", self

    @prop.setter
    def prop(self, value: Any) -> None:
        self.was_set = value

    @functools.cached_property
    def cached(self) -> Any:
        return "original", self

    builtin = divmod


class Instance:
    def __call__(self, *args: Any) -> Any:
        return ("instance", *args)


def with_owner(name: str, raw: Any) -> type:
    klass = type("Patched", (), {key: value for key, value in vars(Owner).items() if not key.startswith("__")})
    setattr(klass, name, raw)
    return klass


# --- a replacement takes the form of what it replaces ---------------------------------------------------------------


def test_a_property_of_its_own_class_stays_of_that_class() -> None:
    class Special(property):
        pass

    assert type(bind_like(Special(lambda self: 1), lambda self: 2, in_class=True)) is Special


def test_a_function_in_place_of_a_cached_property_is_cached_under_the_name() -> None:
    calls: list[Any] = []
    raw = bind_like(vars(Owner)["cached"], calls.append, in_class=True)
    assert type(raw) is functools.cached_property
    made = with_owner("cached", raw)()
    assert made.cached is made.cached is None
    assert calls == [made]
    assert "cached" in vars(made)


#: A class binds a partial since Python 3.14.
PARTIALS = [functools.partial(divmod)] if sys.version_info < (3, 14) else []


@pytest.mark.parametrize("raw", [divmod, Instance(), *PARTIALS, Owner, Owner().method])
def test_a_function_in_place_of_what_a_class_does_not_bind_gets_no_instance(raw: Any) -> None:
    made = with_owner("builtin", bind_like(raw, lambda *args: args, in_class=True))()
    assert made.builtin(7, 2) == (7, 2)


def test_a_function_in_place_of_a_partial_is_bound_as_the_partial_is() -> None:
    partial = functools.partial(lambda *args: args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.13 warns that this is going to change
        expected = with_owner("builtin", partial)()
        made = with_owner("builtin", bind_like(partial, lambda *args: args, in_class=True))()
        assert len(made.builtin(7)) == len(expected.builtin(7))


@pytest.mark.parametrize("value", [Instance(), functools.partial(Instance()), Instance().__call__])
def test_what_a_class_does_not_bind_still_gets_the_instance_in_place_of_a_method(value: Any) -> None:
    made = with_owner("method", bind_like(vars(Owner)["method"], value, in_class=True))()
    assert made.method(2) == ("instance", made, 2)


def test_a_builtin_in_place_of_a_method_gets_the_instance() -> None:
    made = with_owner("method", bind_like(vars(Owner)["method"], isinstance, in_class=True))()
    assert made.method(object) is True
    assert type(made).method.__name__ == "isinstance"


@pytest.mark.parametrize("value", [staticmethod(divmod), classmethod(divmod), property(id), Owner, 3, None, "text"])
@pytest.mark.parametrize("name", ["method", "static", "klass", "prop", "builtin"])
def test_a_descriptor_a_class_or_a_value_is_taken_as_it_is(name: str, value: Any) -> None:
    assert bind_like(vars(Owner)[name], value, in_class=True) is value


@pytest.mark.parametrize("raw", [len, lambda: None, Owner, 3, staticmethod(len)])
def test_outside_of_a_class_everything_is_taken_as_it_is(raw: Any) -> None:
    function = lambda: None  # noqa: E731
    assert bind_like(raw, function, in_class=False) is function


# --- wrap -----------------------------------------------------------------------------------------------------------


def note(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return ("wrapped", original(*args, **kwargs))


@pytest.mark.parametrize(
    ("raw", "wrapper", "message"),
    [
        (Owner, note, r"cannot wrap the class Owner.*wrap '.*:Owner.__init__', or Replace it with a subclass"),
        (3, note, r"cannot wrap 3: expected a callable, found int"),
        (property(), note, r"cannot wrap None"),
        (len, 3, r"a wrapper is called as wrapper\(original, \*args, \*\*kwargs\), but 3 is not callable"),
    ],
)
def test_what_cannot_be_wrapped_says_what_to_do(raw: Any, wrapper: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        wrap_raw(raw, wrapper, in_class=True)


# --- metadata -------------------------------------------------------------------------------------------------------


def test_names_documentation_and_public_attributes_are_copied_and_private_ones_are_not() -> None:
    def original(x: int) -> str:
        """Documented."""
        return ""

    original.public = 1
    original._torchdynamo_disable = True
    original._torchdynamo_orig_callable = len
    for made in (wrap_raw(original, note, in_class=False), make_dispatcher(original, original, bool, in_class=False)):
        assert (made.__module__, made.__name__, made.__qualname__, made.__doc__) == (
            original.__module__,
            original.__name__,
            original.__qualname__,
            "Documented.",
        )
        assert made.__annotations__ == original.__annotations__
        assert made.__annotations__ is not original.__annotations__
        # with torch loaded, TorchScript is told of it: tests/hostile/test_torchscript.py
        assert vars(made).keys() - {"__prepare_scriptable__"} == {"public", "__wrapped__"}
        assert made.__wrapped__ is original


@pytest.mark.parametrize("original", [divmod, functools.partial(divmod), Instance(), pytest.raises])
def test_any_callable_has_its_metadata_copied_as_far_as_it_has_any(original: Any) -> None:
    def function() -> None: ...

    assert copy_metadata(function, original).__wrapped__ is original


def test_metadata_of_the_wrong_kind_is_left_out() -> None:
    class Odd:
        __name__ = 3
        __annotations__ = "none"

        def __call__(self) -> None: ...

    def function() -> None: ...

    assert copy_metadata(function, Odd()).__name__ == "function"


# --- identity -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [len, note, Owner, sys, Instance()])
def test_callables_and_modules_are_followed_by_identity(value: Any) -> None:
    assert has_identity(value)


@pytest.mark.parametrize("value", [1, 1.5, "text", b"", None, True, (), [], {}, frozenset()])
def test_values_that_python_shares_are_not_followed_by_identity(value: Any) -> None:
    assert not has_identity(value)


def test_a_name_bound_by_value_to_a_static_method_holds_the_function() -> None:
    assert held_value(vars(Owner)["static"]) is Owner.static
    assert held_value(vars(Owner)["klass"]) is vars(Owner)["klass"]
    assert held_value(3) == 3


# --- pickling -------------------------------------------------------------------------------------------------------

PLUGIN = """
import patchcore

@patchcore.patch("shop:price")
def cheaper(x):
    return ("cheaper", x)

@patchcore.wrap("shop:Bag.weigh")
def heavier(original, self):
    return original(self) + 1
"""
SHOP = """
def price(x):
    return ("price", x)

def tax(x, rate=2):
    return x * rate

class Bag:
    def weigh(self):
        return 10
"""


def test_a_patched_function_is_pickled_by_reference(make_package, monkeypatch: pytest.MonkeyPatch) -> None:
    make_package({"shop": SHOP, "plugin": PLUGIN})
    import plugin
    import shop

    function = plugin.cheaper.function
    assert pickle.loads(pickle.dumps(function)) is function
    assert pickle.loads(pickle.dumps(plugin.heavier.function)) is plugin.heavier.function
    for made in (
        wrap_raw(shop.tax, note, in_class=False),
        make_dispatcher(shop.tax, shop.tax, lambda x, rate=2: True, in_class=False),
    ):
        monkeypatch.setattr(shop, "tax", made)
        assert pickle.loads(pickle.dumps(shop.tax)) is made
    monkeypatch.setattr(shop.Bag, "weigh", wrap_raw(shop.Bag.weigh, note, in_class=True))
    assert pickle.loads(pickle.dumps(shop.Bag.weigh)) is shop.Bag.weigh
    assert pickle.loads(pickle.dumps(shop.Bag().weigh))() == ("wrapped", 10)


def test_patched_functions_travel_to_spawned_workers(make_package, run_python) -> None:
    folder = make_package({"shop": SHOP, "plugin": PLUGIN})
    script = folder / "main.py"
    script.write_text(
        "import multiprocessing, patchcore, plugin, shop\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    with patchcore.Patcher([plugin.cheaper, plugin.heavier]), context.Pool(1) as pool:\n"
        "        print(pool.map(shop.price, [1, 2]))\n"
        "        print(pool.apply(shop.Bag.weigh, [shop.Bag()]))\n"
    )
    # the replacement itself travels; a wrapper's product goes by the name of the original, which is unpatched there
    assert run_python(script).splitlines() == ["[('cheaper', 1), ('cheaper', 2)]", "10"]


#: Since Python 3.14 annotations are computed when they are asked for; this one names what only a type checker imports.
LAZY = """
def lazy(x: NotImported, y: int = 1) -> "NotImported":
    return x, y
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="before Python 3.14 this def fails")
def test_annotations_that_cannot_be_computed_do_not_fail_a_patch() -> None:
    import annotationlib

    namespace: dict[str, Any] = {}
    exec(compile(LAZY, "lazy.py", "exec", dont_inherit=True), namespace)
    made = copy_metadata(lambda *args: args, namespace["lazy"])
    assert annotationlib.get_annotations(made, format=annotationlib.Format.STRING) == {
        "x": "NotImported", "y": "int", "return": "NotImported",
    }  # fmt: skip
    with pytest.raises(NameError):
        made.__annotations__
    wrapped = wrap_raw(namespace["lazy"], lambda original, x, y=1: original(x, y), in_class=False)
    assert wrapped(3) == (3, 1)
    assert list(signature_of(wrapped).parameters) == ["x", "y"]
