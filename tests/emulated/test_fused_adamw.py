"""The patch ``torch.npu_fused_adamw_step`` on the emulated optimizer: the kernel is taken, results stay."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from comparing import applied
from torch import Tensor

from npu_emulator.mx_driving import calls
from torch_npu_patches.fused_adamw import FUSED_ADAMW_STEP

pytestmark = pytest.mark.usefixtures("no_calls")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to("npu")


def model_and_optimizer(**options: Any) -> tuple[torch.nn.Module, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 2)).to("npu")
    groups = [{"params": model[0].parameters(), "lr": 1e-2}, {"params": model[2].parameters(), "weight_decay": 0.1}]
    return model, torch_npu.optim.NpuFusedAdamW(groups, **options)


def train(model: torch.nn.Module, optimizer: Any, steps: int = 4) -> list[Tensor]:
    """Return the parameters after some steps."""
    for step in range(steps):
        optimizer.zero_grad()
        model(random(3, 5, seed=step)).square().sum().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


class TestFusedAdamW:
    @pytest.mark.parametrize("amsgrad", [False, True])
    def test_steps_like_the_unpatched_one_and_torchs(self, amsgrad: bool) -> None:
        expected = train(*model_and_optimizer(amsgrad=amsgrad))
        with applied(FUSED_ADAMW_STEP):
            model, optimizer = model_and_optimizer(amsgrad=amsgrad)
            actual = train(model, optimizer)
        assert calls["fused_adamw_custom"] == 8  # two groups of one dtype each
        torch.testing.assert_close(actual, expected)
        assert {state["step"] for state in optimizer.state.values()} == {4}

        model, fused = model_and_optimizer(amsgrad=amsgrad)
        groups = [{key: group[key] for key in ("params", "lr", "weight_decay")} for group in fused.param_groups]
        torch.testing.assert_close(actual, train(model, torch.optim.AdamW(groups, amsgrad=amsgrad)))

    def test_each_dtype_has_a_kernel_and_without_a_gradient_there_is_no_step(self) -> None:
        dtypes = (torch.float32, torch.float16, torch.float32)
        tensors = [random(3).to(dtype).requires_grad_() for dtype in dtypes]
        for tensor in tensors[:2]:
            tensor.grad = torch.ones_like(tensor)
        before = [tensor.detach().clone() for tensor in tensors]
        with applied(FUSED_ADAMW_STEP):
            torch_npu.optim.NpuFusedAdamW(tensors).step()
        assert calls == {"fused_adamw_custom": 2}
        assert [torch.equal(tensor, old) for tensor, old in zip(tensors, before)] == [False, False, True]

    def test_a_sparse_gradient_is_an_error_and_no_step(self) -> None:
        tensors = [random(3, 3).requires_grad_() for _ in range(2)]
        for tensor in tensors:
            tensor.grad = torch.ones_like(tensor)
        optimizer = torch_npu.optim.NpuFusedAdamW(tensors)
        with applied(FUSED_ADAMW_STEP):
            optimizer.step()
            tensors[1].grad = torch.sparse_coo_tensor([[0], [1]], [1.0], (3, 3)).npu()
            with pytest.raises(RuntimeError, match=r"a sparse one of shape \(3, 3\) in parameter group 0; use torch"):
                optimizer._group_step(0)
        assert [optimizer.state[tensor]["step"] for tensor in tensors] == [1, 1]
