"""Complex tensors, conjugated and negated views of them included: every unary operator, in place and not."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch import Tensor

IN_PLACE = [
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "conj_physical", "cos", "cosh", "exp", "expm1", "log"),
    *("log10", "log1p", "log2", "neg", "positive", "reciprocal", "rsqrt", "sgn", "sigmoid", "sin", "sinh", "sqrt"),
    *("square", "tan", "tanh", "zero"),
]
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda x: x,
    "conjugated": lambda x: x.conj(),
    "negated": torch._neg_view,
    "both": lambda x: torch._neg_view(x.conj()),
    "slice": lambda x: x.t()[:1],
}
OTHERS: dict[str, Callable[[Tensor], Any]] = {
    "resolve_conj": Tensor.resolve_conj,
    "resolve_neg": Tensor.resolve_neg,
    "view_as_real": lambda x: torch.view_as_real(x.resolve_conj()),
    "view_as_complex": lambda x: torch.view_as_complex(torch.view_as_real(x.resolve_conj())),
    "real": lambda x: (x.real.mul_(2), x)[1],
    "imag": lambda x: (x.imag.neg_(), x)[1],
    "add_": lambda x: x.add_(1j),
    "mul_": lambda x: x.mul_(x.conj()),
    "div_": lambda x: x.div_(2 + 1j),
    "pow_": lambda x: x.pow_(2),
    "copy_": lambda x: torch.zeros_like(x).copy_(x.conj()),
    "fill_": lambda x: x.fill_(1j),
    "lerp_": lambda x: x.lerp_(x.conj(), 0.5),
    "addcmul_": lambda x: x.addcmul_(x, x.conj()),
    "masked_fill_": lambda x: x.masked_fill_(x.real > 0, 1j),
    "conj_physical out": lambda x: torch.conj_physical(x, out=torch.empty_like(x)),
    "neg out": lambda x: torch.neg(x, out=torch.empty_like(x)),
    "_foreach_neg_": lambda x: (torch._foreach_neg_([x]), x)[1],
}


def in_place(name: str) -> Callable[[Tensor], Tensor]:
    return getattr(Tensor, f"{name}_", None) or getattr(Tensor, name)


def outcome(function: Callable[[Tensor], Tensor], x: Tensor, view: Callable[[Tensor], Tensor]) -> Any:
    """The result and what is in the tensor afterwards, or that there is an error."""
    given = view(x)
    try:
        result = function(given)
    except (RuntimeError, NotImplementedError) as error:
        return "internal assert" if "INTERNAL ASSERT" in str(error) else "an error"
    return [each.cpu().resolve_conj().resolve_neg() for each in (result, given, x)]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", [*IN_PLACE, *OTHERS])
def test_as_on_the_cpu(name: str, dtype: torch.dtype, view: str) -> None:
    function = OTHERS.get(name) or in_place(name)
    x = torch.tensor([[0.5 + 0.25j, -0.1 + 2j], [1 - 1j, 0.3j]], dtype=dtype)
    expected = outcome(function, x.clone(), VIEWS[view])
    found = outcome(function, x.npu(), VIEWS[view])
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
        return
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_conj_physical_of_real_numbers_changes_nothing() -> None:
    x = torch.tensor([1.0, -2.0]).npu()
    assert x.conj_physical_() is x
    assert x.tolist() == [1, -2]


def test_gradient_of_conjugation_in_place() -> None:
    x = torch.tensor([1 + 2j, 3 - 1j]).npu().requires_grad_()
    (x * 1).conj_physical_().mul(2j).real.sum().backward()
    expected = torch.tensor([1 + 2j, 3 - 1j]).requires_grad_()
    (expected * 1).conj_physical_().mul(2j).real.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), expected.grad)
