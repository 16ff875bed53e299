"""torch.compile traces wrappers and dispatchers as it traces the functions they stand for: no graph break."""

from __future__ import annotations

from typing import Any

import pytest

import patchcore as pc

LIBRARY = """
import functools, torch

def op(x, y=1, *, z=2):
    return x * y + z

class Owner(torch.nn.Module):
    def method(self, x): return x + 1
    @staticmethod
    def static(x): return x + 2
    @classmethod
    def klass(cls, x): return x + 3
    @property
    def prop(self): return 4
    def forward(self, x):
        return self.method(x) + self.static(x) + self.klass(x) + self.prop
"""


def more(original: Any, *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs) + 100


def changes_of(target: str) -> list[pc.Change]:
    return [
        pc.Wrap(target, more),
        pc.Replace(target, lambda *args, **kwargs: args[-1] + 7, when_call=lambda *args, **kwargs: True),
        pc.Replace(target, lambda *args, **kwargs: args[-1] + 7, when_call=lambda *args, **kwargs: False),
    ]


def compiles_into_one_graph(torch: Any, name: str, change: pc.Change, *, count: bool) -> None:
    """Compile a call of what ``change`` has patched, and compare the result with that of the call itself."""
    import compiled

    torch._dynamo.reset()
    x = torch.ones(2)
    with pc.Patcher([pc.Patch("p", change)], strict=True, count=count):
        module = compiled.Owner()
        use = (lambda x: compiled.op(3, x)) if name == "op" else (lambda x: module(x))
        assert torch.equal(torch.compile(use, fullgraph=True, backend="eager")(x), use(x))


def more_op(original: Any, x: Any, y: Any = 1, *, z: Any = 2) -> Any:
    return original(x, y, z=z) + 100


def more_method(original: Any, self: Any, x: Any) -> Any:
    return original(self, x) + 100


def more_static(original: Any, x: Any) -> Any:
    return original(x) + 100


def more_class(original: Any, cls: Any, x: Any) -> Any:
    return original(cls, x) + 100


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize(
    ("name", "wrapper"),
    [
        ("op", more_op),
        ("Owner.method", more_method),
        ("Owner.static", more_static),
        ("Owner.klass", more_class),
        ("Owner.forward", more_method),
    ],
)
def test_a_wrapper_with_the_parameters_of_the_original_compiles_into_one_graph(
    torch: Any, make_package: Any, name: str, wrapper: Any, count: bool
) -> None:
    make_package({"compiled": LIBRARY})
    compiles_into_one_graph(torch, name, pc.Wrap(f"compiled:{name}", wrapper), count=count)


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("name", ["op", "Owner.method", "Owner.static", "Owner.klass", "Owner.forward"])
def test_what_is_patched_compiles_into_one_graph(
    torch: Any, make_package: Any, name: str, number: int, count: bool
) -> None:
    make_package({"compiled": LIBRARY})
    compiles_into_one_graph(torch, name, changes_of(f"compiled:{name}")[number], count=count)
