"""Verifying patches of real torch functions: gradients, dtypes and shapes are part of what must agree."""

from __future__ import annotations

import random
from typing import Any

import pytest

import patchcore as pc
from patchcore.verify import CheckResult, verify

torch = pytest.importorskip("torch")

GELU = "torch.nn.functional:gelu"


def activation(rng: random.Random) -> pc.Case:
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    x = torch.randn(rng.randint(1, 8), rng.randint(1, 64), generator=generator, requires_grad=True)
    return pc.Case(lambda x: torch.nn.functional.gelu(x), [x])


def block(rng: random.Random) -> pc.Case:
    torch.manual_seed(rng.randrange(2**31))
    return pc.Case(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU()), [torch.randn(2, 8)])


def by_definition(x: Any, approximate: str = "none") -> Any:
    """Hendrycks and Gimpel, Gaussian Error Linear Units, 2016: x times the normal distribution function of x."""
    return x * 0.5 * (1 + torch.erf(x / 2**0.5))


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return by_definition(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


def result_of(replacement: Any, draw: Any = activation, rtol: float = 1e-5) -> CheckResult:
    patch = pc.Patch("torch.gelu", pc.Replace(GELU, replacement), checks=pc.Check(draw, rtol=rtol))
    (result,) = verify([patch], device="cpu")
    return result


def test_the_definition_agrees_within_the_tolerance_and_not_exactly() -> None:
    result = result_of(by_definition)
    assert result.status == "agrees"
    assert 0 < result.error <= 1e-5
    assert result_of(by_definition, rtol=0.0).status == "differs"


def test_a_wrong_gradient_of_an_argument_is_found() -> None:
    result = result_of(lambda x, approximate="none": WrongGradient.apply(x))
    assert result.status == "differs"
    assert result.message.startswith("round 0: gradient of args[0]: differs by ")


def test_a_wrong_gradient_of_a_parameter_is_found() -> None:
    result = result_of(lambda x, approximate="none": WrongGradient.apply(x), block)
    assert result.message.startswith("round 0: gradient of 0.weight: differs by ")


def test_a_gradient_that_is_missing_is_found() -> None:
    result = result_of(lambda x, approximate="none": by_definition(x.detach()))
    assert result.message == "round 0: gradient of args[0]: the original gives one, the replacement none"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: y.double(), "result: expected dtype torch.float32, found torch.float64"),
        (lambda y: y.bfloat16(), "result: expected dtype torch.float32, found torch.bfloat16"),
        (lambda y: y[None], "result: expected shape "),
        (lambda y: y.tolist(), "result: the original gives one, the replacement none"),
        (lambda y: torch.full_like(y, float("nan")) * y, "result: NaN or infinity in other places"),
    ],
    ids=["double", "bfloat16", "shape", "type", "nan"],
)
def test_another_dtype_shape_or_type_is_found(change: Any, message: str) -> None:
    result = result_of(lambda x, approximate="none": change(by_definition(x)))
    assert result.status == "differs"
    assert message in result.message


def test_half_precision_is_compared_as_it_is() -> None:
    def half(rng: random.Random) -> pc.Case:
        case = activation(rng)
        return pc.Case(case.call, [case.args[0].detach().bfloat16().requires_grad_()])

    assert result_of(by_definition, half, rtol=2e-2).status == "agrees"


def test_the_replacement_of_a_module_is_reached_through_the_module() -> None:
    result = result_of(by_definition, block)
    assert result.status == "agrees"
