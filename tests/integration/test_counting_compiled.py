"""Counting and torch.compile: the same graphs, no recompilation, and patches that graphs use are hit."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import patchcore as pc

torch = pytest.importorskip("torch")

MODEL = """
    import torch
    def act(x, scale=1.0): return torch.relu(x) * scale
    class Block(torch.nn.Module):
        def forward(self, x): return act(x, scale=2.0) + act(x)
"""


def new_act(x: Any, scale: float = 1.0) -> Any:
    return torch.sin(x) * scale


def new_forward(self: Any, x: Any) -> Any:
    return new_act(x) - 1


def wrapper(original: Any, x: Any, scale: float = 1.0) -> Any:
    return original(x, scale=scale) + 3


CHANGES = {
    "replace": lambda name: pc.Replace(f"{name}:act", new_act),
    "method": lambda name: pc.Replace(f"{name}:Block.forward", new_forward),
    "wrap": lambda name: pc.Wrap(f"{name}:act", wrapper),
    "builtin": lambda name: pc.Replace(f"{name}:act", torch.relu, when_call=lambda x, **rest: not rest),
    "when_call": lambda name: pc.Replace(f"{name}:act", new_act, when_call=lambda x, scale=1.0: scale == 2.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_counted_target_compiles_whole_and_once(make_package: Any, change: str) -> None:
    name = f"compiled_model_{change}"  # torch.compile remembers modules by their names
    make_package({name: MODEL})
    module = importlib.import_module(name)
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    patch = pc.Patch("p", [CHANGES[change](name)])
    x = torch.linspace(-1, 1, 5)
    with pc.Patcher([patch]):
        expected = module.Block()(x)
    with pc.Patcher([patch], strict=True, count=True) as patcher:
        torch._dynamo.reset()
        block = module.Block()
        compiled = torch.compile(block, backend=backend, fullgraph=True)
        for _ in range(3):
            assert torch.equal(compiled(x), expected)
        assert len(graphs) == 1
        (traced,) = patcher.report()["p"].changes
        assert traced.calls
        assert not patcher.report().never_hit
        block(x)  # between two calls of the graph, the numbers change
        compiled(x)
        assert len(graphs) == 1
        (after,) = patcher.report()["p"].changes
        assert after.calls == traced.calls + (1 if change == "method" else 2)
        if change in ("when_call", "builtin"):
            assert traced.replaced == traced.calls // 2
    torch._dynamo.reset()


def test_gradients_are_those_of_the_replacement(make_package: Any) -> None:
    make_package({"differentiated_model": MODEL})
    module = importlib.import_module("differentiated_model")
    x = torch.linspace(-1, 1, 5, requires_grad=True)
    with pc.Patcher([pc.Patch("p", [pc.Replace("differentiated_model:act", new_act)])], count=True) as patcher:
        module.Block()(x).sum().backward()
        assert torch.allclose(x.grad, 3 * torch.cos(x))
        assert patcher.report()["p"].changes[0].calls == 2
