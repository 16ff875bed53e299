"""Targets as text: read, written back, pinned to their module without importing it."""

from __future__ import annotations

import copy
import operator
import pickle
import string
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchcore.declare.target import Item, Target
from patchcore.errors import TargetError
from patchcore.objects.modules import ABSENT

# --- the text -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "module", "path"),
    [
        ("m:f", "m", ("f",)),
        ("a.b.c:Class.method", "a.b.c", ("Class", "method")),
        ("m:Outer.Inner.method", "m", ("Outer", "Inner", "method")),
        ('m:TABLE["key"]', "m", ("TABLE", Item("key"))),
        ("m:TABLE['a:b.c[0]']", "m", ("TABLE", Item("a:b.c[0]"))),
        ("m:TABLE[0]", "m", ("TABLE", Item(0))),
        ("m:TABLE[-1]", "m", ("TABLE", Item(-1))),
        ('m:TABLE["a"][1].attr', "m", ("TABLE", Item("a"), Item(1), "attr")),
        (r'm:TABLE["a \" quote"]', "m", ("TABLE", Item('a " quote'))),
        ('m:TABLE[(1, "a]")].f', "m", ("TABLE", Item((1, "a]")), "f")),
        ("m:TABLE[None]", "m", ("TABLE", Item(None))),
        ("m:TABLE[1.5][b'x'][True]", "m", ("TABLE", Item(1.5), Item(b"x"), Item(True))),
        ("m:TABLE[m.kinds:Kind.RED]", "m", ("TABLE", Item(Target("m.kinds", ("Kind", "RED"))))),
        ("a.TABLE[m:Kind].f", "", ("a", "TABLE", Item(Target("m", ("Kind",))), "f")),
        ("m:_private.__init__", "m", ("_private", "__init__")),
        ("módulo:función", "módulo", ("función",)),
        ("a.b.c", "", ("a", "b", "c")),
        ("a['key']", "", ("a", Item("key"))),  # pinned, that is an item of module a itself: refused as a slot
        ('a.b.TABLE["x:y"]', "", ("a", "b", "TABLE", Item("x:y"))),
    ],
)
def test_a_target_is_read_and_written_back(text: str, module: str, path: tuple[Any, ...]) -> None:
    target = Target.parse(text)
    assert target == Target(module, path)
    assert Target.parse(str(target)) == target


_letters = string.ascii_letters + "_"
_names = st.builds(operator.add, st.sampled_from(_letters), st.text(_letters + string.digits, max_size=8))
_named = st.builds(Target, st.lists(_names, min_size=1, max_size=2).map(".".join), st.tuples(_names))
_literals = st.text() | st.integers() | st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
_keys = st.builds(Item, _literals | st.binary() | st.tuples(_literals, _literals) | _named)
_paths = st.builds(lambda name, rest: (name, *rest), _names, st.lists(_names | _keys, max_size=4))


@given(module=st.lists(_names, min_size=1, max_size=3).map(".".join), path=_paths)
def test_any_target_survives_being_written_and_read(module: str, path: tuple[Any, ...]) -> None:
    assert Target.parse(str(Target(module, path))) == Target(module, path)


@given(first=_names, path=_paths)
def test_any_target_of_dots_survives_being_written_and_read(first: str, path: tuple[Any, ...]) -> None:
    assert Target.parse(str(Target("", (first, *path)))) == Target("", (first, *path))


def test_a_module_inside_a_package_may_begin_with_a_digit() -> None:
    assert Target.parse("cache.5296adff.modeling:Norm.forward") == Target(
        "cache.5296adff.modeling", ("Norm", "forward")
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has nothing"),
        ("m:", "has nothing after the module"),
        (":f", "'' is not a dotted module name"),
        ("m", "names a module, not something in it; write 'm:attribute'"),
        ("m.:f", "'m.' is not a dotted module name"),
        ("m..n:f", "'m..n' is not a dotted module name"),
        ("m n:f", "'m n' is not a dotted module name"),
        ("1m:f", "'1m' is not a dotted module name"),
        ("m/n.py:f", "'m/n.py' is not a dotted module name"),
        ("m:.f", "cannot read '.f'"),
        ("m:f.", "cannot read '.'"),
        ("m:f..g", "cannot read '..g'"),
        ("m:f g", "cannot read ' g'"),
        ("m:f()", "cannot read '()'"),
        ("m:f:g", "cannot read ':g'"),
        ("m: f", "cannot read ' f'"),
        ("m:T[", "cannot read '['"),
        ("m:T[key]", "cannot read '[key]'"),
        ("m:T['key\"]", "cannot read"),
        ("m:T['key']x", "cannot read 'x'"),
        ("m:T[[1]]", "cannot read '[[1]]'"),
        ("m:T[m:]", "cannot read '[m:]'"),
        ("m:T[f()]", "cannot read '[f()]'"),
        ("m:T[01]", "01 is not a Python string or integer literal"),
        ('m:T["\\x"]', "is not a Python string or integer literal"),
        ("m:['key']", "has nothing after the module"),
        ("['key'].f.g", "has nothing after the module"),
    ],
)
def test_a_malformed_target_says_what_cannot_be_read(text: str, complaint: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target.parse(text)
    assert complaint in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("value", [None, 3, len, ("m", "f")])
def test_a_target_that_is_no_text_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(TargetError, match=r"a target is a string like 'package.module:Class.attribute', got"):
        Target.parse(value)


def test_a_target_knows_its_top_level_package() -> None:
    assert Target.parse("a.b:c.d").root == "a"
    assert Target.parse("a.b.c").root == "a"


def test_a_target_covers_what_lies_inside_it() -> None:
    klass = Target.parse("m:Class")
    assert klass.covers(klass)
    assert klass.covers(Target.parse("m:Class.method"))
    assert not klass.covers(Target.parse("m:Classes"))
    assert not klass.covers(Target.parse("n:Class.method"))
    assert not Target.parse("m:Class.method").covers(klass)


def test_absent_stays_the_one_object_through_copies_and_pickles() -> None:
    assert copy.deepcopy(ABSENT) is ABSENT
    assert pickle.loads(pickle.dumps(ABSENT)) is ABSENT
    assert repr(ABSENT) == "<absent>"


# --- dots only ------------------------------------------------------------------------------------------------------

BOOM = "raise AssertionError('this module must not be imported')"


@pytest.mark.parametrize(
    ("text", "pinned"),
    [
        ("shop.tools.price", "shop.tools:price"),
        ("shop.tools.Bag.size", "shop.tools:Bag.size"),
        ("shop.price", "shop:price"),
        ("shop.weigh.weigh", "shop.weigh:weigh"),  # a function shadows its module: the module is still meant
        ('shop.tools.TABLE["a"]', 'shop.tools:TABLE["a"]'),
        ("nothing.here.at_all", "nothing:here.at_all"),
        ("shop.tools:price", "shop.tools:price"),
    ],
)
def test_dots_are_pinned_to_the_longest_module_and_nothing_is_imported(make_package, text: str, pinned: str) -> None:
    make_package({"shop": BOOM, "shop.tools": BOOM, "shop.weigh": BOOM})
    before = dict(sys.modules)
    assert Target.parse(text).pin() == Target.parse(pinned)
    assert sys.modules == before


def test_the_last_step_of_dots_is_never_taken_for_a_module(make_package) -> None:
    make_package({"shop": BOOM, "shop.weigh": BOOM})
    assert str(Target.parse("shop.weigh").pin()) == "shop:weigh"
