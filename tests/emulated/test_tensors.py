"""Creating tensors on the emulated NPU and computing with them: every result equals that of the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from comparing import agree, assert_same
from samples import values
from torch import Tensor, nn

ROUND_OFF = {"rtol": 1e-5, "atol": 1e-5}


class TestDeviceType:
    def test_a_tensor_says_where_it_is(self) -> None:
        tensor = torch.zeros(2, device="npu")
        assert tensor.device == torch.device("npu", 0)
        assert (tensor.device.type, tensor.device.index, str(tensor.device)) == ("npu", 0, "npu:0")
        assert tensor.get_device() == 0
        assert tensor.is_npu
        assert not tensor.is_cpu
        assert not tensor.is_cuda
        assert not torch.zeros(2).is_npu

    def test_devices_compare_and_hash_by_type_and_index(self) -> None:
        assert torch.device("npu:1") == torch.device("npu", 1) != torch.device("npu", 0)
        assert len({torch.device("npu:0"), torch.device("npu", 0), torch.device("cpu")}) == 2
        assert torch.device("npu").index is None

    def test_the_device_module_is_torch_npu(self) -> None:
        assert torch.get_device_module("npu") is torch.npu
        assert torch.utils.backend_registration._privateuse1_backend_name == "npu"

    def test_a_tensor_is_of_the_class_tensor(self) -> None:
        assert type(torch.zeros(2, device="npu")) is Tensor


class TestFactories:
    def test_empty_has_shape_dtype_and_strides(self) -> None:
        tensor = torch.empty(2, 3, 4, 5, dtype=torch.float16, device="npu", memory_format=torch.channels_last)
        assert tensor.shape == (2, 3, 4, 5)
        assert tensor.dtype is torch.float16
        assert tensor.stride() == (60, 1, 15, 3)
        assert torch.empty_strided((2, 3), (1, 2), device="npu").stride() == (1, 2)

    def test_like_and_new_stay_on_the_device(self) -> None:
        tensor = torch.zeros(2, 3, device="npu")
        made = [torch.zeros_like(tensor), torch.ones_like(tensor), torch.full_like(tensor, 2), torch.empty_like(tensor)]
        made += [torch.rand_like(tensor), tensor.new_zeros(2, 3), tensor.new_ones(2, 3), tensor.new_full((2, 3), 1)]
        made += [tensor.new_empty(2, 3), tensor.new_tensor([[1, 2, 3]] * 2)]
        assert {(one.device, one.shape) for one in made} == {(tensor.device, tensor.shape)}

    def test_the_default_device_can_be_the_npu(self) -> None:
        with torch.device("npu"):
            assert torch.zeros(2).is_npu
            assert nn.Linear(2, 2).weight.is_npu
            assert torch.tensor([1.0]).is_npu
        assert torch.zeros(2).is_cpu

    def test_a_tensor_from_numpy_is_copied(self) -> None:
        array = values(3).numpy()
        tensor = torch.as_tensor(array, device="npu")
        tensor.add_(1)
        assert_same(tensor - 1, torch.from_numpy(array), atol=1e-6)

    def test_a_tensor_does_not_become_an_array_without_being_copied_back(self) -> None:
        tensor = torch.ones(2, device="npu")
        with pytest.raises(TypeError, match=r"can't convert npu:0 device type tensor to numpy"):
            tensor.numpy()
        assert tensor.cpu().numpy().tolist() == [1, 1]


class TestArithmetic:
    @pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64], ids=str)
    def test_dtypes_other_than_floats(self, dtype: torch.dtype) -> None:
        a, b = (values(6) * 3).to(dtype), (values(6) * 2).flip(0).to(dtype)
        agree(
            lambda a, b: (a * b, a == b, a + 1, a.sum(), a.to(torch.float32) if not a.is_complex() else a.abs()), a, b
        )

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
    def test_other_floats(self, dtype: torch.dtype) -> None:
        agree(lambda a, b: (a * b, a @ b.T, a.sum(0)), values(3, 4, dtype=dtype), values(3, 4, dtype=dtype))

    @pytest.mark.parametrize("shape", [(), (3,)], ids=["scalar", "vector"])
    def test_dtypes_are_promoted_as_on_the_cpu(self, shape: tuple[int, ...]) -> None:
        whole, half = torch.full(shape, 2), torch.full(shape, 0.25).half()
        agree(lambda a, b: (a + b, a * 1.5, a / 2, b + True, a & 3, torch.where(a > 1, b, 2)), whole, half)
        agree(lambda a, b: (torch.add(b, 2, out=torch.empty_like(b)), b.clone().masked_fill_(a > 1, 9)), whole, half)

    def test_empty_tensors(self) -> None:
        agree(lambda a: (a + 1, a.sum(), a.T, torch.cat([a, a])), torch.zeros(0, 3))

    def test_an_empty_maximum_raises_as_on_the_cpu(self) -> None:
        with pytest.raises((RuntimeError, IndexError), match=r"numel|non-zero size|Specify the reduction dim"):
            torch.zeros(0, device="npu").max()

    def test_incompatible_shapes_raise_as_on_the_cpu(self) -> None:
        with pytest.raises(RuntimeError, match=r"The size of tensor a \(2\) must match the size of tensor b \(3\)"):
            torch.zeros(2, device="npu") + torch.zeros(3, device="npu")


class TestInPlace:
    def test_results_stay_in_the_tensor(self) -> None:
        tensor = torch.zeros(3, device="npu")
        pointer = tensor.data_ptr()
        same = tensor.add_(1).mul_(3).neg_().clamp_(min=-2)
        tensor += 1
        tensor[1] = 7
        assert same is tensor
        assert tensor.data_ptr() == pointer
        assert tensor.tolist() == [-1, 7, -1]

    def test_the_version_counts_and_backward_notices(self) -> None:
        leaf = torch.ones(3, device="npu", requires_grad=True)
        middle = leaf.exp()
        version = middle._version
        loss = middle.sum()
        middle.add_(1)
        assert middle._version == version + 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()

    def test_a_leaf_that_wants_a_gradient_is_refused(self) -> None:
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
            torch.ones(2, device="npu", requires_grad=True).add_(1)

    def test_gradients_through_in_place_operations(self) -> None:
        agree(lambda x: x.clone().mul_(2).add_(x).relu_(), values(4, grad=True))
        agree(lambda x: F.relu(x * 2, inplace=True), values(4, grad=True))


class TestScalars:
    def test_numbers(self) -> None:
        tensor = torch.tensor(2.5, device="npu")
        assert (tensor.item(), float(tensor), int(tensor), bool(tensor)) == (2.5, 2.5, 2, True)
        assert f"{tensor:.2f}" == "2.50"
        assert [10, 20, 30][torch.tensor(1, device="npu")] == 20
        assert torch.tensor([[1, 2], [3, 4]], device="npu").tolist() == [[1, 2], [3, 4]]

    def test_more_than_one_value_is_no_number(self) -> None:
        with pytest.raises(RuntimeError, match=r"cannot be converted to Scalar|only one element"):
            torch.zeros(2, device="npu").item()

    def test_repr_names_the_device(self) -> None:
        assert repr(torch.tensor([1.0, 2.5], device="npu")) == "tensor([1.0000, 2.5000], device='npu:0')"
        assert "requires_grad=True" in repr(torch.ones(2, device="npu", requires_grad=True))
        assert "grad_fn=<MulBackward0>" in repr(torch.ones(2, device="npu", requires_grad=True) * 2)
        assert repr(torch.zeros(0, dtype=torch.int64, device="npu")) == "tensor([], device='npu:0', dtype=torch.int64)"

    def test_iterating_and_length(self) -> None:
        assert [int(one) for one in torch.arange(3, device="npu")] == [0, 1, 2]
        assert len(torch.zeros(4, 2, device="npu")) == 4
