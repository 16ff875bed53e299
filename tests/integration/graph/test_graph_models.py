"""What a compiled model must not change: strides, memory, random numbers, writes, sizes that leave; what stays eager.

That models equal eager is for the conformance suite; see test_graph_conformance.py.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from npu_graph.conformance.models import MODELS

#: Of the largest magnitude of each tensor.
TOLERANCE = 2e-5


def assert_near(got: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
    largest = float(wanted.abs().max()) or 1.0
    assert got.shape == wanted.shape, what
    assert got.dtype is wanted.dtype, what
    assert float((got - wanted).abs().max()) <= TOLERANCE * largest, what


def step(model: Any, module: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Run forward and backward, drawing the same random numbers each time; return everything that comes of it."""
    torch.manual_seed(3)
    module.zero_grad()
    x = x.clone().requires_grad_()
    output = model(x)
    output.square().sum().backward()
    found = {"output": output.detach(), "gradient of the input": x.grad, **dict(module.named_buffers())}
    return {**found, **{f"gradient of {name}": parameter.grad for name, parameter in module.named_parameters()}}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["perceptron", "llama"])
def test_a_training_step_in_mixed_precision_is_as_near_to_float32_as_eager(
    compiler_of_each: Any, name: str, dtype: torch.dtype
) -> None:
    if str(dtype).partition(".")[2] not in compiler_of_each.vendor.dtypes:
        pytest.skip(f"{compiler_of_each.vendor.name} takes no {dtype}")
    module, shapes = MODELS[name].make(), MODELS[name].shapes
    twins = copy.deepcopy(module), copy.deepcopy(module)
    compiled = compiler_of_each(module)
    x = torch.randn(shapes[0])
    exact = step(twins[0], twins[0], x)
    with torch.autocast("cpu", dtype=dtype):
        wanted, got = step(twins[1], twins[1], x), step(compiled, module, x)
    for what, value in got.items():
        assert value.dtype is wanted[what].dtype, what
        largest = float(exact[what].abs().max()) or 1.0
        far, allowed = (float((each[what].float() - exact[what]).abs().max()) / largest for each in (got, wanted))
        assert far <= 2 * allowed + 1e-3, what
    assert any("convert_element_type" in name or "_to_copy" in name for name in compiler_of_each.converted)
    assert set(compiler_of_each.eager) <= {"aten.native_dropout.default"}


def test_strides_of_results_are_those_that_eager_gives(compiler_of_each: Any) -> None:
    convolution = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)

    def call(x: torch.Tensor) -> Any:
        y = convolution(x)
        return y, y.permute(0, 2, 3, 1).view(2, -1), x[:, :1].expand(2, 3, 8, 8), x.sum(1).t_() if x.dim() == 3 else x.T

    for got, wanted in zip(compiler_of_each(call)(x), call(x)):
        assert got.stride() == wanted.stride()
        assert_near(got.detach(), wanted.detach(), "values")


def test_results_share_no_memory_that_eager_does_not_share(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        y = x + 1
        return y, y.clone(), x.clone(), x.contiguous().view(-1) * 1

    x = torch.zeros(2, 3)
    results = compiler_of_each(call)(x)
    for result in results:
        result.add_(10)  # must reach no other
    assert torch.equal(x, torch.zeros(2, 3))
    assert [float(result.max()) for result in results] == [11, 11, 10, 10]


def test_inputs_that_are_written_to_are_written_to(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        view[0] = 7
        return x.sum() + view.sum()

    x, wanted = torch.ones(3, 4), torch.ones(3, 4)
    got = compiler_of_each(call)(x, x[1:])
    assert torch.equal(got, call(wanted, wanted[1:]))
    assert torch.equal(x, wanted)


def test_sizes_that_leave_a_subgraph_stay_numbers(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        y = torch.cat([x, x]).exp()
        return y.reshape(y.shape[0] // 2, -1), y.shape[0] * 3

    compiled = compiler_of_each(call, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        (got, number), (wanted, expected) = compiled(x), call(x)
        assert_near(got, wanted, "values")
        assert type(number) is int
        assert number == expected


def test_dtypes_that_the_vendor_lacks_stay_eager(compiler: Any) -> None:
    x = torch.randn(4, 4, dtype=torch.complex64)
    got = compiler(lambda x: (x @ x).abs() * 2)(x)
    assert torch.equal(got, (x @ x).abs() * 2)
    assert compiler.eager["aten.mm.default"] == "a tensor is torch.complex64"
    assert "aten.mul.Tensor" in compiler.converted


def test_sizes_that_depend_on_data_stay_eager(compiler: Any) -> None:
    x = torch.tensor([1.0, 0.0, 3.0])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        got = compiler(lambda x: x.nonzero() * 2 + 1)(x)
    assert torch.equal(got, x.nonzero() * 2 + 1)
    assert any("depends on data" in reason for reason in compiler.eager.values())
