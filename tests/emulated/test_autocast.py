"""Automatic mixed precision on the emulated NPU."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
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


both = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


@both
def test_operators_are_cast(dtype: torch.dtype) -> None:
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


@both
def test_training(dtype: torch.dtype) -> None:
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


class TestAutocast:
    def test_it_is_the_default_dtype(self) -> None:
        with torch.autocast("npu"):
            assert torch.get_autocast_dtype("npu") is torch.float16
            assert torch.is_autocast_enabled("npu")
        assert not torch.is_autocast_enabled("npu")

    def test_binary_cross_entropy_is_refused(self) -> None:
        with torch.autocast("npu"), pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(torch.ones(2, device="npu"), torch.ones(2, device="npu"))

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
