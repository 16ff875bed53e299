"""What eager does in corners, each vendor does too: order of effects, odd numbers, odd tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

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
