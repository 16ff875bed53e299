"""Views alias the memory of their base, and storages show it."""

from __future__ import annotations

from typing import Callable

import pytest
import torch
from comparing import agree, assert_same
from limits import within_limit
from torch import Tensor

VIEWS = {
    "slice": lambda x: x[1:, ::2],
    "select": lambda x: x[1],
    "as_strided": lambda x: x.as_strided((2, 2), (1, 3), 1),
    "transpose": lambda x: x.transpose(0, 1),
    "T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "view": lambda x: x.view(3, 4),
    "reshape": lambda x: x.reshape(-1),
    "flatten": lambda x: x.flatten(),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[None].squeeze(0),
    "expand": lambda x: x[:, None, :].expand(4, 2, 3),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "chunk": lambda x: x.chunk(2)[1],
    "split": lambda x: x.split([1, 3])[1],
    "unbind": lambda x: x.unbind(1)[2],
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "view of another dtype": lambda x: x.view(torch.int32),
    "view_as_complex": lambda x: torch.view_as_complex(x.view(2, 3, 2)),
    "movedim": lambda x: x.movedim(0, 1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "alias": lambda x: torch.ops.aten.alias(x),
}


def base(device: str = "cpu") -> Tensor:
    """Return 0 to 11 in four rows."""
    return torch.arange(12.0, device=device).reshape(4, 3)


class TestViews:
    @pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
    def test_layout_and_memory_are_those_on_the_cpu(self, view: Callable[[Tensor], Tensor]) -> None:
        ours, theirs = base(), base("npu")
        expected, seen = view(ours), view(theirs)
        assert (seen.stride(), seen.storage_offset()) == (expected.stride(), expected.storage_offset())
        assert_same(seen, expected)
        ours.mul_(3)
        theirs.mul_(3)
        assert_same(seen, expected)
        expected.zero_()
        seen.zero_()
        assert seen.untyped_storage().data_ptr() == theirs.untyped_storage().data_ptr()
        assert_same(theirs, ours)

    def test_views_of_views_and_after_the_base_has_gone(self) -> None:
        tensor = base("npu")
        row = tensor[1:][1].view(3, 1)
        del tensor
        assert_same(row, torch.tensor([[6.0], [7.0], [8.0]]))

    def test_a_view_knows_its_base(self) -> None:
        tensor = torch.zeros(4, 3, device="npu", requires_grad=True)
        assert tensor[1]._base is tensor
        assert tensor[1]._is_view()
        assert not tensor.clone()._is_view()

    def test_gradients_through_views_written_in_place(self) -> None:
        def write(x: Tensor) -> Tensor:
            copied = x.clone()
            copied[1:, 1] *= x[0, 0]
            copied.T[2].neg_()
            copied.view(-1)[::5].zero_()
            return copied

        agree(write, (base() / 12).requires_grad_(), rtol=1e-6)

    def test_detached_data_is_written_without_the_graph_noticing(self) -> None:
        leaf = torch.ones(3, device="npu", requires_grad=True)
        leaf.data.add_(1)
        leaf.detach()[0] = 9
        assert leaf.tolist() == [9, 2, 2]
        assert leaf.is_leaf

    def test_overlapping_memory_is_refused_as_on_the_cpu(self) -> None:
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
            torch.zeros(1, device="npu").expand(3).add_(1)

    def test_conjugates_and_negatives_are_lazy_and_right(self) -> None:
        ours = torch.tensor([1 + 2j, 3 - 1j])
        theirs = ours.npu()
        assert theirs.conj().is_conj()
        assert theirs.conj().data_ptr() == theirs.data_ptr()
        assert_same(theirs.conj().resolve_conj(), ours.conj().resolve_conj())
        assert_same((theirs.conj() * theirs).real, (ours.conj() * ours).real)
        assert theirs.conj().imag.is_neg()
        assert_same(theirs.conj().imag + 0, ours.conj().imag + 0)


class TestStorage:
    def test_a_view_shares_the_storage_and_a_clone_does_not(self) -> None:
        tensor = base("npu")
        assert tensor[1:].untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr() == tensor.data_ptr()
        assert tensor[1:].data_ptr() == tensor.data_ptr() + 12
        assert tensor.clone().untyped_storage().data_ptr() != tensor.data_ptr()
        assert tensor.is_set_to(tensor.view_as(tensor))

    def test_copies_of_a_storage(self) -> None:
        tensor = base("npu")
        on_cpu = tensor.untyped_storage().cpu()
        assert on_cpu.device.type == "cpu"
        assert on_cpu.tolist() == base().untyped_storage().tolist()
        copied = tensor.untyped_storage().clone()
        assert copied.device.type == "npu"
        assert copied.data_ptr() != tensor.data_ptr()

    def test_tensors_over_one_storage(self) -> None:
        tensor = base("npu")
        other = torch.empty(0, device="npu").set_(tensor.untyped_storage(), 3, (2, 2), (3, 1))
        other.zero_()
        expected = base()
        expected.view(-1)[[3, 4, 6, 7]] = 0
        assert_same(tensor, expected)
        assert torch.empty(0, device="npu").set_(tensor).data_ptr() == tensor.data_ptr()

    def test_a_new_storage_on_the_device(self) -> None:
        storage = torch.UntypedStorage(16, device="npu")
        assert storage.device.type == "npu"
        assert storage.nbytes() == 16

    def test_an_empty_tensor_has_no_memory(self) -> None:
        assert torch.empty(0, device="npu").data_ptr() == 0


class TestOut:
    def test_results_are_written_where_asked(self) -> None:
        a, out = base("npu"), torch.empty(4, 3, device="npu")
        pointer = out.data_ptr()
        assert torch.add(a, a, out=out) is out
        assert out.data_ptr() == pointer
        assert_same(out, base() * 2)
        torch.mul(a[1:], 2, out=out[1:])
        assert_same(out[1:], base()[1:] * 2)

    @pytest.mark.parametrize(
        "function",
        [
            lambda x, out: torch.mm(x, x.T, out=out),
            lambda x, out: torch.cat([x, x], out=out),
            lambda x, out: torch.sum(x, 0, out=out),
            lambda x, out: torch.exp(x, out=out),
            lambda x, out: torch.arange(5, out=out),
            lambda x, out: torch.stack([x, x], out=out),
        ],
        ids=["mm", "cat", "sum", "exp", "arange", "stack"],
    )
    def test_an_empty_out_is_made_to_fit(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        out = torch.empty(0, device="npu")
        assert function(base("npu"), out) is out
        assert_same(out, function(base(), torch.empty(0)))

    def test_two_results(self) -> None:
        out = (torch.empty(0, device="npu"), torch.empty(0, dtype=torch.int64, device="npu"))
        found = torch.max(base("npu"), 1, out=out)
        assert found[0] is out[0]
        assert_same(tuple(out), tuple(torch.max(base(), 1)))

    @pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
    def test_an_out_of_another_shape_is_resized(self) -> None:
        out = torch.ones(2, device="npu")
        torch.add(base("npu"), 1, out=out)
        assert_same(out, base() + 1)

    def test_an_out_on_another_device_is_refused(self) -> None:
        with pytest.raises(RuntimeError, match=r"(?i)expected .*device"):
            torch.add(base("npu"), 1, out=torch.empty(4, 3))

    def test_an_out_of_a_smaller_dtype_is_refused(self) -> None:
        with pytest.raises(RuntimeError, match="can't be cast"):
            torch.add(base("npu"), 1.5, out=torch.empty(4, 3, dtype=torch.int64, device="npu"))


class TestResize:
    def test_a_tensor_grows_and_keeps_what_it_had(self) -> None:
        tensor = torch.arange(4.0, device="npu")
        assert tensor.resize_(2, 3) is tensor
        assert tensor.shape == (2, 3)
        assert tensor.flatten()[:4].tolist() == [0, 1, 2, 3]

    def test_a_tensor_shrinks_in_its_memory(self) -> None:
        tensor = torch.arange(6.0, device="npu")
        pointer = tensor.data_ptr()
        tensor.resize_(3)
        assert tensor.data_ptr() == pointer
        assert tensor.tolist() == [0, 1, 2]

    def test_resize_as(self) -> None:
        tensor = torch.zeros(1, device="npu").resize_as_(base("npu"))
        assert tensor.shape == (4, 3)

    def test_freeing_and_filling_a_storage(self) -> None:
        tensor = torch.arange(4.0, device="npu")
        with within_limit("resize a storage"):
            tensor.untyped_storage().resize_(0)
            assert tensor.untyped_storage().nbytes() == 0
            assert tensor.untyped_storage().device == tensor.device
            tensor.untyped_storage().resize_(16)
            tensor.fill_(2)
            assert tensor.tolist() == [2] * 4

    def test_a_tensor_whose_storage_was_freed_takes_another(self) -> None:
        """As FSDP does it with the flat parameter of a module that it shards."""
        tensor = torch.arange(4.0, device="npu")
        with within_limit("resize a storage"):
            tensor.untyped_storage().resize_(0)
            tensor.set_(torch.ones(2, device="npu"))
            assert tensor.tolist() == [1, 1]
