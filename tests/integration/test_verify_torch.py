"""Verifying patches of real torch functions: gradients, dtypes and shapes are part of what must agree."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

import patchcore as pc
from patchcore.builtin.verify.verify import CheckResult, verify

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
        (lambda y: torch.full_like(y, float("nan")) * y, "result: NaN or infinity at different positions"),
    ],
    ids=["double", "bfloat16", "shape", "type", "nan"],
)
def test_another_dtype_shape_or_type_is_found(change: Any, message: str) -> None:
    result = result_of(lambda x, approximate="none": change(by_definition(x)))
    assert result.status == "differs"
    assert message in result.message


HALVES = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}


def results_of(
    replacement: Any, draw: Any = activation, dtypes: Any = HALVES, **options: Any
) -> dict[Any, CheckResult]:
    patch = pc.Patch("torch.gelu", pc.Replace(GELU, replacement), checks=pc.Check(draw, dtypes=dtypes))
    return {result.dtype: result for result in verify([patch], device="cpu", **options)}


class TestDtypes:
    def test_each_dtype_has_a_result_and_a_tolerance_of_its_own(self) -> None:
        results = results_of(by_definition)
        assert {dtype: (result.status, result.rtol) for dtype, result in results.items()} == {
            dtype: ("agrees", rtol) for dtype, rtol in HALVES.items()
        }
        assert 0 < results["float32"].error < results["float16"].error < results["bfloat16"].error

    def test_an_error_in_float16_only_is_found(self) -> None:
        def overflowing(x: Any, approximate: str = "none") -> Any:
            return by_definition(x) * (1.01 if x.dtype == torch.float16 else 1)

        results = results_of(overflowing)
        assert [result.status for result in results.values()] == ["agrees", "differs", "agrees"]
        assert results["float16"].forward_error == pytest.approx(0.01, rel=0.2)

    def test_a_dtype_that_the_original_keeps_is_expected(self) -> None:
        def summed(rng: random.Random) -> pc.Case:
            return pc.Case(lambda x: torch.nn.functional.gelu(x).sum(dtype=torch.float32), activation(rng).args)

        results = results_of(by_definition, summed)
        assert {result.status for result in results.values()} == {"agrees"}

    def test_errors_of_results_and_of_gradients_are_told_apart(self) -> None:
        for result in results_of(lambda x, approximate="none": WrongGradient.apply(x)).values():
            assert result.status == "differs"
            assert result.forward_error <= result.rtol < 0.1 < result.gradient_error

    def test_16_bits_are_compared_with_what_more_digits_give_for_the_same_numbers(self) -> None:
        """Where the original adds up one by one, its own result in 16 bits is further off than what is allowed."""

        def total(rng: random.Random) -> pc.Case:
            x = torch.rand(2000, generator=torch.Generator().manual_seed(rng.randrange(2**31)))
            return pc.Case(lambda x: sum(torch.nn.functional.gelu(x)), [x])

        dtypes = {"float16": 1e-3, "bfloat16": 4e-3}
        in_float32 = results_of(
            lambda x, approximate="none": [by_definition(x.float()).sum().to(x.dtype)], total, dtypes
        )
        assert {result.status for result in in_float32.values()} == {"agrees"}, in_float32
        one_by_one = results_of(by_definition, total, dtypes, rounds=1)
        assert {result.status for result in one_by_one.values()} == {"differs"}, one_by_one

    def test_an_original_that_has_no_kernel_for_16_bits_is_compared_in_float32(self) -> None:
        def refusing(rng: random.Random) -> pc.Case:
            def reference(x: Any) -> Any:
                if x.dtype != torch.float32:
                    raise RuntimeError("not implemented for 'Half'")
                return by_definition(x)

            drawn = activation(rng)
            return pc.Case(drawn.call, drawn.args, reference=reference)

        results = results_of(by_definition, refusing)
        assert {result.status for result in results.values()} == {"agrees"}

    def test_modules_are_cast_and_their_parameters_get_gradients(self) -> None:
        dtypes = []

        def watched(x: Any, approximate: str = "none") -> Any:
            dtypes.append(x.dtype)
            return by_definition(x)

        results = results_of(watched, block, {"float64": 1e-9, "bfloat16": 5e-2}, rounds=1)
        assert {result.status for result in results.values()} == {"agrees"}
        assert None not in {result.gradient_error for result in results.values()}
        assert dtypes == [torch.float64, torch.bfloat16]

    def test_integers_are_not_cast(self) -> None:
        def indexed(rng: random.Random) -> pc.Case:
            x, index = activation(rng).args[0], torch.zeros(1, dtype=torch.int64)
            return pc.Case(lambda x, index: torch.nn.functional.gelu(x)[index], [x, index])

        assert {result.status for result in results_of(by_definition, indexed).values()} == {"agrees"}

    def test_a_draw_that_takes_the_dtype_makes_the_tensors_itself(self) -> None:
        def mixed(rng: random.Random, dtype: str) -> pc.Case:
            x = activation(rng).args[0].detach()
            scale = torch.full((), 2.0)  # stays float32
            return pc.Case(lambda x, scale: (torch.nn.functional.gelu(x), scale), [x.to(getattr(torch, dtype)), scale])

        def watched(x: Any, approximate: str = "none") -> Any:
            seen.append(x.dtype)
            return torch.nn.functional.silu(x) if x.dtype == torch.float32 else by_definition(x)

        seen: list[Any] = []
        results = results_of(watched, mixed, {"float16": 2e-3, "bfloat16": 2e-2}, rounds=1)
        assert {result.status for result in results.values()} == {"agrees"}
        assert seen == [torch.float16, torch.bfloat16]


def test_times_include_the_backward_pass() -> None:
    class SlowBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            time.sleep(0.02)
            return gradient

    def slow(x: Any, approximate: str = "none") -> Any:
        return by_definition(SlowBackward.apply(x))

    (speed,) = results_of(slow, dtypes={"float32": 1e-5}, rounds=1, timing=True)["float32"].speeds
    assert speed.replacement >= 0.02


def test_the_device_is_waited_for_before_and_after_what_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr("torch.cpu.synchronize", lambda: events.append("waited"))

    def watched(x: Any, approximate: str = "none") -> Any:
        events.append("called")
        return by_definition(x)

    results_of(watched, dtypes={"float32": 1e-5}, rounds=1, timing=True)
    timed = " ".join(events[1:])  # the first call is not for its time
    assert "waited called waited waited waited" in timed  # the backward pass follows
    assert "called called" not in timed
