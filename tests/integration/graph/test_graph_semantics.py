"""What eager does in corners, each vendor does too: order of effects, odd numbers, odd tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import npu_graph
from npu_graph.errors import LaunchError

INF, NAN = float("inf"), float("nan")


def same(got: Any, wanted: Any) -> None:
    """Compare nested results: values, NaN equal to NaN, dtype and strides."""
    if isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted):
            same(one, other)
    elif isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(got, wanted, equal_nan=True, check_stride=wanted.layout is torch.strided)
    else:
        assert got == wanted
        assert type(got) is type(wanted)


def agrees(compiler: Any, function: Any, *inputs: torch.Tensor, dynamic: bool = False) -> None:
    """Call a function as it is and compiled, from the same random state; results and gradients are the same."""
    found = []
    for call in (function, compiler(function, dynamic=dynamic)):
        given = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
        torch.manual_seed(3)
        results = call(*given)
        listed = results if isinstance(results, tuple) else (results,)
        losses = [y.sum() for y in listed if isinstance(y, torch.Tensor) and y.requires_grad]
        wanted = [x for x in given if x.requires_grad]
        found.append((results, torch.autograd.grad(sum(losses), wanted, allow_unused=True) if losses else ()))
    same(found[1], found[0])


def test_random_numbers_are_drawn_in_the_order_of_the_model(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        dropped = F.dropout(x * 2, 0.5)  # waits for a subgraph, what follows does not
        return dropped + torch.rand_like(x) + torch.randn(4) * x + torch.bernoulli(x.sigmoid())

    agrees(compiler_of_each, call, torch.randn(4, requires_grad=True))


def test_what_is_complex_is_not_promoted_to_what_is_not(compiler_of_each: Any) -> None:
    agrees(compiler_of_each, lambda x: (x.abs() + 1, x * x, x == x), torch.randn(4, dtype=torch.complex64))


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_are_views_of_inputs_and_of_each_other(compiler_of_each: Any, dynamic: bool) -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> Any:
        y.add_(1)
        made = (x @ y).exp()
        return made, made.t(), made.detach(), made[1:, ::2], x.t(), y.view(-1), x.unsqueeze(0).expand(3, -1, -1)

    agrees(compiler_of_each, call, torch.randn(4, 5, requires_grad=True), torch.randn(5, 6), dynamic=dynamic)


@pytest.mark.parametrize("heads", [2, 4])
def test_attention_equals_the_kernel_of_the_cpu(compiler_of_each: Any, heads: int) -> None:
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])

    def call(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor) -> Any:
        turned = query.transpose(1, 2).contiguous().transpose(1, 2)
        shared = {"enable_gqa": heads != 4}
        return (
            F.scaled_dot_product_attention(query, key, key, **shared),
            F.scaled_dot_product_attention(turned, key, key, is_causal=True, **shared),
            F.scaled_dot_product_attention(query, key, key, attn_mask=mask, **shared),  # the second row sees nothing
        )

    query, key = (torch.randn(2, n, 3, 8, requires_grad=True) for n in (4, heads))
    agrees(compiler_of_each, call, query, key, mask)


def test_small_whole_numbers_wrap_wherever_they_are_read(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> Any:
        return (
            torch.cat([x + y, y.float()]),
            (x + y).cumsum(0),
            (x + y).sum(dtype=torch.float64),
            (x * y).amax(),
            (x + x).float() + 1,
            x * -1 + 300,
        )

    x = torch.tensor([200, 100, 255, 0, 7], dtype=torch.uint8)
    agrees(compiler_of_each, call, x, x.flip(0))
    agrees(compiler_of_each, call, x.to(torch.int8), x.flip(0).to(torch.int8))


def test_sums_are_made_in_the_dtype_that_is_asked_for(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        return x.sum(dtype=torch.int64), x.sum(0, dtype=torch.bool), x.prod(dtype=torch.int32), x.mean()

    agrees(compiler_of_each, call, torch.tensor([0.6, 0.6, 1.7]))
    agrees(compiler_of_each, lambda x: (x.sum(dtype=torch.bool), x.sum(dtype=torch.uint8)), torch.tensor([1, -1, 300]))


def test_products_are_rounded_before_they_are_subtracted(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.sqrt(x * x - y * y), x * y - y * x

    x = torch.randn(256)
    agrees(compiler_of_each, call, x, x.clone())


def test_powers_have_the_corners_of_torch(compiler_of_each: Any) -> None:
    x = torch.tensor([-1.5, NAN, INF, -INF, -0.0, 0.0, 2.0])
    agrees(compiler_of_each, lambda x: (x**0.5, x**-0.5, x**2, x**3, x**-1, x**-2, x**0, x**1.5, 2**x, 0.0**x), x)


def test_steps_of_whole_numbers_are_whole(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        return torch.arange(0, 10, 2.5, dtype=torch.int64) + x, torch.arange(0.5, 6.5, 1.2), torch.arange(5, 0, -2)

    agrees(compiler_of_each, call, torch.ones(5, dtype=torch.int64))


def test_indices_that_do_not_count_from_the_end_are_errors(compiler_of_each: Any) -> None:
    x, negative = torch.randn(4), torch.tensor([0, -1])
    agrees(compiler_of_each, lambda x, i: x[i], x, negative)
    for call in (
        lambda x, i: F.embedding(i, x[:, None]),
        lambda x, i: x.gather(0, i),
        lambda x, i: x.scatter(0, i, 2.0),
    ):
        with pytest.raises((LaunchError, IndexError), match="out of range"):
            compiler_of_each(call)(x, negative)


def test_empty_indices_and_lists_of_no_dimensions_do_nothing(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor, index: torch.Tensor) -> Any:
        return x.gather(0, index), x[None, None].squeeze(()), x[None, None].squeeze((0, 1)) + 1

    agrees(compiler_of_each, call, torch.randn(5), torch.zeros(2, 0, dtype=torch.int64))


def test_long_chains_of_operators_that_a_sum_reads(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        for _ in range(150):
            x = x * 1.001 + 0.1
        return x.sum()

    agrees(compiler_of_each, call, torch.randn(4))


def test_the_last_of_several_nans_in_a_window_counts(compiler_of_each: Any) -> None:
    x = torch.tensor([[[[NAN, 1, 2, 3], [4, NAN, -INF, 0]]]])
    agrees(compiler_of_each, lambda x: F.max_pool2d(x, 2, return_indices=True), x)


def test_numbers_that_depend_on_data_are_multiplied_by(compiler_of_each: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        count = x.long().abs().sum().item()
        return torch.zeros(count) + 1, x * count, x * x.sum().item()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        agrees(compiler_of_each, call, torch.tensor([1.5, 2.5, -3.5]), dynamic=True)


def test_the_default_mode_is_no_mode() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    x = torch.randn(3)
    same(torch.compile(call, backend=npu_graph.Backend("reference"), mode="default")(x), call(x))
