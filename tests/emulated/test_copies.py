"""Copies between the CPU and emulated NPUs."""

from __future__ import annotations

import copy

import pytest
import torch
from comparing import assert_same
from torch import nn


class TestTransfers:
    def test_to_the_npu_and_back_copies(self) -> None:
        ours = torch.arange(6.0).reshape(2, 3)
        theirs = ours.npu()
        back = theirs.cpu()
        theirs.add_(1)
        assert ours.tolist() == back.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert theirs.tolist() == [[1, 2, 3], [4, 5, 6]]

    @pytest.mark.parametrize("device", ["npu", "npu:0", 0, torch.device("npu"), torch.device("npu", 0)], ids=repr)
    def test_every_way_to_name_the_device(self, device: object) -> None:
        assert torch.ones(2).to(device).device == torch.device("npu", 0)

    def test_npu_with_an_index(self) -> None:
        assert torch.ones(2).npu(1).device == torch.device("npu", 1)
        assert torch.ones(2).npu("npu:1").device == torch.device("npu", 1)
        assert torch.ones(2).npu(non_blocking=True).device == torch.device("npu", 0)

    def test_a_tensor_that_is_there_already_is_itself(self) -> None:
        tensor = torch.ones(2, device="npu")
        assert tensor.npu() is tensor
        assert tensor.to("npu") is tensor
        assert tensor.to("npu:0") is tensor
        assert tensor.to("npu", copy=True) is not tensor

    def test_non_blocking_copies_are_complete(self) -> None:
        ours = torch.arange(100.0)
        theirs = ours.to("npu", non_blocking=True)
        back = theirs.to("cpu", non_blocking=True)
        torch.npu.synchronize()
        assert torch.equal(back, ours)

    def test_between_devices(self) -> None:
        first = torch.arange(3.0, device="npu:0")
        second = first.to("npu:1")
        second.add_(1)
        assert second.device.index == 1
        assert_same(first, torch.arange(3.0))
        assert_same(second.to("npu:0"), torch.arange(3.0) + 1)
        assert_same(torch.empty(3, device="npu:1").copy_(first), torch.arange(3.0))

    def test_dtype_layout_and_device_at_once(self) -> None:
        ours = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
        assert_same(ours.to("npu", torch.float16), ours.half())
        assert ours.npu().stride() == ours.stride()
        assert ours.npu().to(memory_format=torch.contiguous_format).is_contiguous()
        assert_same(torch.ones(2).to(torch.zeros(1, dtype=torch.int32, device="npu")), torch.ones(2, dtype=torch.int32))

    def test_other_memory_formats_are_refused_as_on_hardware(self) -> None:
        tensor = torch.randn(2, 3, 4, 4, device="npu", requires_grad=True)
        with pytest.raises(RuntimeError, match="Only contiguous_format or preserve_format is supported"):
            torch.nn.Conv2d(3, 3, 1).npu().to(memory_format=torch.channels_last)
        with pytest.raises(RuntimeError, match="NPU contiguous operator only supported contiguous memory format"):
            tensor.contiguous(memory_format=torch.channels_last)
        tensor.transpose(1, 3).contiguous().sum().backward()
        assert_same(tensor.grad, torch.ones(2, 3, 4, 4))

    def test_views_and_broadcast_sources(self) -> None:
        ours = torch.arange(12.0).reshape(3, 4)
        assert_same(ours.T[1:].npu(), ours.T[1:])
        theirs = torch.zeros(3, 4, device="npu")
        theirs[:, 1:3].copy_(ours[:, :2])
        theirs[0].copy_(torch.tensor(7.0))
        expected = torch.zeros(3, 4)
        expected[:, 1:3] = ours[:, :2]
        expected[0] = 7
        assert_same(theirs, expected)
        assert torch.equal(torch.zeros(4, 3).copy_(ours.npu().T), ours.T)

    def test_casting_while_copying(self) -> None:
        source = torch.tensor([1.7, -2.2])
        assert_same(torch.empty(2, dtype=torch.int32, device="npu").copy_(source), source.to(torch.int32))
        assert torch.equal(torch.empty(2, dtype=torch.float16).copy_(source.npu()), source.half())

    def test_gradients_cross_a_copy(self) -> None:
        leaf = torch.ones(3, requires_grad=True)
        (leaf.npu() * torch.arange(3.0, device="npu")).cpu().sum().backward()
        assert leaf.grad.tolist() == [0, 1, 2]
        assert leaf.grad.device.type == "cpu"

    def test_empty_tensors_and_other_dtypes(self) -> None:
        for dtype in (torch.bool, torch.int8, torch.bfloat16, torch.complex64):
            ours = torch.tensor([1, 0, 1]).to(dtype)
            assert torch.equal(ours.npu().cpu(), ours)
        assert torch.zeros(0, 3).npu().cpu().shape == (0, 3)

    def test_what_cannot_be_copied_raises(self) -> None:
        with pytest.raises(RuntimeError, match=r"The size of tensor a \(2\) must match the size of tensor b \(3\)"):
            torch.zeros(2, device="npu").copy_(torch.zeros(3))


class TestModules:
    def test_parameters_are_the_same_objects(self) -> None:
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        before = dict(model.named_parameters())
        assert model.to("npu") is model
        after = dict(model.named_parameters())
        assert all(after[name] is parameter for name, parameter in before.items())
        assert {tensor.device.type for tensor in model.state_dict().values()} == {"npu"}

    def test_back_to_the_cpu_half_and_to_empty(self) -> None:
        model = nn.Linear(2, 1).npu()
        weight = model.weight
        assert model.half().cpu().weight is weight
        assert (weight.dtype, weight.device.type) == (torch.float16, "cpu")
        assert nn.Linear(2, 1, device="meta").to_empty(device="npu").weight.is_npu

    def test_tied_parameters_stay_tied(self) -> None:
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        model[1].weight = model[0].weight
        model.npu()
        assert model[0].weight is model[1].weight

    def test_state_dicts_cross_devices(self) -> None:
        ours, theirs = nn.Linear(2, 2), nn.Linear(2, 2).npu()
        theirs.load_state_dict(ours.state_dict())
        assert_same(theirs.weight.detach(), ours.weight.detach())
        ours.load_state_dict({name: value + 1 for name, value in theirs.state_dict().items()})
        assert_same(theirs.weight.detach() + 1, ours.weight.detach())

    def test_lazy_modules_and_copies(self) -> None:
        lazy = nn.LazyLinear(3).npu()
        assert lazy(torch.ones(1, 2, device="npu")).is_npu
        assert lazy.weight.is_npu
        assert copy.deepcopy(lazy).weight.is_npu
