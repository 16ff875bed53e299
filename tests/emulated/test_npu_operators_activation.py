"""Activations against their definitions in float64."""

from __future__ import annotations

import math
from typing import Callable

import pytest
import torch
from npu_operators import assert_on, doubles, on_device
from torch import Tensor
from torch.autograd import gradcheck

from npu_emulator.torch_npu.ops import activation


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def normal_cdf(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ELEMENTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    # The other form that the documentation has of it, for the older series of chips.
    "npu_fast_gelu": lambda x: x / (1 + torch.exp(-1.702 * x.abs())) * torch.exp(0.851 * (x - x.abs())),
    "fast_gelu": lambda x: x * sigmoid(1.702 * x),
    "npu_gelu": lambda x: x * normal_cdf(x),
    "npu_silu": lambda x: x * sigmoid(x),
    "npu_mish": lambda x: x * torch.tanh(torch.log1p(torch.exp(x))),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
class TestElementwise:
    def test_is_its_definition(self, device: str, name: str) -> None:
        x = doubles(3, 5) * 3
        assert_on(device, on_device(device, name, x), ELEMENTWISE[name](x), rtol=1e-12, atol=1e-13)

    def test_rounds_once_in_half_precision(self, device: str, name: str) -> None:
        x = doubles(64).half()
        found, exact = on_device(device, name, x), ELEMENTWISE[name](x.double())
        assert found.dtype == torch.float16
        # What it computes in float32 depends on the CPU. It decides only about values that are half way between two
        # numbers of half precision; rounding to half precision on the way errs a thousand times as much.
        error = 2.0**-20 * x.double().abs()
        assert ((exact - error).half() <= found.cpu()).all()
        assert (found.cpu() <= (exact + error).half()).all()

    def test_gradients(self, name: str) -> None:
        assert gradcheck(getattr(activation, name), doubles(3, 4, requires_grad=True))


def test_gelu_with_tanh(device: str) -> None:
    x = doubles(3, 5)
    assert_on(device, on_device(device, "npu_gelu", x, approximate="tanh"), gelu_tanh(x), rtol=1e-12, atol=1e-13)


def test_silu_in_place(device: str) -> None:
    x = doubles(3, 5)
    theirs = x.to(device)
    assert torch.ops.npu.npu_silu_(theirs) is theirs
    assert_on(device, theirs, x * sigmoid(x), rtol=1e-12, atol=1e-13)


class TestSwiglu:
    @pytest.mark.parametrize("dim", [-1, 0])
    def test_is_its_definition(self, device: str, dim: int) -> None:
        x = doubles(4, 6)
        gate, value = (x[:2], x[2:]) if dim == 0 else (x[:, :3], x[:, 3:])
        assert_on(device, on_device(device, "npu_swiglu", x, dim), gate * sigmoid(gate) * value, rtol=1e-12, atol=0)

    def test_gradients(self) -> None:
        assert gradcheck(activation.npu_swiglu, doubles(3, 4, requires_grad=True))

    def test_an_odd_size_is_an_error(self, device: str) -> None:
        with pytest.raises(
            ValueError, match=r"npu_swiglu: expected an even size in dimension -1, found shape \(2, 3\)"
        ):
            on_device(device, "npu_swiglu", doubles(2, 3))


class TestGeglu:
    @pytest.mark.parametrize(("approximate", "gelu"), [(0, lambda x: x * normal_cdf(x)), (1, gelu_tanh)])
    @pytest.mark.parametrize("activate_left", [False, True])
    def test_is_its_definition(
        self, device: str, approximate: int, gelu: Callable[[Tensor], Tensor], activate_left: bool
    ) -> None:
        x = doubles(4, 6)
        left, right = x[:, :3], x[:, 3:]
        activated, value = (left, right) if activate_left else (right, left)
        output, of_gelu = on_device(device, "npu_geglu", x, -1, approximate, activate_left)
        assert_on(device, output, gelu(activated) * value, rtol=1e-12, atol=1e-14)
        assert_on(device, of_gelu, gelu(activated), rtol=1e-12, atol=1e-14)

    def test_gradients(self) -> None:
        assert gradcheck(lambda x: activation.npu_geglu(x)[0], doubles(3, 4, requires_grad=True))


class TestRotaryMul:
    @pytest.mark.parametrize("mode", ["half", "interleave"])
    def test_turns_pairs_as_complex_numbers(self, device: str, mode: str) -> None:
        angles = doubles(1, 1, 5, 4, seed=1)
        x = doubles(2, 3, 5, 8)
        real, imaginary = (x[..., :4], x[..., 4:]) if mode == "half" else (x[..., ::2], x[..., 1::2])
        turned = torch.complex(real, imaginary) * torch.polar(torch.ones_like(angles), angles)
        if mode == "half":
            expected = torch.cat((turned.real, turned.imag), dim=-1)
            doubled = torch.cat((angles, angles), dim=-1)
        else:
            expected = torch.view_as_real(turned).flatten(-2)
            doubled = angles.repeat_interleave(2, dim=-1)
        found = on_device(device, "npu_rotary_mul", x, doubled.cos(), doubled.sin(), mode)
        assert_on(device, found, expected, rtol=1e-12, atol=1e-13)

    @pytest.mark.parametrize("mode", ["half", "interleave"])
    def test_gradients(self, mode: str) -> None:
        inputs = [doubles(1, 2, 2, 4, seed=seed, requires_grad=True) for seed in range(3)]
        assert gradcheck(lambda *args: activation.npu_rotary_mul(*args, mode), inputs)

    def test_an_unknown_mode_is_an_error(self, device: str) -> None:
        with pytest.raises(ValueError, match="expected rotary_mode 'half' or 'interleave', found 'quarter'"):
            on_device(device, "npu_rotary_mul", doubles(1, 4), doubles(1, 4), doubles(1, 4), "quarter")
