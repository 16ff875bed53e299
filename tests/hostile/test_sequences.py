"""Patches that come and go in any order: aliases stay together, and everything goes back to the identical object."""

from __future__ import annotations

import random
from typing import Any

import pytest

import patchcore as pc


def wrap(tag: str) -> Any:
    return lambda original, *args: f"<{tag}>{original(*args)}"


@pytest.fixture
def user(make_package: Any) -> Any:
    source = """
        from lib import f as f2, Net
        class C:
            op = staticmethod(f2)
        class Sub(Net): ...
        """
    library = """
        def f(): return "f"
        class Net:
            @classmethod
            def c(cls): return "c"
            @property
            def p(self): return "p"
        """
    make_package({"lib": library, "user": source, "late": "from lib import f as f3"})


def test_a_class_next_to_an_alias_that_the_same_patch_names_follows_too(user: Any) -> None:
    import user

    around = wrap("both")
    both = pc.Patch("both", [pc.Wrap("lib:f", around), pc.Wrap("user:f2", around)])
    with pc.Patcher([both], strict=True):
        assert user.C.op() == user.f2() == "<both>f"
    assert user.C.op is user.f2


def test_one_patch_of_an_inherited_class_method_and_its_origin_wraps_once(user: Any) -> None:
    import user

    once = wrap("once")
    both = pc.Patch("both", [pc.Wrap("lib:Net.c", once), pc.Wrap("user:Sub.c", once)])
    with pc.Patcher([both], strict=True):
        assert user.Sub.c() == "<once>c"


SOURCES = {
    "lib": "from lib.ops import f, Net",
    "lib.ops": """
        def f(): return "f"
        class Meta(type):
            def d(cls): return "d"
        class Net(metaclass=Meta):
            def m(self): return "m"
            alias = m
            @staticmethod
            def s(): return "s"
            @classmethod
            def c(cls): return "c"
        TABLE = {"f": f}
        """,
    "user": """
        from lib.ops import f as f2, Net
        m2, s2 = Net.m, Net.s
        class C:
            op, box, s = staticmethod(f2), f2, staticmethod(Net.s)
        class Sub(Net): ...
        class Own(Net):
            m = Net.m
        """,
    "kern": "\n".join(f"def f{i}(): return 'k'\ndef m{i}(self): return 'k'" for i in range(12)),
}
#: Names by value, and where they have it from.
ALIASES = {
    "user:f2": "lib.ops:f",
    "user:C.op": "lib.ops:f",
    "user:C.box": "lib.ops:f",
    "lib:f": "lib.ops:f",
    "user:m2": "lib.ops:Net.m",
    "user:Own.m": "lib.ops:Net.m",
    "lib.ops:Net.alias": "lib.ops:Net.m",
    "user:s2": "lib.ops:Net.s",
    "user:C.s": "lib.ops:Net.s",
}
TARGETS = sorted(
    {*ALIASES, *ALIASES.values(), "user:Sub.m", "user:Sub.c", "lib.ops:Net.c", "lib.ops:Meta.d", "lib.ops:Net.d"}
    | {"lib.ops:TABLE['f']"}
)
METHODS = {"m", "m2", "alias"}


def raw(path: str) -> Any:
    """Return what the owner itself holds."""
    import importlib

    module, _, name = path.partition(":")
    space: Any = vars(importlib.import_module(module))
    *outer, last = name.replace("['f']", ".f").split(".")
    for part in outer:
        space = space[part] if isinstance(space[part], dict) else vars(space[part])
    return space.get(last, "absent")


def inner(value: Any) -> Any:
    return value.__func__ if isinstance(value, staticmethod) else value


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", range(60))
def test_any_sequence_keeps_aliases_together_and_ends_where_it_began(make_package: Any, seed: int) -> None:
    make_package(SOURCES)
    choose = random.Random(seed)
    before = {path: raw(path) for path in TARGETS}
    patchers: list[tuple[list[str], pc.Patcher]] = []
    for number in range(choose.randint(2, 6)):
        targets = choose.sample(TARGETS, choose.choice((1, 1, 1, 2)))
        around = wrap(str(number))
        changes: list[Any] = []
        for place, target in enumerate(targets):
            last = target.rpartition(":")[2].rpartition(".")[2]
            if last in ("c", "d") or choose.random() < 0.75:
                changes.append(pc.Wrap(target, around))
            else:  # one function is in one place: whose name took it from where could not be told otherwise
                changes.append(pc.Replace(target, f"kern:{'m' if last in METHODS else 'f'}{2 * number + place}"))
        patchers.append((targets, pc.Patcher([pc.Patch(str(number), changes)])))
    for _ in range(14):
        _, one = choose.choice(patchers)
        one.revert() if one.applied else one.apply()
        patched = {target for targets, other in patchers if other.applied for target in targets}
        for alias, source in ALIASES.items():
            if alias not in patched and "lib:f" not in patched:  # which is a name of f too, for others to follow
                assert inner(raw(alias)) is inner(raw(source)), (alias, patched)
    for _, one in choose.sample(patchers, len(patchers)):
        one.revert()
    for path, value in before.items():
        assert raw(path) is value, path
