"""``only_in``: one module finds the change under its name for another module, and nobody else does."""

from __future__ import annotations

import copy
from types import ModuleType
from typing import Any, Callable

import pytest

import patchcore as pc

LIBRARY = {
    "functional": """
        def attention(q): return ("original", q)
        def other(q): return attention(q)
        """,
    "layers": """
        import functional as F
        from functional import attention
        def forward(q): return F.attention(q)
        """,
    "user": "import functional as F\ndef forward(q): return F.attention(q)",
}
TARGET = "layers:F.attention"


@pytest.fixture
def library(make_package: Any) -> tuple[Any, Any, Any]:
    make_package(LIBRARY)
    import functional
    import layers
    import user

    return functional, layers, user


CHANGES: dict[str, Callable[[], Any]] = {
    "replace": lambda: pc.Replace(TARGET, lambda q: ("new", ("original", q)), only_in="layers"),
    "wrap": lambda: pc.Wrap(TARGET, lambda original, q: ("new", original(q)), only_in="layers"),
    "factory": lambda: pc.Replace(TARGET, factory=lambda f: lambda q: ("new", f(q)), only_in="layers"),
    "when_call": lambda: pc.Replace(
        TARGET, lambda q: ("new", ("original", q)), when_call=lambda q: q == 1, only_in="layers"
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_only_that_module_finds_it(library: Any, kind: str) -> None:
    functional, layers, user = library
    for _ in range(2):
        with pc.Patcher([pc.Patch("p", CHANGES[kind]())], strict=True) as patcher:
            assert layers.forward(1) == ("new", ("original", 1))
            assert functional.attention(1) == functional.other(1) == user.forward(1) == layers.attention(1)
            assert user.forward(1) == ("original", 1)
            assert patcher.report()["p"].changes[0].rebound == ()
        assert layers.F is functional
        assert layers.forward(1) == ("original", 1)


def test_the_rest_of_the_module_is_as_it_was(library: Any) -> None:
    functional, layers, _ = library
    with pc.Patcher([pc.Patch("p", CHANGES["wrap"]())], strict=True):
        assert isinstance(layers.F, ModuleType)
        assert (layers.F.__name__, layers.F.__spec__, layers.F.other) == (
            functional.__name__,
            functional.__spec__,
            functional.other,
        )
        assert dir(layers.F) == dir(functional)
        layers.F.added = 3
        assert functional.added == 3
        with pytest.raises(AttributeError, match="module 'functional' has no attribute 'missing'"):
            layers.F.missing


def test_several_stack_and_go_in_any_order(library: Any) -> None:
    functional, layers, _ = library
    make = [
        lambda: pc.Patch("a", pc.Wrap(TARGET, lambda f, q: ("a", f(q)), only_in="layers")),
        lambda: pc.Patch("b", pc.Wrap(TARGET, lambda f, q: ("b", f(q)), only_in="layers"), after="a"),
        lambda: pc.Patch("all", pc.Wrap("functional:attention", lambda f, q: ("all", f(q)))),
        lambda: pc.Patch("other", pc.Replace("layers:F.other", lambda q: "other", only_in="layers")),
    ]
    for first in range(4):
        patchers = [pc.Patcher([one()], strict=True) for one in make]
        for patcher in patchers:
            patcher.apply()
        assert layers.forward(1) == ("b", ("a", ("all", ("original", 1))))
        assert layers.F.other(1) == "other"
        assert functional.other(1) == ("all", ("original", 1))
        for patcher in (patchers[first], *patchers):
            patcher.revert()
        assert layers.F is functional
        assert layers.forward(1) == ("original", 1)


def test_it_waits_for_its_module(make_package: Any) -> None:
    make_package(LIBRARY)
    with pc.Patcher([pc.Patch("p", CHANGES["wrap"]())], strict=True):
        import functional
        import layers

        assert layers.forward(1) == ("new", ("original", 1))
        assert functional.attention(1) == ("original", 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: pc.Replace(TARGET, len, only_in="functional"), "only_in must be the module of the target"),
        (lambda: pc.Replace("layers.F.attention", len, only_in="layers"), "only_in must be the module of the target"),
        (lambda: pc.Replace(TARGET, len, only_in="layers", everywhere=True), "only_in= excludes create="),
    ],
)
def test_what_cannot_be_meant_is_refused(change: Any, message: str) -> None:
    with pytest.raises(pc.DeclarationError, match=message):
        change()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("layers:attention", "only_in= needs a name in a module that layers imports, 'module:F.name'"),
        ("layers:forward.x", "only_in= needs a name in a module that layers imports, 'module:F.name'"),
        ("layers:F.attentoin", "layers:F has no attentoin; did you mean 'attention'?"),
    ],
)
def test_a_target_that_is_no_name_in_a_module_fails(library: Any, target: str, message: str) -> None:
    with pc.Patcher([pc.Patch("p", pc.Replace(target, len, only_in="layers"))]) as patcher:
        assert message in patcher.report()["p"].reason


def test_it_is_no_conflict_with_a_patch_of_the_whole(library: Any) -> None:
    everybody = pc.Patch("all", pc.Wrap("functional:attention", lambda f, q: f(q)))
    plan = pc.Patcher([pc.Patch("p", CHANGES["replace"]()), everybody]).plan()
    assert not plan.conflicts
    assert not plan.remarks(plan["p"])
    assert copy.copy(plan["p"].patch.changes[0]) == plan["p"].patch.changes[0]
