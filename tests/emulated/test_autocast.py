"""Automatic mixed precision on the emulated NPU."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from checks import check
from comparing import assert_same
from torch import Tensor, nn

LOWER: dict[str, Callable[[Tensor], Tensor]] = {
    "matmul": lambda x: x @ x,
    "mm": lambda x: torch.mm(x, x),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "linear": lambda x: F.linear(x, x),
    "conv2d": lambda x: F.conv2d(x[None, None], x[None, None, :2, :2]),
    "addmm": lambda x: torch.addmm(x, x, x),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
}
FULL: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "exp": lambda x: x.exp(),
    "sum": lambda x: x.sum(),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "mse_loss": lambda x: F.mse_loss(x, x + 1),
    "norm": lambda x: x.norm(),
    "pow": lambda x: x**2,
    "cumsum": lambda x: x.cumsum(0),
}


def assert_casts(dtype: torch.dtype) -> None:
    """Assert which operators autocast lowers, which it raises, and which it leaves alone."""
    single, half = torch.eye(4, device="npu"), torch.eye(4, device="npu", dtype=dtype)
    with torch.autocast("npu", dtype=dtype):
        lowered = {name: function(single).dtype for name, function in LOWER.items()}
        raised = {name: function(half).dtype for name, function in FULL.items()}
        assert (single + half).dtype is torch.float32
        assert torch.cat([single, half]).dtype is torch.float32
        assert single.relu().dtype is torch.float32
        assert half.relu().dtype is dtype
        with torch.autocast("npu", enabled=False):
            assert (single @ single).dtype is torch.float32
    assert lowered == dict.fromkeys(LOWER, dtype)
    assert raised == dict.fromkeys(FULL, torch.float32)
    assert (single @ single).dtype is torch.float32


def assert_trains(dtype: torch.dtype) -> None:
    """Assert that a mixed-precision step keeps parameters and gradients in float32, near those of full precision."""
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).npu()
    x = torch.linspace(-1, 1, 8).reshape(2, 4).npu()
    full = torch.autograd.grad(layer(x).square().sum(), layer.parameters())
    with torch.autocast("npu", dtype=dtype):
        result = layer(x)
        assert result.dtype is dtype
        loss = result.float().square().sum()
    mixed = torch.autograd.grad(loss, layer.parameters())
    assert {gradient.dtype for gradient in mixed} == {torch.float32}
    assert_same(list(mixed), [gradient.cpu() for gradient in full], rtol=0.05, atol=0.02)
    assert not all(torch.equal(one, other) for one, other in zip(mixed, full))


@check("autocast float16")
class TestHalf:
    def test_operators_are_cast(self) -> None:
        assert_casts(torch.float16)

    def test_training(self) -> None:
        assert_trains(torch.float16)

    def test_it_is_the_default_dtype(self) -> None:
        with torch.autocast("npu"):
            assert torch.get_autocast_dtype("npu") is torch.float16
            assert torch.is_autocast_enabled("npu")
        assert not torch.is_autocast_enabled("npu")

    def test_the_old_spelling(self) -> None:
        with torch.npu.amp.autocast():
            assert (torch.eye(2, device="npu") @ torch.eye(2, device="npu")).dtype is torch.float16

    def test_binary_cross_entropy_is_refused(self) -> None:
        with torch.autocast("npu"), pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(torch.ones(2, device="npu"), torch.ones(2, device="npu"))


@check("autocast bfloat16")
class TestBfloat16:
    def test_operators_are_cast(self) -> None:
        assert_casts(torch.bfloat16)

    def test_training(self) -> None:
        assert_trains(torch.bfloat16)

    def test_as_a_decorator(self) -> None:
        @torch.autocast("npu", dtype=torch.bfloat16)
        def square(x: Tensor) -> Tensor:
            return x @ x

        assert square(torch.eye(2, device="npu")).dtype is torch.bfloat16

    def test_other_devices_are_left_alone(self) -> None:
        with torch.autocast("npu", dtype=torch.bfloat16):
            assert (torch.eye(2) @ torch.eye(2)).dtype is torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert (torch.eye(2, device="npu") @ torch.eye(2, device="npu")).dtype is torch.float32

    def test_casts_of_a_parameter_are_kept_until_the_end_of_the_block(self) -> None:
        layer = nn.Linear(2, 2, bias=False).npu()
        x = torch.eye(2, device="npu")
        with torch.autocast("npu", dtype=torch.bfloat16):
            first = layer(x)
            with torch.no_grad():
                layer.weight.zero_()
            assert torch.equal(layer(x), first)
        with torch.autocast("npu", dtype=torch.bfloat16):
            assert not layer(x).any()


class Product(torch.autograd.Function):
    """A matrix product that wants float32 under autocast."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="npu", cast_inputs=torch.float32)
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.enabled = torch.is_autocast_enabled("npu")
        return a @ b

    @staticmethod
    @torch.amp.custom_bwd(device_type="npu")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        assert torch.is_autocast_enabled("npu") == ctx.enabled
        return gradient @ b.T, a.T @ gradient


