"""``torch.npu.FloatTensor``, ``torch.npu.FloatStorage`` and their like."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from npu_emulator.errors import NotEmulated

DTYPES = {
    "BFloat16": torch.bfloat16,
    "Bool": torch.bool,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Short": torch.int16,
}


@pytest.mark.parametrize(("name", "dtype"), DTYPES.items(), ids=DTYPES)
class TestEveryType:
    def test_tensors_are_made_cast_and_recognised(self, name: str, dtype: torch.dtype) -> None:
        tensor_type = getattr(torch.npu, f"{name}Tensor")
        made = tensor_type([1, 0])
        assert (made.dtype, made.device, made.tolist()) == (dtype, torch.device("npu:0"), [1, 0])
        assert made.type() == f"torch.npu.{name}Tensor"
        assert isinstance(made, tensor_type)
        assert not isinstance(made.cpu(), tensor_type)
        assert torch.ones(1).type(tensor_type).type() == torch.ones(1).type(made.type()).type() == made.type()

    def test_storages_are_made_and_recognised(self, name: str, dtype: torch.dtype) -> None:
        storage_type = getattr(torch.npu, f"{name}Storage")
        tensor = torch.ones(3, device="npu").to(dtype)
        assert tensor.storage().type() == f"torch.npu.{name}Storage"
        assert isinstance(tensor.storage(), storage_type)
        assert not isinstance(tensor.cpu().storage(), storage_type)
        made = storage_type(3)
        assert (made.device.type, made.dtype, len(made)) == ("npu", dtype, 3)


class TestTensors:
    def test_sizes_make_a_tensor_of_that_size(self) -> None:
        assert torch.npu.FloatTensor(2, 3).shape == torch.npu.FloatTensor(torch.Size((2, 3))).shape == (2, 3)
        assert torch.npu.FloatTensor().shape == (0,)

    def test_arrays_are_copied(self) -> None:
        assert torch.npu.LongTensor(np.array([1, 2])).tolist() == [1, 2]

    def test_a_tensor_of_the_type_is_aliased_and_others_are_refused(self) -> None:
        tensor = torch.zeros(2, device="npu")
        torch.npu.FloatTensor(tensor).fill_(5)
        assert tensor.tolist() == [5, 5]
        with pytest.raises(TypeError, match=r"expected torch\.npu\.LongTensor \(got torch\.npu\.FloatTensor\)"):
            torch.npu.LongTensor(tensor)
        with pytest.raises(TypeError, match="sizes, values or a tensor"):
            torch.npu.FloatTensor(2.5)

    def test_they_are_on_the_current_device(self) -> None:
        with torch.npu.device(1):
            assert torch.npu.FloatTensor([1]).device.index == 1

    def test_types_have_names(self) -> None:
        assert repr(torch.npu.FloatTensor) == "<class 'torch.npu.FloatTensor'>"
        assert torch.npu.FloatTensor.__name__ == "FloatTensor"


class TestStorages:
    def test_they_do_not_view_memory_of_the_host(self) -> None:
        with pytest.raises(NotEmulated, match=r"torch\.npu\.FloatStorage\.from_buffer"):
            torch.npu.FloatStorage.from_buffer(b"1234")
