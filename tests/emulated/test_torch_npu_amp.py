"""``torch.npu.amp``: torch's mixed precision with the NPU as its device."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn


def parameter_with_gradient(gradient: float) -> tuple[nn.Parameter, torch.optim.Optimizer]:
    """Return a parameter of value 1 and an optimizer that subtracts the gradient from it."""
    parameter = nn.Parameter(torch.ones(1, device="npu"))
    parameter.grad = torch.full((1,), gradient, device="npu")
    return parameter, torch.optim.SGD([parameter], lr=1.0)


class TestAutocast:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_products_have_its_precision_within_the_block(self, dtype: torch.dtype) -> None:
        matrix = torch.ones(2, 2, device="npu")
        with torch.npu.amp.autocast(dtype=dtype):
            assert torch.npu.is_autocast_enabled()
            assert torch.npu.get_autocast_dtype() == dtype
            assert (matrix @ matrix).dtype == dtype
            with torch.npu.amp.autocast(enabled=False):
                assert (matrix @ matrix).dtype == torch.float32
        assert not torch.npu.is_autocast_enabled()

    def test_it_decorates_functions(self) -> None:
        matrix = torch.ones(2, 2, device="npu")

        @torch.npu.amp.autocast()
        def product() -> Tensor:
            return matrix @ matrix

        assert product().dtype == torch.float16

    def test_its_state_can_be_set(self) -> None:
        matrix, dtype = torch.ones(2, 2, device="npu"), torch.npu.get_autocast_dtype()
        torch.npu.set_autocast_enabled(True)
        torch.npu.set_autocast_dtype(torch.bfloat16)
        try:
            assert (matrix @ matrix).dtype == torch.bfloat16
        finally:
            torch.npu.set_autocast_enabled(False)
            torch.npu.set_autocast_dtype(dtype)

    def test_it_computes_in_both_halves(self) -> None:
        assert torch.npu.get_amp_supported_dtype() == [torch.float16, torch.bfloat16, torch.float32]
        assert torch.npu.is_bf16_supported()


class TestCustomFunctions:
    def test_inputs_are_cast_and_autocast_is_off(self) -> None:
        class Doubled(torch.autograd.Function):
            @staticmethod
            @torch.npu.amp.custom_fwd(cast_inputs=torch.float32)
            def forward(ctx: object, x: Tensor) -> Tensor:
                assert x.dtype == torch.float32
                assert not torch.npu.is_autocast_enabled()
                return 2 * x

            @staticmethod
            @torch.npu.amp.custom_bwd
            def backward(ctx: object, gradient: Tensor) -> Tensor:
                assert not torch.npu.is_autocast_enabled()
                return 2 * gradient

        x = torch.ones(2, dtype=torch.float16, device="npu", requires_grad=True)
        with torch.npu.amp.autocast():
            doubled = Doubled.apply(x)
        doubled.sum().backward()
        assert x.grad.tolist() == [2, 2]

    def test_without_arguments_the_backward_pass_is_like_the_forward_pass(self) -> None:
        seen: list[bool] = []

        class Watching(torch.autograd.Function):
            @staticmethod
            @torch.npu.amp.custom_fwd
            def forward(ctx: object, x: Tensor) -> Tensor:
                seen.append(torch.npu.is_autocast_enabled())
                return x.clone()

            @staticmethod
            @torch.npu.amp.custom_bwd
            def backward(ctx: object, gradient: Tensor) -> Tensor:
                seen.append(torch.npu.is_autocast_enabled())
                return gradient

        x = torch.ones(2, device="npu", requires_grad=True)
        with torch.npu.amp.autocast():
            watched = Watching.apply(x)
        watched.sum().backward()
        assert seen == [True, True]


class TestGradScaler:
    def test_losses_are_scaled_and_gradients_unscaled(self) -> None:
        parameter, optimizer = parameter_with_gradient(0.0)
        scaler = torch.npu.amp.GradScaler(init_scale=8.0)
        assert scaler.scale(torch.ones((), device="npu")).item() == 8
        parameter.grad.fill_(4.0)
        scaler.step(optimizer)
        scaler.update()
        assert parameter.item() == 0.5
        assert scaler.get_scale() == 8

    def test_an_overflow_leaves_out_the_step_and_lowers_the_scale(self) -> None:
        parameter, optimizer = parameter_with_gradient(float("inf"))
        scaler = torch.npu.amp.GradScaler(init_scale=8.0, backoff_factor=0.25)
        scaler.scale(torch.ones((), device="npu"))
        scaler.step(optimizer)
        scaler.update()
        assert parameter.item() == 1
        assert scaler.get_scale() == 2

    def test_a_constant_scale_stays_and_every_step_is_taken(self) -> None:
        scaler = torch.npu.amp.GradScaler(init_scale=8.0, dynamic=False, growth_interval=1)
        scaler.scale(torch.ones((), device="npu"))
        for gradient, expected in ((4.0, 0.5), (float("inf"), -float("inf"))):
            parameter, optimizer = parameter_with_gradient(gradient)
            scaler.step(optimizer)
            scaler.update()
            assert parameter.item() == expected
            assert scaler.get_scale() == 8

    def test_it_can_be_switched_off(self) -> None:
        parameter, optimizer = parameter_with_gradient(0.5)
        scaler = torch.npu.amp.GradScaler(enabled=False, dynamic=False)
        loss = torch.ones((), device="npu")
        assert scaler.scale(loss) is loss
        scaler.step(optimizer)
        scaler.update()
        assert parameter.item() == 0.5

    def test_its_state_can_be_kept(self) -> None:
        state = torch.npu.amp.GradScaler(init_scale=32.0).state_dict()
        scaler = torch.npu.amp.GradScaler()
        scaler.load_state_dict(state)
        assert scaler.get_scale() == 32
