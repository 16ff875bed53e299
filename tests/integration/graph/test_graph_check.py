"""The precision check names the first subgraph that deviates from eager, and the operator in it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

from npu_graph.errors import DeviationError
from npu_graph.options import CHECK
from npu_graph.pipeline.checking import deviation

aten = torch.ops.aten


def call(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    return torch.tanh(y) * 2


@pytest.fixture
def inexact(reference: Any) -> None:
    """A tanh that is a little wrong."""

    @reference.conversion(aten.tanh.default, override=True)
    def tanh(operation: Any, self: Any) -> str:
        return f"np.tanh({self}) * np.float32(1.001)"


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_the_first_operator_that_deviates_is_named(
    inexact: None, compiler: Any, monkeypatch: Any, dynamic: bool
) -> None:
    monkeypatch.setenv(CHECK, "1")
    compiled = compiler(call, dynamic=dynamic)
    with pytest.raises(DeviationError) as caught:
        compiled(torch.randn(4, 5))
    for part in (
        "vendor reference: subgraph_0 of graph",
        "aten.tanh.default",
        "test_graph_check.py:",
        "20 of 20 elements",
    ):
        assert part in str(caught.value)


def test_a_check_that_warns_goes_on_with_what_eager_gives(inexact: None, compiler: Any, caplog: Any) -> None:
    x = torch.randn(4, 5)
    with caplog.at_level(logging.WARNING, "patchcore"):
        assert torch.equal(compiler(call, check="warn")(x), call(x))
    assert "aten.tanh.default" in caplog.text


def test_without_a_check_nothing_is_compared(inexact: None, compiler: Any) -> None:
    x = torch.randn(4, 5)
    assert not torch.equal(compiler(call)(x), call(x))


def test_kernels_that_agree_pass_with_gradients(compiler: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU())
    compiler(model, check=True)(torch.randn(2, 2, 6, 6)).sum().backward()
    assert len(compiler.records) == 2


@pytest.mark.parametrize(
    ("got", "wanted", "found"),
    [
        (torch.ones(3), torch.ones(3), None),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]), None),
        (torch.tensor([float("inf"), 1e-9]), torch.tensor([float("inf"), 0.0]), "1 of 2"),
        (torch.tensor([100.0, 1e-4]), torch.tensor([100.0, 0.0]), None),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 elements differ"),
        (torch.ones(2, 3), torch.ones(3, 2), "(2, 3)"),
        (torch.ones(3, 2).t(), torch.ones(2, 3), "strides (1, 2)"),
        (torch.ones(3), torch.ones(3).double(), "torch.float32"),
    ],
)
def test_a_deviation_is_relative_to_the_largest_magnitude(got: Any, wanted: Any, found: str | None) -> None:
    result = deviation(got, wanted, {"float32": (1e-4, 1e-5)})
    assert result is None if found is None else found in result


def test_eager_that_is_exact_by_chance_is_no_measure(compiler_of_each: Any) -> None:
    def cancels(x: torch.Tensor) -> torch.Tensor:
        y = x.softmax(1)
        return (y - y.mean(0)).sum()

    compiled = compiler_of_each(cancels, check="raise")
    results = []
    for _ in range(60):
        x = torch.randn(4, 6)
        compiled(x)
        results.append(float(cancels(x)))
    assert 0 in results, "no chance to be wrong"
