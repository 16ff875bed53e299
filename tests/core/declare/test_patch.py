"""Patches: named groups of changes, and the decorators that make one of a function."""

from __future__ import annotations

import copy
import functools
import pickle
import sys
import types
from typing import Any

import pytest

import patchcore
from patchcore import Call, Check, Patch, Register, Replace, Wrap
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError


def new(*args: Any) -> Any:
    return ("new", *args)


# --- Patch ----------------------------------------------------------------------------------------------------------


def test_a_patch_keeps_what_it_is_given_in_one_form() -> None:
    other = Patch("lib.other")
    made = Patch(
        "lib.what",
        [Replace("m:f", new, aliases=["n:f"]), Wrap("m:g", new)],
        requires="lib>=1",
        needs=["a", "b"],
        after=other,
        before=[other, "lib.third"],
        conflicts=("lib.fourth",),
        legacy_names="what",
        options={"x": 1},
        checks=[Check(new)],
        default=0,
    )
    assert [str(change.target) for change in made.changes] == ["m:f", "n:f", "m:g"]
    assert made.requires == ("lib>=1",)
    assert made.needs == ("a", "b")
    assert made.after == ("lib.other",)
    assert made.before == ("lib.other", "lib.third")
    assert made.names == {"lib.what", "what"}
    assert made.default is False
    assert made.checks == (Check(new),)
    assert str(made) == "lib.what"


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: Patch("two words"),
            r"got 'two words'; write Patch\('library.what'\)",
        ),
        (lambda: Patch(""), r"a patch name may contain only letters"),
        (lambda: Patch(None), r"got None"),
        (lambda: Patch("p", [new]), r"Patch\('p'\): .* is not a change; expected Replace, Wrap, Register, Call or"),
        (lambda: Patch("p", "m:f"), r"'m:f' is not a change"),
        (lambda: Patch("p", 3), r"changes must be a list, got 3"),
        (lambda: Patch("p", when=True), r"when must be callable, got True"),
        (lambda: Patch("p", requires=3), r"requires must be a list, got 3"),
        (lambda: Patch("p", requires=[3]), r"requires contains 3; expected a string"),
        (lambda: Patch("p", after=[" "]), r"after contains ' '; expected a string"),
        (lambda: Patch("p", keep="m.f"), r"keep contains 'm.f'; write 'package.module:name'"),
        (lambda: Patch("p", signatures="all"), r"signatures must be 'fit' or 'any', got 'all'"),
        (lambda: Patch("p", priority="high"), r"priority must be a number"),
        (lambda: Patch("p", summary=3), r"summary must be a string, got 3"),
        (lambda: Patch("p", upstream=3), r"upstream must be a string, got 3"),
        (lambda: Patch("p", remove_when=3), r"remove_when must be a string, got 3"),
        (lambda: Patch("p", options=3), r"options must be a mapping, got 3"),
        (lambda: Patch("p", checks=3), r"checks must be a list, got 3"),
        (lambda: Patch("p", checks=[3]), r"checks contains 3; expected Check\(...\)"),
    ],
)
def test_a_malformed_patch_says_what_fixes_it(declare: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declare()


def test_a_patch_cannot_be_changed() -> None:
    made = Patch("p", options={"x": 1})
    for name in ("name", "changes", "something"):
        with pytest.raises(AttributeError, match="Patch is immutable"):
            setattr(made, name, "q")
    with pytest.raises(TypeError):
        made.options["x"] = 2


def test_patches_are_equal_when_they_say_the_same() -> None:
    def declare(**changed: Any) -> Patch:
        given: dict[str, Any] = {
            "requires": ["lib>=1"],
            "options": {"sizes": [1, 2]},
            "checks": Check("lib.checks:draw", rtol=0.5),
            **changed,
        }
        return Patch("p", [Replace("m:f", new), Call(new, module="m")], **given)

    assert declare() == declare()
    assert hash(declare()) == hash(declare())
    assert declare() != declare(priority=1)
    assert declare() != declare(checks=Check("lib.checks:draw"))
    assert declare() != Replace("m:f", new)
    assert copy.copy(declare()) == declare()


def test_options_are_laid_over_the_declared_ones_and_reach_calls() -> None:
    made = Patch("p", [Call(new, module="m", options={"y": 1}), Replace("m:f", new)], options={"x": 1, "z": 2})
    changed = made.with_options({"x": 5})
    assert changed.options == {"x": 5, "z": 2}
    assert changed.changes[0].options == {"y": 1, "x": 5}
    assert changed.changes[1] is made.changes[1]
    assert made.options == {"x": 1, "z": 2}
    assert changed != made


def test_an_option_that_a_patch_does_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(DeclarationError, match=r"patch p has no option 'spee'; did you mean 'speed'\?"):
        Patch("p", options={"speed": 1}).with_options({"spee": 2})
    assert Patch("p").with_options({"anything": 1}).options == {"anything": 1}


@pytest.mark.parametrize(
    ("first", "second", "stacks"),
    [
        ({}, {}, False),
        ({"after": "b"}, {}, True),
        ({"before": "b"}, {}, True),
        ({}, {"after": "a"}, True),
        ({}, {"before": "old-a"}, True),
        ({"after": "c"}, {"before": "c"}, False),
    ],
)
def test_two_patches_stack_when_one_is_ordered_after_the_other(first: Any, second: Any, stacks: bool) -> None:
    a, b = Patch("a", legacy_names="old-a", **first), Patch("b", **second)
    assert a.stacks_with(b) is b.stacks_with(a) is stacks


# --- decorators -----------------------------------------------------------------------------------------------------


@patchcore.patch("lib.ops:f", requires="lib>=1")
def replacement(x: int) -> int:
    """Do it faster.

    At length.
    """
    return x


@patchcore.wrap("lib.ops:g", name="lib.other_name", summary="given")
def wrapper(original: Any, x: int) -> Any:
    """Not the summary."""
    return original(x)


@patchcore.patch("lib.ops:Class")
class Subclass:
    pass


def test_the_decorated_name_is_the_patch() -> None:
    root = __name__.partition(".")[0]
    assert isinstance(replacement, Patch)
    assert replacement.name == f"{root}.replacement"
    assert replacement.summary == "Do it faster."
    assert replacement.requires == ("lib>=1",)
    assert replacement.changes == (Replace("lib.ops:f", replacement.function),)
    assert replacement.function(3) == 3
    assert (wrapper.name, wrapper.summary) == ("lib.other_name", "given")
    assert wrapper.changes == (Wrap("lib.ops:g", wrapper.function),)


def test_a_predicate_and_a_parsed_target_may_be_given() -> None:
    target = Target.parse("lib.ops:f")
    made = patchcore.patch(target, when_call=bool)(lambda_named("f"))
    assert made.changes[0].when_call is bool
    assert made.changes[0].target is target


def lambda_named(name: str) -> Any:
    function = types.FunctionType((lambda x: x).__code__, globals(), name)
    function.__qualname__ = f"somewhere.<locals>.{name}"
    return function


@pytest.mark.parametrize("made", [replacement, wrapper, Subclass])
def test_what_is_decorated_can_be_pickled_by_reference(made: Patch) -> None:
    assert pickle.loads(pickle.dumps(made.function)) is made.function


def test_a_callable_without_a_name_needs_one() -> None:
    partial = functools.partial(new)
    with pytest.raises(DeclarationError, match=r"has no __name__; pass name='library.what'"):
        patchcore.patch("lib.ops:f")(partial)
    assert patchcore.patch("lib.ops:f", name="lib.f")(partial).function is partial


@pytest.mark.parametrize("decorator", [patchcore.patch, patchcore.wrap])
def test_a_decorator_without_a_target_says_how_it_is_written(decorator: Any) -> None:
    with pytest.raises(DeclarationError, match=r"has no target; write @\w+\('package.module:attribute'\)"):

        @decorator
        def function() -> None: ...


@pytest.mark.parametrize("decorator", [patchcore.patch, patchcore.wrap])
def test_an_unknown_argument_is_refused_with_the_nearest(decorator: Any) -> None:
    with pytest.raises(DeclarationError, match=r"\('m:f'\): unknown argument 'require'; did you mean 'requires'\?"):
        decorator("m:f", require="lib>=1")
    with pytest.raises(DeclarationError, match=r"unknown argument 'changes'"):
        decorator("m:f", changes=[])


@pytest.mark.parametrize("decorator", [patchcore.patch, patchcore.wrap])
def test_two_decorators_on_one_function_are_refused_with_the_way_to_write_it(decorator: Any) -> None:
    with pytest.raises(DeclarationError, match=r"for several targets write Patch\('library.what', \[Replace"):
        decorator("m:f")(replacement)
    with pytest.raises(DeclarationError, match=r"decorates a function, got 3"):
        decorator("m:f")(3)


def test_a_malformed_target_is_refused_where_it_is_written() -> None:
    with pytest.raises(DeclarationError, match="cannot read"):
        patchcore.patch("m:f..g")(new)


def test_declaring_imports_no_library() -> None:
    Patch("p", [Replace("no_such_lib:f", "no_such_plugin:g"), Register("no_such_lib:MODELS", "no_such_plugin:Net")])
    assert not [name for name in sys.modules if name.startswith("no_such")]
