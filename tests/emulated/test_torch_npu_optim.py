"""``torch_npu.optim``: the arithmetic is that of torch's optimizers on the CPU, the rules are torch_npu's."""

from __future__ import annotations

import copy
import inspect
from typing import Any, Callable

import pytest
import torch
from torch import Tensor, nn
from torch_npu import optim, utils

from npu_emulator.errors import NotEmulated

CASES = {
    "SGD": {"lr": 0.1},
    "SGD momentum": {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01},
    "SGD nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "Adam": {},
    "Adam amsgrad": {"lr": 0.01, "betas": (0.8, 0.99), "weight_decay": 0.1, "amsgrad": True},
    "AdamW": {},
    "AdamW amsgrad": {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True},
    "Adadelta": {},
    "Adadelta decay": {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1},
    "RMSprop": {},
    "RMSprop centered": {"momentum": 0.9, "centered": True, "weight_decay": 0.1},
}
FUSED = (optim.NpuFusedSGD, optim.NpuFusedAdam, optim.NpuFusedAdamW, optim.NpuFusedAdadelta, optim.NpuFusedRMSprop)
WITHOUT_COUNTERPART = ("NpuFusedAdamP", "NpuFusedBertAdam", "NpuFusedLamb", "NpuFusedRMSpropTF")


