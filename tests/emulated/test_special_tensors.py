"""Lists of tensors, sparse tensors and the tensor types of old."""

from __future__ import annotations

import copy
from typing import Callable

import pytest
import torch
from comparing import agree, assert_same
from limits import within_limit
from samples import values
from torch import Tensor, nn

ROUND_OFF = {"rtol": 1e-5, "atol": 1e-5}


class TestForeach:
    @pytest.mark.parametrize(
        "function",
        [
            lambda a, b: torch._foreach_add(a, b, alpha=2),
            lambda a, b: torch._foreach_mul(a, 3.0),
            lambda a, b: torch._foreach_addcmul(a, a, b, value=0.1),
            lambda a, b: torch._foreach_norm(a),
            lambda a, b: torch._foreach_mul(a, [1.0, 2.0]),
        ],
        ids=["add", "mul", "addcmul", "norm", "scalars"],
    )
    def test_new_tensors(self, function: Callable[..., object]) -> None:
        agree(function, [values(3), values(2, 2)], [values(3) + 1, values(2, 2) - 1])

    def test_in_place(self) -> None:
        tensors = [torch.ones(3, device="npu"), torch.ones(2, 2, device="npu")]
        pointers = [tensor.data_ptr() for tensor in tensors]
        torch._foreach_add_(tensors, 1)
        torch._foreach_mul_(tensors, torch._foreach_neg(tensors))
        torch._foreach_copy_(tensors[:1], [torch.full((3,), 5.0)])
        assert [tensor.data_ptr() for tensor in tensors] == pointers
        assert_same(tensors, [torch.full((3,), 5.0), torch.full((2, 2), -4.0)])
        torch._foreach_zero_(tensors)
        assert_same(tensors, [torch.zeros(3), torch.zeros(2, 2)])

    def test_devices_are_grouped(self) -> None:
        tensors = [torch.ones(2, device="npu:0"), torch.ones(2, device="npu:1"), torch.ones(2)]
        groups = torch.utils._foreach_utils._group_tensors_by_device_and_dtype([tensors])
        assert {device.type for device, _ in groups} == {"npu", "cpu"}
        assert len(groups) == 3

    def test_optimizers_take_the_foreach_path(self) -> None:
        assert "npu" in torch.utils._foreach_utils._get_foreach_kernels_supported_devices()


class TestSparse:
    def coo(self) -> Tensor:
        """Return a matrix of three entries, two of them at one place."""
        return torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 0]]), torch.tensor([3.0, 4.0, 5.0]), (2, 3))

    def test_coo_keeps_its_parts_on_the_device(self) -> None:
        sparse = self.coo().npu()
        assert sparse.device.type == "npu"
        assert sparse.layout is torch.sparse_coo
        assert sparse._indices().is_npu
        assert sparse._values().is_npu
        assert_same(sparse.to_dense(), self.coo().to_dense())

    def test_coalescing_adds_what_is_at_one_place(self) -> None:
        coalesced = self.coo().npu().coalesce()
        assert coalesced.is_coalesced()
        assert_same(
            (coalesced.indices(), coalesced.values()), (torch.tensor([[0, 1], [2, 0]]), torch.tensor([3.0, 9.0]))
        )

    def test_products_and_sums(self) -> None:
        dense = values(3, 4)
        assert_same(torch.sparse.mm(self.coo().npu(), dense.npu()), torch.sparse.mm(self.coo(), dense), **ROUND_OFF)
        assert_same((self.coo().npu() + self.coo().npu()).to_dense(), (self.coo() + self.coo()).to_dense())
        assert_same((self.coo().npu() * 2).to_dense(), (self.coo() * 2).to_dense())

    def test_sparse_gradients_of_an_embedding(self) -> None:
        ours = nn.Embedding(4, 2, sparse=True)
        theirs = copy.deepcopy(ours).npu()
        indices = torch.tensor([0, 3, 3])
        ours(indices).sum().backward()
        theirs(indices.npu()).sum().backward()
        assert theirs.weight.grad.is_sparse
        torch.optim.SGD(ours.parameters(), 0.1).step()
        torch.optim.SGD(theirs.parameters(), 0.1).step()
        assert_same(theirs.weight.detach(), ours.weight.detach(), **ROUND_OFF)

    def test_csr(self) -> None:
        with within_limit("compute with sparse CSR tensors"):
            sparse = torch.eye(3).to_sparse_csr().npu()
            assert_same(sparse @ torch.ones(3, 1, device="npu"), torch.ones(3, 1))
