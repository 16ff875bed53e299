"""``torch.npu_fused_adamw_step`` on an optimizer that combines tensors as torch_npu's does."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

import npu_emulator  # noqa: E402
import patchcore as pc  # noqa: E402
from torch_npu_patches.fused_adamw import FUSED_ADAMW_STEP  # noqa: E402

MakePackage = Callable[[Mapping[str, str]], Path]
calls = npu_emulator.mx_driving.calls

#: The attributes that torch_npu's optimizer computes on (``npu_fused_optim_base.py``, ``npu_fused_adamw.py``): for each
#: group a list with one entry per dtype, ``None`` where the group has no parameter of it.
OPTIMIZER = """
    import torch

    DTYPES = (torch.float32, torch.float16)

    class NpuFusedAdamW(torch.optim.Optimizer):
        def __init__(self, params, amsgrad=False):
            defaults = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=amsgrad)
            super().__init__(params, defaults)

        def combine(self):
            self.combined_params_indexed_by_group = []
            self.combined_grads_indexed_by_group = []
            self.combined_param_states_indexed_by_group = []
            for group in self.param_groups:
                params, grads, states = [], [], []
                for dtype in DTYPES:
                    chosen = [p for p in group["params"] if p.grad is not None and p.dtype is dtype]
                    params.append(one_memory(chosen))
                    grads.append(one_memory([p.grad for p in chosen]))
                    zeros = [None if params[-1] is None else torch.zeros_like(params[-1]) for _ in range(3)]
                    states.append({"step": 0, "exp_avg": zeros[0], "exp_avg_sq": zeros[1],
                                   "max_exp_avg_sq": zeros[2] if group["amsgrad"] else None})
                    for p in chosen:
                        self.state[p]["step"] = 0
                self.combined_params_indexed_by_group.append(params)
                self.combined_grads_indexed_by_group.append(grads)
                self.combined_param_states_indexed_by_group.append(states)

        @torch.no_grad()
        def step(self):
            for index in range(len(self.param_groups)):
                self._group_step(index)

        def _group_step(self, group_index):
            raise AssertionError("the step of torch_npu was taken")

    def one_memory(tensors):
        if not tensors:
            return None
        whole = torch.cat([t.detach().reshape(-1) for t in tensors])
        for tensor, part in zip(tensors, whole.split([t.numel() for t in tensors])):
            tensor.data = part.view_as(tensor)
        return whole
"""


@pytest.fixture
def patched(make_package: MakePackage) -> Iterator[ModuleType]:
    """torch_npu.optim with the patch applied, and mx_driving's kernels on CPU tensors."""
    make_package({"torch_npu": "", "torch_npu.optim": OPTIMIZER})
    with npu_emulator.install(device=False):
        calls.clear()
        with pc.Patcher([FUSED_ADAMW_STEP], enable=FUSED_ADAMW_STEP, strict=True) as patcher:
            module = importlib.import_module("torch_npu.optim")
            assert patcher.report()["torch.npu_fused_adamw_step"].status == "applied"
            yield module
        calls.clear()
    with pytest.raises(AssertionError, match="the step of torch_npu was taken"):
        module.NpuFusedAdamW([torch.zeros(1)])._group_step(0)


def parameters(*dtypes: Any) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randn(3, 2 + i, generator=random).to(dtype).requires_grad_() for i, dtype in enumerate(dtypes)]


def set_gradients(tensors: list[Tensor], step: int) -> None:
    """Write a gradient that only the step and the position of a tensor decide, into the memory of the last one."""
    for number, tensor in enumerate(tensors):
        grad = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(10 * step + number)).to(tensor.dtype)
        if tensor.grad is None:
            tensor.grad = grad
        else:
            tensor.grad.copy_(grad)


class TestStep:
    @pytest.mark.parametrize("amsgrad", [False, True])
    def test_like_adamw_of_torch(self, patched: ModuleType, amsgrad: bool) -> None:
        found = []
        for fused in (True, False):
            tensors = parameters(*[torch.float32] * 4)
            groups = [{"params": tensors[:2], "lr": 1e-2}, {"params": tensors[2:], "weight_decay": 0.1}]
            cls = patched.NpuFusedAdamW if fused else torch.optim.AdamW
            optimizer = cls(groups, amsgrad=amsgrad)
            set_gradients(tensors, 0)
            if fused:
                optimizer.combine()
            for step in range(5):
                set_gradients(tensors, step)
                optimizer.step()
            assert {int(state["step"]) for state in optimizer.state.values()} == {5}
            found.append([tensor.detach() for tensor in tensors])
        torch.testing.assert_close(found[0], found[1])
        assert calls == {"fused_adamw_custom": 10}  # two groups, one dtype each

    def test_one_kernel_for_each_dtype_of_a_group(self, patched: ModuleType) -> None:
        tensors = parameters(torch.float32, torch.float16, torch.float16)
        optimizer = patched.NpuFusedAdamW(tensors)
        before = [tensor.detach().clone() for tensor in tensors]
        set_gradients(tensors, 0)
        optimizer.combine()
        optimizer.step()
        assert calls == {"fused_adamw_custom": 2}
        for tensor, old in zip(tensors, before):
            assert tensor.dtype is old.dtype
            assert not torch.equal(tensor, old)

    def test_parameters_without_gradient_stay_and_count_no_step(self, patched: ModuleType) -> None:
        tensors = parameters(torch.float32, torch.float32)
        optimizer = patched.NpuFusedAdamW(tensors)
        set_gradients(tensors[:1], 0)
        optimizer.combine()
        before = tensors[1].detach().clone()
        optimizer.step()
        assert torch.equal(tensors[1], before)
        assert [tensor in optimizer.state for tensor in tensors] == [True, False]

    def test_a_sparse_gradient_is_an_error_and_no_step(self, patched: ModuleType) -> None:
        tensors = parameters(torch.float32, torch.float32)
        optimizer = patched.NpuFusedAdamW(tensors)
        set_gradients(tensors, 0)
        optimizer.combine()
        tensors[1].grad = torch.sparse_coo_tensor([[0], [1]], [1.0], tensors[1].shape)
        with pytest.raises(RuntimeError, match=r"a sparse one of shape \(3, 3\) in parameter group 0; use torch"):
            optimizer.step()
        assert [optimizer.state[tensor]["step"] for tensor in tensors] == [0, 0]
        assert not calls
