"""Random graphs of many operators equal eager: forward, gradients, dynamic sizes, with conversions taken away.

The seeds are few, so that this is quick; ``PATCHCORE_GRAPH_SEEDS=500`` tries more.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from npu_graph.vendor import Declarations

SEEDS = range(int(os.environ.get("PATCHCORE_GRAPH_SEEDS", "6")))
Tensor = torch.Tensor

# all take and give [rows, columns], so that any may follow any; values stay near 1
ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "sin": torch.sin,
    "tanh": lambda x: x.tanh() * 1.5,
    "relu": torch.relu,
    "sigmoid": lambda x: x.sigmoid() - 0.5,
    "square": lambda x: (x * x).clamp(-2, 2),
    "softmax": lambda x: x.softmax(-1),
    "normalised": lambda x: torch.nn.functional.layer_norm(x, (x.shape[1],)),
    "centred": lambda x: x - x.mean(0, keepdim=True),
    "scaled": lambda x: x / (x.abs().amax(1, keepdim=True) + 1),
    "cumulated": lambda x: x.cumsum(1) / x.shape[1],
    "turned": lambda x: x.t().contiguous().t() + 0.5,
    "flipped": lambda x: x.flip(0),
    "rolled": lambda x: torch.cat([x[1:], x[:1]]),
    "flattened": lambda x: x.reshape(-1).sin().view(x.shape),
    "halves": lambda x: torch.cat([x[:, : x.shape[1] // 2] * 2, x[:, x.shape[1] // 2 :]], 1).clamp(-3, 3),
    "padded": lambda x: torch.nn.functional.pad(x, (1, 1))[:, 1:-1],
    "gathered": lambda x: x.gather(1, torch.arange(x.shape[1]).flip(0).expand(x.shape)),
    "picked": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)],
    "gram": lambda x: (x @ x.t()).tanh() @ x / x.shape[0],
    "strided": lambda x: torch.stack([x[:, ::2].sum(1), x[:, 1::2].sum(1)]).mean(0)[:, None] * 0.1 + x,
    "written": lambda x: x.clone().index_put((torch.tensor([0]),), x[1:2]),
    "dropped": lambda x: torch.nn.functional.dropout(x, 0.3).clamp(-3, 3),
    "inverted": lambda x: torch.linalg.inv(torch.eye(x.shape[0]) * 4 + (x @ x.t()).tanh()) @ x,  # eager
    "whole": lambda x: x + (x.detach() * 4).round().to(torch.uint8).float() / 256,
}
TWO: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda x, y: (x + y) / 2,
    "product": lambda x, y: (x * y).clamp(-3, 3),
    "larger": torch.maximum,
    "chosen": lambda x, y: torch.where(torch.arange(x.shape[1]) % 2 == 0, x, y),
    "row": lambda x, y: x + y[0] * 0.5,
    "column": lambda x, y: x * y.sigmoid().mean(1, keepdim=True),
    "quotient": lambda x, y: x / (y.abs() + 1),
    "mixed": lambda x, y: (x @ y.t()).softmax(1) @ y,
}


def random_function(generator: random.Random) -> Callable[..., Any]:
    """Return a function of two matrices that gives some of the values it computes."""
    steps: list[tuple[Callable[..., Tensor], tuple[int, ...]]] = []
    for count in range(2, generator.randint(5, 14)):
        arity, table = generator.choice([(1, ONE), (1, ONE), (2, TWO)])
        steps.append((table[generator.choice(sorted(table))], tuple(generator.choices(range(count), k=arity))))
    kept = sorted(generator.sample(range(2, 2 + len(steps)), min(2, len(steps))))

    def call(x: Tensor, y: Tensor) -> Any:
        values = [x, y]
        for function, places in steps:
            values.append(function(*(values[place] for place in places)))
        return tuple(values[place] for place in kept) + (
            sum(value.mean() for value in values),
        )  # all count: nobody draws for what is dead

    return call


def outcome(function: Callable[..., Any], shape: tuple[int, int]) -> list[Any]:
    """Return results and gradients, whose strides are up to autograd, from the same random numbers each time."""
    torch.manual_seed(5)
    inputs = [torch.randn(shape).requires_grad_() for _ in range(2)]
    results = function(*inputs)
    loss = sum((result * torch.linspace(-1, 1, result.numel()).view(result.shape)).sum() for result in results)
    return [*(result.detach() for result in results), *(x.contiguous() for x in torch.autograd.grad(loss, inputs))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs_equal_eager(compiler_of_each: Any, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    generator = random.Random(seed)
    function, dynamic = random_function(generator), generator.random() < 0.5
    vendor = compiler_of_each.vendor
    conversions = vendor.declarations.conversions
    share = generator.choice([0, 0, 0.1, 0.5])
    removed = {name for name in sorted(conversions) if generator.random() < share}
    kept = {name: conversion for name, conversion in conversions.items() if name not in removed}
    monkeypatch.setattr(vendor, "declarations", Declarations(kept))
    compiled = compiler_of_each(function, dynamic=dynamic, check="raise")
    for shape in [(4, 6), (3, 8)] if dynamic else [(4, 6)]:
        for got, wanted in zip(outcome(compiled, shape), outcome(function, shape)):
            torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4, check_stride=True)