class Following(torch.autograd.Function):
    """A matrix product that runs backward under the autocast of its forward."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="npu")
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @torch.amp.custom_bwd(device_type="npu")
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        assert torch.is_autocast_enabled("npu")
        assert (gradient @ b.T).dtype is torch.float16
        return gradient @ b.T, a.T @ gradient


@check("custom_fwd and custom_bwd")
class TestCustomFunctions:
    def test_inputs_are_cast(self) -> None:
        a = torch.eye(2, device="npu", dtype=torch.float16, requires_grad=True)
        with torch.autocast("npu"):
            result = Product.apply(a, a)
        assert result.dtype is torch.float32
        result.sum().backward()
        assert a.grad.dtype is torch.float16

    def test_backward_has_the_state_of_forward(self) -> None:
        a = torch.eye(2, device="npu", requires_grad=True)
        with torch.autocast("npu"):
            result = Following.apply(a, a)
        assert result.dtype is torch.float16
        result.float().sum().backward()
        assert_same(a.grad, torch.full((2, 2), 2.0))

    def test_the_old_spelling(self) -> None:
        forward = torch.npu.amp.custom_fwd(lambda ctx, x: x)
        assert callable(forward)
        assert callable(torch.npu.amp.custom_bwd(lambda ctx, x: x))


@check("GradScaler")
class TestGradScaler:
    @pytest.mark.parametrize(
        "make", [lambda **k: torch.amp.GradScaler("npu", **k), lambda **k: torch.npu.amp.GradScaler(**k)]
    )
    def test_steps_equal_those_without(self, make: Callable[..., Any]) -> None:
        results = []
        for scaler in (None, make(init_scale=1024.0)):
            torch.manual_seed(1)
            layer = nn.Linear(3, 1).npu()
            optimizer = torch.optim.SGD(layer.parameters(), 0.1)
            for _ in range(3):
                optimizer.zero_grad()
                loss = (layer(torch.ones(2, 3, device="npu")) - 1).square().sum()
                if scaler is None:
                    loss.backward()
                    optimizer.step()
                else:
                    scaler.scale(loss).backward()
                    scaler.unscale_(optimizer)
                    scaler.step(optimizer)
                    scaler.update()
            results.append(layer.weight.detach())
        assert_same(results[1], results[0].cpu(), rtol=1e-5)

    def test_an_overflow_skips_the_step_and_halves_the_scale(self) -> None:
        layer = nn.Linear(3, 1).npu()
        before = layer.weight.detach().cpu()
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        scaler = torch.amp.GradScaler("npu", init_scale=8.0)
        scaler.scale(layer(torch.full((1, 3), float("inf"), device="npu")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert_same(layer.weight.detach(), before)
        assert scaler.get_scale() == 4

    def test_the_scale_grows(self) -> None:
        layer = nn.Linear(3, 1).npu()
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        scaler = torch.amp.GradScaler("npu", init_scale=8.0, growth_interval=1)
        scaler.scale(layer(torch.ones(1, 3, device="npu")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 16
        state = scaler.state_dict()
        other = torch.amp.GradScaler("npu")
        other.load_state_dict(state)
        assert other.get_scale() == 16
