"""The patches of plugins/torch_npu_patches on NPU tensors: the kernel is taken, and the result is the unpatched one."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
import torch_npu
from comparing import applied
from torch import Tensor

import patchcore as pc
from npu_emulator.mx_driving import calls
from torch_npu_patches.batch_matmul import BATCH_MATMUL
from torch_npu_patches.internal_format import INTERNAL_FORMAT, make_patch
from torch_npu_patches.tensor_index import TENSOR_INDEX
from torch_npu_patches.torch_scatter import TORCH_SCATTER

pytestmark = pytest.mark.usefixtures("no_calls")


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to("npu", dtype)


class TestBatchMatmul:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
    def test_each_way_to_write_it_takes_the_kernel(self, dtype: torch.dtype) -> None:
        matrix, column = random(2, 6, 1, 1, 4, 4, dtype=dtype), random(2, 1, 5, 3, 4, 1, dtype=dtype, seed=1)
        expected = matrix @ column
        with applied(BATCH_MATMUL):
            products = [matrix @ column, matrix.matmul(column), torch.matmul(matrix, column)]
        assert calls["npu_batch_matmul"] == 3
        for product in products:
            assert product.device == matrix.device
            torch.testing.assert_close(product, expected)

    def test_other_shapes_and_cpu_tensors_do_not(self) -> None:
        with applied(BATCH_MATMUL):
            torch.ones(2, 3, 4, 4, device="npu") @ torch.ones(2, 3, 4, 4, device="npu")
            torch.ones(4, 4, device="npu") @ torch.ones(4, 1, device="npu")
            torch.ones(2, 3, 4, 4) @ torch.ones(2, 3, 4, 1)
        assert not calls


class TestTensorIndex:
    @pytest.mark.parametrize("shape", [(6,), (6, 3)])
    def test_a_mask_selects_the_same_with_the_same_gradient(self, shape: tuple[int, ...]) -> None:
        x = random(*shape).requires_grad_()
        mask = random(6, seed=1) > 0
        expected = x[mask]
        with applied(TENSOR_INDEX):
            selected = x[mask]
            torch.testing.assert_close(
                torch.autograd.grad(selected.square().sum(), x), torch.autograd.grad(expected.square().sum(), x)
            )
        assert selected.device == x.device
        assert torch.equal(selected, expected)
        assert "Index" in type(expected.grad_fn).__name__
        assert "Index" not in type(selected.grad_fn).__name__

    def test_other_indices(self) -> None:
        x = random(4, 3)
        expected = [x[0], x[1:, 2], x[torch.tensor([2, 0])], x[..., None]]
        with applied(TENSOR_INDEX):
            actual = [x[0], x[1:, 2], x[torch.tensor([2, 0])], x[..., None]]
        for ours, theirs in zip(actual, expected):
            assert torch.equal(ours, theirs)


class TestInternalFormat:
    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.parametrize("patch", [INTERNAL_FORMAT, make_patch({"allow": True})], ids=["off", "on"])
    def test_is_set_and_comes_back(self, patch: pc.Patch, before: bool) -> None:
        def option() -> Any:
            return torch_npu._C._npu_getOption("ALLOW_INTERNAL_FORMAT")

        try:
            torch.npu.config.allow_internal_format = before
            with applied(patch):
                assert option() == (b"disable" if patch is INTERNAL_FORMAT else b"enable")
            assert option() == (b"enable" if before else b"disable")
        finally:
            torch.npu.config.allow_internal_format = True


@pytest.mark.skipif(
    importlib.util.find_spec("torch_scatter") is None,
    reason="torch_scatter is not installed: pip install --no-build-isolation torch_scatter==2.1.2 compiles it",
)
class TestTorchScatter:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
    @pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
    def test_equals_torch_scatter_on_the_cpu(self, reduce: str, dtype: torch.dtype) -> None:
        import torch_scatter

        src, index = random(5, 6, 3, dtype=dtype), torch.tensor([0, 2, 2, 0, 1, 4], device="npu")
        expected = torch_scatter.scatter(src.cpu().float(), index.cpu(), 1, dim_size=6, reduce=reduce)
        with applied(TORCH_SCATTER):
            actual = torch_scatter.scatter(src, index, 1, dim_size=6, reduce=reduce)
            assert sum(calls.values()) == 1
        assert (actual.device, actual.dtype) == (src.device, dtype)
        torch.testing.assert_close(actual.cpu().float(), expected, rtol=2e-3, atol=4e-3)
