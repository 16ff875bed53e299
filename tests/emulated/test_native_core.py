"""What only the compiled core can do, or does in a way of its own."""

from __future__ import annotations

import gc

import pytest
import torch

from npu_emulator.device import active
from npu_emulator.errors import NotEmulated

pytestmark = pytest.mark.skipif(
    active().name != "native",
    reason="the core in Python is used: `python -m npu_emulator build`, then NPU_EMULATOR_CORE=native",
)


class TestStorages:
    def test_an_output_that_overlaps_its_input_is_refused(self) -> None:
        memory = torch.ones(5, device="npu")
        with pytest.raises(RuntimeError, match="single memory location"):
            torch.add(memory[:-1], 1, out=memory[1:])

    def test_empty_tensors_are_filled_where_determinism_is_asked_for(self) -> None:
        torch.use_deterministic_algorithms(True)
        assert torch.empty(3, device="npu").isnan().all()


class TestAliases:
    def test_they_share_memory_both_ways(self) -> None:
        tensor = torch.zeros(2, 3, device="npu:1").t()
        alias = active().alias_on_cpu(tensor)
        alias[1, 0] = 5
        assert tensor[1, 0].item() == 5
        assert (alias.device.type, alias.stride()) == ("cpu", tensor.stride())
        back = active().alias_on_npu(alias, 1)
        assert back.data_ptr() == tensor.data_ptr()
        assert back.untyped_storage()._cdata == tensor.untyped_storage()._cdata

    def test_the_memory_of_one_device_can_be_presented_as_another_s(self) -> None:
        tensor = torch.zeros(2, device="npu:1")
        other = active().alias_on_npu(active().alias_on_cpu(tensor), 0)
        assert other.device == torch.device("npu", 0)
        assert other.data_ptr() == tensor.data_ptr()

    def test_tensors_of_the_wrong_device_are_refused(self) -> None:
        with pytest.raises(RuntimeError, match="expected a tensor on npu, found one on cpu"):
            active().alias_on_cpu(torch.ones(1))
        with pytest.raises(RuntimeError, match="expected a tensor on cpu, found one on npu:0"):
            active().alias_on_npu(torch.ones(1, device="npu"), 0)
        with pytest.raises(RuntimeError, match="found npu:64"):
            active().alias_on_npu(torch.ones(1), 64)

    def test_an_alias_outlives_its_tensor(self) -> None:
        alias = active().alias_on_cpu(torch.full((1000,), 3.0, device="npu"))
        gc.collect()
        assert alias.eq(3).all()


class TestRandomNumbers:
    def test_operators_without_a_generator_draw_from_the_device_s(self) -> None:
        # dropout's kernel takes none and asks for the CPU's default one
        torch.manual_seed(0)
        expected = torch.rand(3)
        torch.manual_seed(0)
        inputs = torch.ones(50, device="npu", requires_grad=True)
        torch.npu.manual_seed(7)
        first = torch.native_dropout(inputs, 0.5, True)[1]
        torch.npu.manual_seed(7)
        assert torch.equal(torch.native_dropout(inputs, 0.5, True)[1], first)
        assert not torch.equal(torch.native_dropout(inputs, 0.5, True)[1], first)
        assert torch.equal(torch.rand(3), expected)

    def test_a_clone_continues_on_its_own(self) -> None:
        generator = torch.Generator("npu:1").manual_seed(3)
        clone = generator.clone_state()
        assert clone.device == torch.device("npu", 1)
        numbers = [torch.rand(4, device="npu:1", generator=each) for each in (generator, clone)]
        assert torch.equal(*numbers)

    def test_there_is_no_offset(self) -> None:
        with pytest.raises(NotEmulated, match="no offset"):
            torch.Generator("npu").get_offset()


class TestSparse:
    def test_in_place_operators_change_the_tensor(self) -> None:
        sparse = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,)).npu()
        sparse.mul_(2).add_(sparse)
        assert sparse.to_dense().tolist() == [4, 8, 0]
        sparse.zero_()
        assert sparse._nnz() == 0

    def test_copies_take_the_other_s_elements(self) -> None:
        sparse = torch.sparse_coo_tensor([[0]], [1.0], (3,)).npu()
        sparse.copy_(torch.sparse_coo_tensor([[1, 2]], [5.0, 6.0], (3,)))
        assert sparse.to_dense().tolist() == [0, 5, 6]


class TestPinnedMemory:
    def test_memory_of_the_device_cannot_be(self) -> None:
        with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
            torch.empty(1, device="npu", pin_memory=True)


def test_an_operator_without_a_cpu_kernel_is_not_emulated() -> None:
    library = torch.library.Library("native_core_test", "DEF")
    library.define("nothing(Tensor x) -> Tensor")
    with pytest.raises(NotEmulated, match="native_core_test::nothing has no CPU kernel"):
        torch.ops.native_core_test.nothing(torch.ones(1, device="npu"))


def test_an_operator_defined_anew_gets_its_new_schema() -> None:
    for schema, call, expected in (
        ("twice(Tensor x) -> Tensor", (lambda x: x * 2), 2),
        ("twice(Tensor(a!) x) -> Tensor(a!)", (lambda x: x.mul_(3)), 3),
    ):
        library = torch.library.Library("native_core_test", "FRAGMENT")
        library.define(schema)
        library.impl("twice", call, "CPU")
        x = torch.ones(1, device="npu")
        result = torch.ops.native_core_test.twice.default(x)
        assert result.item() == expected
        assert (result is x) is ("a!" in schema)
        library._destroy()
