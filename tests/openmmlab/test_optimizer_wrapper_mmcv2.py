"""mmengine's OptimWrapper with the fused optimizers of the emulated torch_npu."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_npu
from mmengine.logging import MessageHub
from mmengine.optim import AmpOptimWrapper, OptimWrapper
from torch import Tensor, nn

import patchcore as pc
from mmcv_npu.optimizer_wrapper import OPTIMIZER_WRAPPER, FusedClipping


@pytest.fixture
def applied() -> Iterator[None]:
    with pc.Patcher([OPTIMIZER_WRAPPER], enable="optimizer_wrapper", strict=True):
        yield


def make(device: torch.device) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2)).to(device)


def train(model: nn.Module, wrapper: OptimWrapper, steps: int = 4) -> list[Tensor]:
    """Return the parameters after some steps."""
    generator = torch.Generator().manual_seed(1)
    device = next(model.parameters()).device
    for _ in range(steps):
        x = torch.randn(3, 5, generator=generator).to(device)
        with wrapper.optim_context(model):
            loss = model(x).float().square().sum()
        wrapper.update_params(loss)
    return [parameter.detach().cpu() for parameter in model.parameters()]


def train_fused(device: torch.device, wrapper: type[OptimWrapper] = OptimWrapper, **options: Any) -> list[Tensor]:
    model = make(device)
    optimizer = torch_npu.optim.NpuFusedAdamW(model.parameters(), lr=1e-2)
    return train(model, wrapper(optimizer=optimizer, **options))


def train_with_torch(**options: Any) -> list[Tensor]:
    model = make(torch.device("cpu"))
    return train(model, OptimWrapper(torch.optim.AdamW(model.parameters(), lr=1e-2), **options))


class Norms:
    """Notes what fused optimizers clip."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[Any, ...]] = []
        original = torch_npu.optim.NpuFusedAdamW.clip_grad_norm_fused_

        def clip(optimizer: Any, *arguments: Any) -> Any:
            self.seen.append(arguments)
            return original(optimizer, *arguments)

        monkeypatch.setattr(torch_npu.optim.NpuFusedAdamW, "clip_grad_norm_fused_", clip)


@pytest.fixture
def norms(monkeypatch: pytest.MonkeyPatch) -> Norms:
    return Norms(monkeypatch)


class TestOptimizerWrapper:
    @pytest.mark.usefixtures("applied")
    def test_fused_clipping(self, device: torch.device, norms: Norms) -> None:
        clipping = {"max_norm": 0.1, "norm_type": 2}
        actual = train_fused(device, clip_grad=dict(clipping))
        assert norms.seen == [(0.1, 2)] * 4
        torch.testing.assert_close(actual, train_with_torch(clip_grad=dict(clipping)), rtol=1e-4, atol=1e-5)

    @pytest.mark.usefixtures("applied")
    def test_norm_is_logged(self, device: torch.device) -> None:
        train_fused(device, clip_grad={"max_norm": 0.1})
        logged = MessageHub.get_current_instance().get_scalar("train/grad_norm").current()
        train_with_torch(clip_grad={"max_norm": 0.1})
        assert logged == pytest.approx(
            MessageHub.get_current_instance().get_scalar("train/grad_norm").current(), rel=1e-3
        )

    @pytest.mark.usefixtures("applied")
    def test_accumulation(self, device: torch.device, norms: Norms) -> None:
        options = {"accumulative_counts": 2, "clip_grad": {"max_norm": 0.1}}
        actual = train_fused(device, accumulative_counts=2, clip_grad={"max_norm": 0.1})
        assert len(norms.seen) == 2
        torch.testing.assert_close(actual, train_with_torch(**options), rtol=1e-4, atol=1e-5)

    @pytest.mark.usefixtures("applied")
    def test_mixed_precision(self, device: torch.device, norms: Norms) -> None:
        """Gradients are unscaled before they are clipped: the result is close to that without."""
        actual = train_fused(device, AmpOptimWrapper, clip_grad={"max_norm": 0.1}, loss_scale=128.0, dtype="float16")
        assert norms.seen == [(0.1, 2.0)] * 4
        for one, other in zip(actual, train_with_torch(clip_grad={"max_norm": 0.1})):
            assert (one - other).abs().max() <= 1e-2

    @pytest.mark.usefixtures("applied")
    @pytest.mark.parametrize(
        "clipping", [{"max_norm": 0.1, "error_if_nonfinite": True}, {"type": "value", "clip_value": 0.01}], ids=str
    )
    def test_what_the_fused_one_cannot_do_stays(
        self, clipping: dict[str, Any], device: torch.device, norms: Norms
    ) -> None:
        actual = train_fused(device, clip_grad=dict(clipping))
        assert not norms.seen
        torch.testing.assert_close(actual, train_with_torch(clip_grad=dict(clipping)), rtol=1e-4, atol=1e-5)

    @pytest.mark.usefixtures("applied")
    def test_arguments_of_the_other_kind_of_clipping_do_not_change_the_kind(self, device: torch.device) -> None:
        """mmengine takes them, and clipping by value then refuses them."""
        optimizer = torch_npu.optim.NpuFusedAdamW(make(device).parameters())
        wrapper = OptimWrapper(optimizer, clip_grad={"type": "value", "max_norm": 0.1})
        assert wrapper.clip_func is torch.nn.utils.clip_grad_value_

    @pytest.mark.usefixtures("applied")
    def test_an_optimizer_that_is_not_fused_is_clipped_as_before(self, device: torch.device) -> None:
        model = make(device)
        wrapper = OptimWrapper(torch.optim.AdamW(model.parameters(), lr=1e-2), clip_grad={"max_norm": 0.1})
        assert wrapper.clip_func is torch.nn.utils.clip_grad_norm_
        actual = train(model, wrapper)
        torch.testing.assert_close(actual, train_with_torch(clip_grad={"max_norm": 0.1}), rtol=1e-4, atol=1e-5)

    @pytest.mark.usefixtures("applied")
    def test_without_clipping(self, device: torch.device, norms: Norms) -> None:
        train_fused(device)
        assert not norms.seen

    def test_wrappers_made_before_and_after_are_mmengines(self, device: torch.device, norms: Norms) -> None:
        def clip_func() -> Any:
            optimizer = torch_npu.optim.NpuFusedAdamW(make(device).parameters())
            return OptimWrapper(optimizer, clip_grad={"max_norm": 0.1}).clip_func

        assert clip_func() is torch.nn.utils.clip_grad_norm_
        with pc.Patcher([OPTIMIZER_WRAPPER], enable="optimizer_wrapper", strict=True):
            assert isinstance(clip_func(), FusedClipping)
        assert clip_func() is torch.nn.utils.clip_grad_norm_