def model(device: str) -> nn.Module:
    """Return the same model on any device."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device)


def loss(net: nn.Module, device: str, step: int) -> Tensor:
    """Return the loss for inputs that depend on the step alone."""
    inputs = torch.linspace(-1, 1 + step, 15).view(5, 3).to(device)
    return net(inputs).square().sum()


def trained(
    make: Callable[..., torch.optim.Optimizer], device: str, clip: float | None, **options: Any
) -> list[Tensor]:
    """Return the parameters after a few steps, on the CPU, and the norms before clipping."""
    net = model(device)
    first, last = net[0], net[2]
    groups = [{"params": first.parameters()}, {"params": last.parameters(), "weight_decay": 0.05}]
    optimizer = make(groups, **options)
    norms = []
    for step in range(4):
        optimizer.zero_grad()
        loss(net, device, step).backward()
        if clip is not None:
            fused = isinstance(optimizer, optim.NpuFusedOptimizerBase)
            norm = optimizer.clip_grad_norm_fused_(clip) if fused else nn.utils.clip_grad_norm_(net.parameters(), clip)
            norms.append(norm.detach().cpu())
        optimizer.step()
    return [parameter.detach().cpu() for parameter in net.parameters()] + norms


class TestArithmetic:
    @pytest.mark.parametrize("clip", [None, 0.5], ids=["whole gradients", "clipped gradients"])
    @pytest.mark.parametrize("case", CASES)
    def test_it_is_that_of_torch_on_the_cpu(self, case: str, clip: float | None) -> None:
        name = case.split()[0]
        emulated = trained(getattr(optim, f"NpuFused{name}"), "npu", clip, **CASES[case])
        expected = trained(getattr(torch.optim, name), "cpu", clip, **CASES[case])
        torch.testing.assert_close(emulated, expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("norm_type", [1, 2, 3.0, float("inf")])
    def test_every_norm_clips_as_torch_does(self, norm_type: float) -> None:
        net, reference = model("npu"), model("cpu")
        loss(net, "npu", 0).backward()
        loss(reference, "cpu", 0).backward()
        norm = optim.NpuFusedSGD(net.parameters(), lr=1.0).clip_grad_norm_fused_(0.1, norm_type)
        expected = nn.utils.clip_grad_norm_(reference.parameters(), 0.1, norm_type)
        torch.testing.assert_close(norm.cpu(), expected)
        for one, other in zip(net.parameters(), reference.parameters()):
            torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-5, atol=1e-6)

    def test_gradients_within_the_norm_stay(self) -> None:
        parameter = nn.Parameter(torch.ones(2, device="npu"))
        parameter.grad = torch.full((2,), 3.0, device="npu")
        assert optim.NpuFusedSGD([parameter], lr=1.0).clip_grad_norm_fused_(100).item() == pytest.approx(18**0.5)
        assert parameter.grad.tolist() == [3, 3]

    def test_half_precision_has_its_norm_in_float32(self) -> None:
        parameter = nn.Parameter(torch.ones(4, device="npu", dtype=torch.float16))
        parameter.grad = torch.full((4,), 6e4, device="npu", dtype=torch.float16)
        norm = optim.NpuFusedSGD([parameter], lr=1.0).clip_grad_norm_fused_(1.0)
        assert norm.item() == pytest.approx(1.2e5, rel=1e-3)
        assert parameter.grad.tolist() == pytest.approx([0.5] * 4, rel=1e-3)

    def test_without_gradients_the_norm_is_zero(self) -> None:
        parameter = nn.Parameter(torch.ones(2, device="npu"))
        assert optim.NpuFusedSGD([parameter], lr=1.0).clip_grad_norm_fused_(1.0).item() == 0

    def test_a_closure_gives_the_loss(self) -> None:
        net = model("npu")
        optimizer = optim.NpuFusedAdam(net.parameters())

        def closure() -> Tensor:
            optimizer.zero_grad()
            value = loss(net, "npu", 0)
            value.backward()
            return value

        first, second = optimizer.step(closure).item(), optimizer.step(closure).item()
        assert second < first

    def test_a_state_can_be_kept(self) -> None:
        net, other = model("npu"), model("npu")
        optimizer = optim.NpuFusedAdam(net.parameters(), lr=0.1)
        loss(net, "npu", 0).backward()
        optimizer.step()
        other.load_state_dict(net.state_dict())
        resumed = optim.NpuFusedAdam(other.parameters(), lr=0.1)
        resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for each, using in ((net, optimizer), (other, resumed)):
            using.zero_grad()
            loss(each, "npu", 1).backward()
            using.step()
        torch.testing.assert_close(list(other.parameters()), list(net.parameters()), rtol=0, atol=0)

    def test_gradients_are_unscaled_by_a_scaler(self) -> None:
        parameter = nn.Parameter(torch.ones(1, device="npu"))
        optimizer = optim.NpuFusedSGD([parameter], lr=0.5)
        scaler = torch.npu.amp.GradScaler(init_scale=1024.0)
        scaler.scale((3 * parameter).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert parameter.item() == -0.5


class TestCombinedTensors:
    def test_groups_are_parts_of_one_memory_for_each_dtype(self) -> None:
        first, half, last = (
            nn.Parameter(torch.full((size,), value, device="npu", dtype=dtype))
            for size, value, dtype in ((2, 1.0, torch.float32), (4, 2.0, torch.float16), (3, 3.0, torch.float32))
        )
        optimizer = optim.NpuFusedAdamW([{"params": [first, half]}, {"params": [last]}])
        assert optimizer.get_combined_params() == optimizer.get_combined_grads() == [None, None]
        (first.sum() + half.sum() + 5 * last.sum()).backward()
        optimizer.zero_grad()
        single, double = optimizer.get_combined_params()
        assert single.tolist() == [1, 1, 3, 3, 3]
        assert double.tolist() == [2, 2, 2, 2]
        assert single.data_ptr() == first.data_ptr()
        assert utils.is_combined_tensor_valid(single, [first, last])
        assert not utils.is_combined_tensor_valid(single, [first, half])
        (first.sum() + half.sum() + 5 * last.sum()).backward()
        assert optimizer.get_combined_grads()[0].tolist() == [1, 1, 5, 5, 5]
        of_last = optimizer.combined_grads_indexed_by_group[1]
        assert (of_last[0].tolist(), of_last[1]) == ([5, 5, 5], None)
        optimizer.step()
        state = optimizer.combined_param_states_indexed_by_group[1][0]
        assert state["exp_avg"].data_ptr() == optimizer.state[last]["exp_avg"].data_ptr()
        assert (state["step"], optimizer.state[last]["step"], state["max_exp_avg_sq"]) == (1, 1, None)

    def test_tensors_keep_values_shape_and_strides(self) -> None:
        tensors = [torch.arange(6.0, device="npu").view(2, 3).t(), torch.arange(4.0, device="npu")]
        copies = [tensor.clone() for tensor in tensors]
        combined = utils.npu_combine_tensors(tensors)
        assert combined.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3]
        assert tensors[0].stride() == (1, 3)
        torch.testing.assert_close(tensors, copies, rtol=0, atol=0)
        utils.get_part_combined_tensor(combined, 6, 4).zero_()
        assert tensors[1].tolist() == [0, 0, 0, 0]
        with pytest.raises(RuntimeError, match="a part of 10 elements, found 5 from element 6 on"):
            utils.get_part_combined_tensor(combined, 6, 5)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: [torch.ones(1)], "on NPU, got cpu"),
            (lambda: [torch.ones(1, device="npu"), torch.ones(1, device="npu:1")], "one NPU, found npu:0 and npu:1"),
            (lambda: [torch.ones(1, device="npu"), torch.ones(1, device="npu").half()], "same dtype"),
            (lambda: [torch.ones(4, device="npu")[::2]], "dense in memory"),
        ],
        ids=["cpu", "two devices", "two dtypes", "gaps"],
    )
    def test_tensors_of_other_kinds_are_refused(self, make: Callable[[], list[Tensor]], message: str) -> None:
        with pytest.raises(RuntimeError, match=message):
            utils.npu_combine_tensors(make())

    def test_gradients_that_somebody_took_away_are_an_error(self) -> None:
        net = model("npu")
        optimizer = optim.NpuFusedAdam(net.parameters())
        loss(net, "npu", 0).backward()
        optimizer.step()
        net.zero_grad()
        with pytest.raises(RuntimeError, match=r"expected the gradients of the first step.*zero_grad\(\) of the optim"):
            optimizer.step()
        loss(net, "npu", 1).backward()
        with pytest.raises(RuntimeError, match="expected the gradients of the first step"):
            optimizer.step()

    def test_a_model_that_was_moved_is_an_error(self) -> None:
        net = model("npu")
        optimizer = optim.NpuFusedAdam(net.parameters())
        loss(net, "npu", 0).backward()
        optimizer.step()
        net[0].weight.data = net[0].weight.data.clone()
        with pytest.raises(RuntimeError, match="moved or converted since"):
            optimizer.step()

    def test_a_gradient_that_comes_late_is_an_error(self) -> None:
        first, last = (nn.Parameter(torch.ones(1, device="npu")) for _ in range(2))
        optimizer = optim.NpuFusedSGD([first, last], lr=1.0)
        first.sum().backward()
        optimizer.step()
        last.sum().backward()
        with pytest.raises(RuntimeError, match="found one more"):
            optimizer.step()

    def test_what_is_combined_takes_neither_groups_nor_states(self) -> None:
        net = model("npu")
        optimizer = optim.NpuFusedAdam(net.parameters())
        before = copy.deepcopy(optimizer.state_dict())
        loss(net, "npu", 0).backward()
        optimizer.step()
        with pytest.raises(RuntimeError, match="all parameter groups before the first step"):
            optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1, device="npu"))]})
        with pytest.raises(RuntimeError, match=r"load_state_dict\(\) before the first step"):
            optimizer.load_state_dict(before)

    def test_steps_without_gradients_do_nothing(self) -> None:
        parameter = nn.Parameter(torch.ones(1, device="npu"))
        empty = nn.Parameter(torch.ones(0, device="npu"))
        optimizer = optim.NpuFusedSGD([parameter, empty], lr=1.0, momentum=0.9)
        optimizer.zero_grad()
        optimizer.step()
        assert parameter.item() == 1
        (parameter.sum() + empty.sum()).backward()
        for _ in range(2):
            optimizer.step()
        assert parameter.item() == pytest.approx(1 - 1 - 1.9)


class TestRules:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda params: optim.NpuFusedSGD(params, lr=-1.0), "Invalid lr value: -1.0"),
            (lambda params: optim.NpuFusedSGD(params, lr=1.0, nesterov=True), "Nesterov momentum requires"),
            (lambda params: optim.NpuFusedAdamW(params, betas=(0.9, 1.0)), "Invalid beta parameter at index 1: 1.0"),
            (lambda params: optim.NpuFusedAdadelta(params, rho=1.5), "Invalid rho value: 1.5"),
        ],
        ids=["negative", "nesterov", "beta", "rho"],
    )
    def test_numbers_that_make_no_sense_are_refused(self, make: Callable[[Any], Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            make([nn.Parameter(torch.ones(1, device="npu"))])

    def test_gradients_lie_in_memory_as_their_parameters(self) -> None:
        parameter = nn.Parameter(torch.ones(2, 3, device="npu"))
        parameter.grad = torch.ones(3, 2, device="npu").t()
        with pytest.raises(RuntimeError, match="expected gradients with the strides of their parameters"):
            optim.NpuFusedSGD([parameter], lr=1.0).step()

    @pytest.mark.parametrize("fused", FUSED, ids=lambda fused: fused.__name__)
    def test_they_are_optimizers_of_torch_and_known_as_fused(self, fused: type) -> None:
        optimizer = fused([nn.Parameter(torch.ones(1, device="npu"))], lr=0.1)
        assert isinstance(optimizer, torch.optim.Optimizer)
        assert isinstance(optimizer, optim.NpuFusedOptimizerBase)
        assert optimizer.is_fused_optimizer
        assert torch.optim.lr_scheduler.StepLR(optimizer, 1).get_last_lr() == [0.1]

    def test_the_signature_of_clipping_is_torch_npus(self) -> None:
        parameters = inspect.signature(optim.NpuFusedSGD.clip_grad_norm_fused_).parameters
        assert list(parameters) == ["self", "max_norm", "norm_type"]
        assert parameters["norm_type"].default == 2

    def test_gradients_are_kept_when_they_are_zeroed(self) -> None:
        parameter = nn.Parameter(torch.ones(1, device="npu"))
        optimizer = optim.NpuFusedSGD([parameter], lr=1.0)
        parameter.grad = gradient = torch.ones(1, device="npu")
        optimizer.zero_grad()
        assert parameter.grad is gradient
        assert gradient.item() == 0
        with pytest.raises(ValueError, match="set_to_none is not supported"):
            optimizer.zero_grad(set_to_none=True)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_only_float32_and_float16_are_taken(self, dtype: torch.dtype) -> None:
        parameter = nn.Parameter(torch.ones(1, device="npu", dtype=dtype))
        parameter.grad = torch.ones_like(parameter)
        with pytest.raises(TypeError, match=f"either float32 or float16, but received {dtype}"):
            optim.NpuFusedSGD([parameter], lr=1.0).step()

    def test_only_the_npu_is_taken(self) -> None:
        parameter = nn.Parameter(torch.ones(1))
        parameter.grad = torch.ones(1)
        with pytest.raises(RuntimeError, match="NpuFusedAdamW: expected parameters on the NPU, found one on cpu"):
            optim.NpuFusedAdamW([parameter]).step()

    def test_sparse_gradients_are_refused(self) -> None:
        table = nn.Embedding(3, 2, sparse=True).npu()
        table(torch.tensor([1], device="npu")).sum().backward()
        with pytest.raises(RuntimeError, match="NpuFusedSGD does not support sparse gradients"):
            optim.NpuFusedSGD(table.parameters(), lr=1.0).step()

    @pytest.mark.parametrize("name", WITHOUT_COUNTERPART)
    def test_those_without_counterpart_say_so(self, name: str) -> None:
        with pytest.raises(NotEmulated, match=f"{name} cannot be emulated: torch has no optimizer"):
            getattr(optim, name)([nn.Parameter(torch.ones(1, device="npu"))], lr=1.0)

    def test_all_of_torch_npus_are_there(self) -> None:
        assert len(optim.__all__) == 10
        assert all(hasattr(optim, name) for name in optim.__all__)
