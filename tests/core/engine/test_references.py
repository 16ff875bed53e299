"""By-value references: found by identity wherever they can be rebound, reported where they cannot."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from typing import Any

import pytest
from library import LIBRARY, load, new

import patchcore
from patchcore.builtin.holders.search import find_unreachable
from patchcore.declare.target import Target
from patchcore.engine.references import StaticSlot, find_references, is_home, names_read_by
from patchcore.objects.modules import loaded_modules


def names(found: Any) -> set[str]:
    return {slot.name for slot, _ in found}


# --- what is found --------------------------------------------------------------------------------------------------


def test_several_objects_are_found_in_one_pass_each_with_its_places(make_package) -> None:
    m = load(make_package, {"user": "from lib.ops import conv, pool, Net"})
    found = find_references([m.ops.conv, m.ops.pool, m.ops.Net], loaded_modules())
    by_object = {id(m.ops.conv): set(), id(m.ops.pool): set(), id(m.ops.Net): set()}
    for slot, held in found:
        by_object[id(held)].add(slot.name)
    assert by_object[id(m.ops.conv)] == {"lib.ops:conv", "lib:conv", "user:conv"}
    assert by_object[id(m.ops.pool)] == {"lib.ops:pool", "user:pool"}
    assert by_object[id(m.ops.Net)] == {"lib.ops:Net", "user:Net"}


def test_a_module_with_two_names_is_reported_once(make_package, monkeypatch: pytest.MonkeyPatch) -> None:
    m = load(make_package, {"user": "from lib.ops import conv"})
    monkeypatch.setitem(sys.modules, "same_user", m.user)
    found = find_references([m.ops.conv], loaded_modules())
    assert len([slot for slot, _ in found if slot.owner is m.user]) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import lib\nclass User:\n    op = staticmethod(lib.ops.conv)",
        "import lib.ops as o\nclass User:\n    op = staticmethod(o.conv)",
        "from lib import ops\nclass User:\n    op = ops.conv",
    ],
)
def test_a_class_that_reaches_the_object_through_a_module_is_opened(make_package, source: str) -> None:
    m = load(make_package, {"user": source})
    assert "user:User.op" in names(find_references([m.ops.conv], loaded_modules()))


@pytest.mark.parametrize("name", ["lib.ops:Net.alias", "user:Sub.fwd"])
def test_a_method_is_found_under_another_name_in_its_class_and_others(make_package, name: str) -> None:
    m = load(make_package, {"user": "from lib.ops import Net\nclass Sub(Net):\n    fwd = Net.forward"})
    assert name in names(find_references([m.ops.Net.forward], loaded_modules()))


def test_the_search_wakes_no_lazy_module_and_asks_no_proxy(make_package) -> None:
    source = """
        import importlib.util, sys
        from lib.ops import conv
        spec = importlib.util.find_spec("sleepy")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        sleepy = importlib.util.module_from_spec(spec)
        sys.modules["sleepy"] = sleepy
        spec.loader.exec_module(sleepy)
        class Proxy:
            @property
            def __dict__(self): raise RuntimeError("outside")
            @property
            def __class__(self): raise RuntimeError("outside")
        proxy = Proxy()
        class Holder:
            held, lazy = Proxy(), sleepy
        def __getattr__(name): raise AssertionError(name)
        def conv_twice(x): return conv(conv(x)), proxy, sleepy
        """
    make_package({**LIBRARY, "user": source, "sleepy": "raise AssertionError('woken')"})
    ops, user = importlib.import_module("lib.ops"), importlib.import_module("user")
    assert "user:conv" in names(find_references([ops.conv], loaded_modules()))
    find_unreachable([ops.conv])
    names_read_by(user.conv_twice)
    names_read_by(user.Holder)
    is_home(Target.parse("user:sleepy"), user.sleepy)
    with patchcore.Patcher([patchcore.Patch("p", [patchcore.Replace("user:sleepy", new)])]):
        assert user.sleepy is new
    assert type(user.sleepy) is importlib.util._LazyModule


def test_a_class_written_in_c_is_not_offered(make_package) -> None:
    found = find_references([dict.__dict__["fromkeys"], str.upper], loaded_modules())
    assert not [slot for slot, _ in found if isinstance(slot.owner, type)]


# --- forms ----------------------------------------------------------------------------------------------------------


def test_a_static_method_is_rebound_in_its_form_and_comes_back_as_the_same_object() -> None:
    class Holder:
        op = staticmethod(len)

    raw = vars(Holder)["op"]
    slot = StaticSlot.of(Holder, "op", "m:Holder.op", raw)
    assert slot.read() is len
    slot.write(new)
    assert type(vars(Holder)["op"]) is staticmethod
    assert Holder().op(1) == ("new", 1)
    assert slot.read() is new
    slot.write(len)
    assert vars(Holder)["op"] is raw


def test_a_builtin_in_a_class_is_rebound_without_becoming_a_method() -> None:
    class Holder:
        op = divmod

    slot = StaticSlot.of(Holder, "op", "m:Holder.op", divmod)
    slot.write(new)
    assert Holder().op(1) == ("new", 1)
    slot.write(divmod)
    assert vars(Holder)["op"] is divmod


def test_what_somebody_else_wrote_is_read_as_it_is() -> None:
    class Holder:
        op = staticmethod(len)

    slot = StaticSlot.of(Holder, "op", "m:Holder.op", vars(Holder)["op"])
    slot.write(new)
    Holder.op = staticmethod(sorted)
    assert slot.read() is sorted
    Holder.op = 3
    assert slot.read() == 3


# --- whose name it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "home"),
    [
        ("lib.ops:conv", True),
        ("lib:conv", True),  # a package around the definition re-exports it
        ("user:c", False),  # a consumer's own name
        ("user:other.conv", False),
    ],
)
def test_a_target_is_home_where_the_object_is_defined_and_in_the_packages_around(
    make_package, target: str, home: bool
) -> None:
    m = load(make_package, {"user": "from lib.ops import conv as c"})
    assert is_home(Target.parse(target), m.ops.conv) is home


def test_an_object_whose_name_leads_nowhere_is_at_home_anywhere(make_package) -> None:
    m = load(make_package, {"user": "fn = (lambda: (lambda x: x))()\npartial = __import__('functools').partial(fn)"})
    assert is_home(Target.parse("user:fn"), m.user.fn)
    assert is_home(Target.parse("user:partial"), m.user.partial)


def test_an_attribute_that_a_class_inherits_is_not_the_subclass_s_own(make_package) -> None:
    m = load(make_package, {"user": "from lib.ops import Net\nclass Sub(Net): ..."})
    assert is_home(Target.parse("lib.ops:Net.forward"), m.ops.Net.forward)
    assert not is_home(Target.parse("user:Sub.forward"), m.ops.Net.forward)


def test_a_module_is_at_home_in_the_package_around_it(make_package) -> None:
    m = load(make_package, {"user": "import lib.ops as ops"})
    assert is_home(Target.parse("lib:ops"), m.ops)
    assert not is_home(Target.parse("user:ops"), m.ops)


def test_recursive_closures_are_followed_to_an_end() -> None:
    def one() -> None:
        two()

    def two() -> None:
        one()

    assert names_read_by(one) == set()
    assert names_read_by(functools.partial(len)) == set()
    assert names_read_by(3) == set()


# --- what cannot be rebound -----------------------------------------------------------------------------------------


def test_each_place_is_reported_with_the_object_it_holds(make_package) -> None:
    m = load(make_package, {"user": "from lib.ops import conv, pool\nBOTH = [conv, pool]"})
    found = {place.where: held for held, place in find_unreachable([m.ops.conv, m.ops.pool])}
    assert found["user:BOTH[0]"] is m.ops.conv
    assert found["user:BOTH[1]"] is m.ops.pool


def test_holders_that_are_known_are_not_reported(make_package) -> None:
    m = load(make_package, {"user": "from lib.ops import conv\ndef known(x, op=conv): ...\nTABLE = {1: conv}"})
    found = find_unreachable([m.ops.conv], [m.user.known, m.user.TABLE])
    assert {place.where for _, place in found} == {"lib:conv", "lib.ops:conv", "user:conv"}
    assert find_unreachable([]) == []


def test_a_report_says_what_still_holds_the_original(make_package) -> None:
    m = load(make_package, {"user": "from lib.ops import conv\nTABLE = {'conv': conv}\ndef f(op=conv): ..."})
    wrapped = patchcore.Wrap("lib.ops:pool", lambda original, x: original(x))
    patch = patchcore.Patch("p", [patchcore.Replace("lib.ops:conv", new), wrapped])
    with patchcore.Patcher([patch]) as patcher:
        conv, pool = patcher.report(unreachable=True)["p"].changes
        assert [place.partition(" (")[0] for place in conv.unreachable] == [
            "default argument user:f",
            "dict user:TABLE['conv']",
        ]
        assert pool.unreachable == ()  # the wrapper itself holds it, as it should
        assert m.user.TABLE["conv"] is not new
