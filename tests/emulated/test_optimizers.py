"""Optimizers update parameters on the emulated NPU as they do on the CPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from comparing import assert_same
from torch import nn
from torch.optim.optimizer import _default_to_fused_or_foreach

ROUND_OFF = {"rtol": 1e-5, "atol": 1e-6}
KINDS = {
    "SGD": (torch.optim.SGD, {"lr": 0.1}),
    "SGD with momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.05}),
    "AdamW amsgrad": (torch.optim.AdamW, {"lr": 0.05, "amsgrad": True}),
}


def model() -> nn.Module:
    """Return a small model with tensors of several shapes."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 4) -> list[float]:
    """Return the losses of a few steps on fixed data."""
    parameter = next(model.parameters())
    inputs = torch.linspace(-1, 1, 24).reshape(6, 4).to(parameter.device, parameter.dtype)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(inputs) - inputs[:, :2]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def assert_trains_alike(kind: type[torch.optim.Optimizer], options: dict[str, Any]) -> None:
    """Assert that losses, parameters and the optimizer's state equal those on the CPU."""
    ours = model()
    theirs = copy.deepcopy(ours).npu()
    our_optimizer, their_optimizer = kind(ours.parameters(), **options), kind(theirs.parameters(), **options)
    expected, found = train(ours, our_optimizer), train(theirs, their_optimizer)
    assert found == pytest.approx(expected, rel=1e-5)
    assert expected[-1] < expected[0]
    assert_same(list(theirs.state_dict().values()), list(ours.state_dict().values()), **ROUND_OFF)
    wanted = [our_optimizer.state[p].get(name) for p in ours.parameters() for name in ("exp_avg", "momentum_buffer")]
    state = [their_optimizer.state[p].get(name) for p in theirs.parameters() for name in ("exp_avg", "momentum_buffer")]
    assert_same(state, wanted, **ROUND_OFF)


@pytest.mark.parametrize("way", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize(("kind", "options"), KINDS.values(), ids=KINDS)
def test_training(kind: type[torch.optim.Optimizer], options: dict[str, Any], way: dict[str, bool]) -> None:
    assert_trains_alike(kind, {**options, **way})


def test_foreach_is_what_an_npu_gets_by_default() -> None:
    parameters = list(model().npu().parameters())
    assert _default_to_fused_or_foreach(parameters, False, False) == (False, True)


def test_an_infinite_gradient_is_skipped_with_a_scaler() -> None:
    layer = nn.Linear(2, 1).npu()
    optimizer = torch.optim.AdamW(layer.parameters(), 0.1, fused=True)
    scaler = torch.amp.GradScaler("npu", init_scale=4.0)
    before = layer.weight.detach().cpu()
    scaler.scale(layer(torch.full((1, 2), float("inf"), device="npu")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert_same(layer.weight.detach(), before)
    assert scaler.get_scale() == 2


@pytest.mark.parametrize(
    "name", ["Adam", "Adagrad", "RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "Rprop", "ASGD"]
)
def test_other_optimizers(name: str) -> None:
    ours = model()
    theirs = copy.deepcopy(ours).npu()
    kind = getattr(torch.optim, name)
    assert train(theirs, kind(theirs.parameters())) == pytest.approx(train(ours, kind(ours.parameters())), rel=1e-4)


def test_lbfgs_and_schedulers() -> None:
    layer = nn.Linear(2, 1, bias=False).npu()
    optimizer = torch.optim.LBFGS(layer.parameters())
    x, y = torch.eye(2, device="npu"), torch.tensor([[1.0], [2.0]], device="npu")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (layer(x) - y).square().sum()
        loss.backward()
        return loss

    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.step(closure)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert_same(layer.weight.detach(), torch.tensor([[1.0, 2.0]]), atol=1e-3)


class TestClipping:
    def gradients(self, device: str) -> list[nn.Parameter]:
        parameters = [nn.Parameter(torch.ones(3, device=device)), nn.Parameter(torch.ones(2, 2, device=device))]
        for number, parameter in enumerate(parameters):
            parameter.grad = torch.full_like(parameter, float(number + 2))
        return parameters

    @pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "single"])
    @pytest.mark.parametrize("norm", [2.0, 1.0, float("inf")], ids=str)
    def test_by_norm(self, norm: float, foreach: bool) -> None:
        ours, theirs = self.gradients("cpu"), self.gradients("npu")
        expected = nn.utils.clip_grad_norm_(ours, 1.5, norm, foreach=foreach)
        found = nn.utils.clip_grad_norm_(theirs, 1.5, norm, foreach=foreach)
        assert_same(found, expected, **ROUND_OFF)
        assert_same([p.grad for p in theirs], [p.grad for p in ours], **ROUND_OFF)

    @pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "single"])
    def test_by_value(self, foreach: bool) -> None:
        theirs = self.gradients("npu")
        nn.utils.clip_grad_value_(theirs, 2.5, foreach=foreach)
        assert_same([p.grad for p in theirs], [torch.full((3,), 2.0), torch.full((2, 2), 2.5)])

    def test_a_norm_that_is_not_finite_raises_when_asked(self) -> None:
        theirs = self.gradients("npu")
        theirs[0].grad[0] = float("nan")
        with pytest.raises(RuntimeError, match="non-finite"):
            nn.utils.clip_grad_norm_(theirs, 1.0, error_if_nonfinite=True)
