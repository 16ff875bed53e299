"""Operators that move, cast, find or place elements: documented examples, torch and numpy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from comparing import to_npu
from npu_operators import assert_on, doubles, gradients, on_device

from npu_emulator.errors import NotEmulated


class TestFormats:
    @pytest.mark.parametrize(("dims", "plain"), [(1, 2), (2, 2), (4, 0), (5, 30)])
    def test_are_guessed_from_the_dimensions(self, device: str, dims: int, plain: int) -> None:
        assert torch.ops.npu.get_npu_format(torch.zeros((2,) * dims, device=device)) == plain

    def test_are_remembered(self, device: str) -> None:
        x = torch.rand(2, 3, 4, 5, device=device)
        cast = torch.ops.npu.npu_format_cast(x, 29)
        assert (torch.ops.npu.get_npu_format(x), torch.ops.npu.get_npu_format(cast)) == (0, 29)
        assert torch.equal(cast, x)
        assert cast.data_ptr() != x.data_ptr()

    def test_change_in_place(self, device: str) -> None:
        x, like = torch.rand(2, 3, device=device), torch.ops.npu.npu_format_cast(torch.rand(2, device=device), 29)
        assert torch.ops.npu.npu_format_cast_(x, 3) is x
        assert torch.ops.npu.get_npu_format(x) == 3
        torch.ops.npu.npu_format_cast_(x, like)
        assert torch.ops.npu.get_npu_format(x) == 29

    def test_are_taken_from_another_tensor(self, device: str) -> None:
        like = torch.ops.npu.npu_format_cast(torch.rand(2, device=device), 29)
        cast = torch.ops.npu.npu_format_cast(torch.rand(3, device=device), like)
        assert torch.ops.npu.get_npu_format(cast) == 29

    def test_let_gradients_through(self, device: str) -> None:
        x = torch.rand(3, device=device, requires_grad=True)
        (found,) = gradients(torch.ops.npu.npu_format_cast(x, 29), x)
        assert_on(device, found, torch.linspace(0.5, 1.5, 3))


class TestDtypes:
    def test_documented_example(self, device: str) -> None:
        found = on_device(device, "npu_dtype_cast", torch.tensor([0, 0.5, -1.0]), torch.int32)
        assert_on(device, found, torch.tensor([0, 0, -1], dtype=torch.int32))

    def test_let_gradients_through(self, device: str) -> None:
        x = torch.rand(3, device=device, requires_grad=True)
        (found,) = gradients(torch.ops.npu.npu_dtype_cast(x, torch.float64), x)
        assert_on(device, found, torch.linspace(0.5, 1.5, 3))

    def test_in_place(self, device: str) -> None:
        target = torch.zeros(3, dtype=torch.int32, device=device)
        source = torch.tensor([1.7, 2.2, -3.9], device=device)
        assert torch.ops.npu.npu_dtype_cast_(target, source) is target
        assert target.tolist() == [1, 2, -3]


class TestShapes:
    def test_reshape_copies(self, device: str) -> None:
        x = doubles(2, 8)
        assert_on(device, on_device(device, "npu_reshape", x, [4, -1]), x.view(4, 4), rtol=0, atol=0)

    def test_transpose_is_contiguous(self, device: str) -> None:
        x = doubles(2, 3, 5)
        found = on_device(device, "npu_transpose", x, (2, 0, 1))
        assert found.is_contiguous()
        assert_on(device, found, x.permute(2, 0, 1), rtol=0, atol=0)

    def test_transpose_into_a_tensor(self, device: str) -> None:
        x, out = doubles(2, 3), torch.zeros(3, 2, dtype=torch.float64, device=device)
        assert torch.ops.npu.npu_transpose(x.to(device), [1, 0], out=out) is out
        assert_on(device, out, x.T, rtol=0, atol=0)

    def test_documented_example_of_broadcast(self, device: str) -> None:
        expected = torch.tensor([[1] * 4, [2] * 4, [3] * 4])
        found = on_device(device, "npu_broadcast", torch.tensor([[1], [2], [3]]), [3, 4])
        assert found.is_contiguous()
        assert_on(device, found, expected)
        out = torch.zeros(3, 4, dtype=torch.int64, device=device)
        torch.ops.npu.npu_broadcast(torch.tensor([[1], [2], [3]], device=device), [3, 4], out=out)
        assert_on(device, out, expected)

    @pytest.mark.parametrize(
        ("perm", "shape", "transpose_first"), [((0, 2, 1, 3), (2, 4, 18), True), ((0, 2, 1), (2, 12, 6), False)]
    )
    def test_confusion_transpose(
        self, device: str, perm: tuple[int, ...], shape: tuple[int, ...], transpose_first: bool
    ) -> None:
        x = doubles(2, 3, 4, 6, requires_grad=True)
        expected = x.permute(perm).reshape(shape) if transpose_first else x.reshape(shape).permute(perm)
        theirs = to_npu(x, device)
        found = torch.ops.npu.npu_confusion_transpose(theirs, perm, shape, transpose_first)
        assert found.is_contiguous()
        assert_on(device, found, expected, rtol=0, atol=0)
        assert_on(device, gradients(found, theirs)[0], gradients(expected, x)[0], rtol=0, atol=0)

    def test_documented_example_of_pad(self, device: str) -> None:
        x = torch.tensor([[20, 20, 10, 10]], dtype=torch.float16)
        expected = torch.zeros(3, 6, dtype=torch.float16)
        expected[1, 1:5] = x[0]
        assert_on(device, on_device(device, "npu_pad", x, [1, 1, 1, 1]), expected)

    def test_pad_begins_with_the_first_dimension(self, device: str) -> None:
        assert on_device(device, "npu_pad", torch.ones(2, 2), [1, 2, 3, 4]).shape == (5, 9)

    def test_stride_copy_is_contiguous(self, device: str) -> None:
        x = doubles(4, 5)
        found = on_device(device, "npu_stride_copy", x, [3, 2], [1, 5], 2)
        assert found.is_contiguous()
        assert_on(device, found, x.as_strided((3, 2), (1, 5), 2), rtol=0, atol=0)


class TestSlices:
    def test_documented_example(self, device: str) -> None:
        x = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], dtype=torch.float16)
        expected = torch.tensor([[1, 2], [6, 7]], dtype=torch.float16)
        assert_on(device, on_device(device, "npu_slice", x, [0, 0], [2, 2]), expected)

    def test_numbers_for_every_dimension(self, device: str) -> None:
        with pytest.raises(ValueError, match=r"npu_slice: expected 2 offsets and sizes for shape \(2, 3\)"):
            on_device(device, "npu_slice", doubles(2, 3), [0], [1])

    @pytest.mark.parametrize(
        ("arguments", "masks", "index"),
        [
            (([0, 0], [2, 2], [1, 1]), {}, (slice(0, 2), slice(0, 2))),
            (([1, 0], [4, 5], [2, 3]), {}, (slice(1, 4, 2), slice(0, 5, 3))),
            (([1, 2], [3, 4], [1, 1]), {"begin_mask": 1, "end_mask": 2}, (slice(None, 3), slice(2, None))),
            (([9, 1], [9, 2], [1, 1]), {"ellipsis_mask": 1}, (Ellipsis, slice(1, 2))),
            (([0, 0], [0, 2], [1, 1]), {"new_axis_mask": 1}, (None, slice(0, 2))),
            (([2, 0], [3, 2], [1, 1]), {"shrink_axis_mask": 1}, (2, slice(0, 2))),
            (([-2], [-1], [1]), {}, (slice(-2, -1),)),
        ],
        ids=["plain", "strides", "open", "ellipsis", "new axis", "shrunken axis", "from the end"],
    )
    def test_indexing_is_that_of_numpy(self, device: str, arguments: Any, masks: dict[str, int], index: Any) -> None:
        x = doubles(4, 5, 6)
        expected = torch.from_numpy(x.numpy()[index].copy())
        assert_on(device, on_device(device, "npu_indexing", x, *arguments, **masks), expected, rtol=0, atol=0)

    def test_indexing_backwards_is_not_emulated(self, device: str) -> None:
        with pytest.raises(NotEmulated, match=r"stride -1 in entry 0 is not emulated; use torch\.flip"):
            on_device(device, "npu_indexing", doubles(3), [2], [0], [-1])


class TestPlaces:
    @pytest.mark.parametrize("keepdim", [False, True])
    @pytest.mark.parametrize(("name", "reduce"), [("npu_max", torch.max), ("npu_min", torch.min)])
    def test_extremes(self, device: str, name: str, reduce: Any, keepdim: bool) -> None:
        x = doubles(3, 4, requires_grad=True)
        expected, where = reduce(x, 1, keepdim)
        theirs = to_npu(x, device)
        values, indices = getattr(torch.ops.npu, name)(theirs, 1, keepdim)
        assert_on(device, values, expected, rtol=0, atol=0)
        assert_on(device, indices, where.int())
        assert_on(device, gradients(values, theirs)[0], gradients(expected, x)[0], rtol=0, atol=0)

    @pytest.mark.parametrize("descending", [False, True])
    def test_sorting(self, device: str, descending: bool) -> None:
        x = doubles(3, 4)
        expected = torch.from_numpy(x.numpy().copy())
        rows = [sorted(row, reverse=descending) for row in expected.tolist()]
        found = on_device(device, "npu_sort_v2", x, descending=descending)
        assert_on(device, found, torch.tensor(rows, dtype=torch.float64), rtol=0, atol=0)

    def test_sorting_another_dimension_is_an_error(self, device: str) -> None:
        with pytest.raises(ValueError, match="expected dim to be the last of 2 dimensions, found 0"):
            on_device(device, "npu_sort_v2", doubles(2, 3), 0)

    def test_documented_example_of_one_hot(self, device: str) -> None:
        expected = torch.tensor([[0.0, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]])
        found = on_device(device, "npu_one_hot", torch.tensor([5, 3, 2, 1], dtype=torch.int32), depth=5)
        assert_on(device, found, expected)

    def test_one_hot_in_another_dimension_with_other_values(self, device: str) -> None:
        found = on_device(device, "npu_one_hot", torch.tensor([2, 0, 1]), 0, 3, 4, -0.5)
        assert_on(device, found, torch.tensor([[-0.5, 4, -0.5], [-0.5, -0.5, 4], [4, -0.5, -0.5]]))

    def test_documented_example_of_scatter(self, device: str) -> None:
        x = torch.tensor([[1.6279, 0.1226], [0.9041, 1.0980]])
        updates = torch.tensor([-1.1993, -1.5247])
        expected = torch.tensor([[-1.1993, 0.1226], [0.9041, -1.5247]])
        found = on_device(device, "npu_scatter", x, torch.tensor([0, 1], dtype=torch.int32), updates, 0)
        assert_on(device, found, expected)

    def test_scatter_with_all_dimensions_is_that_of_torch(self, device: str) -> None:
        x, updates = doubles(3, 4), doubles(2, 4, seed=1)
        index = torch.tensor([[0, 1, 2, 0], [2, 2, 0, 1]], dtype=torch.int32)
        expected = x.scatter(0, index.long(), updates)
        assert_on(device, on_device(device, "npu_scatter", x, index, updates, 0), expected, rtol=0, atol=0)

    def test_scatter_of_nothing_is_a_copy(self, device: str) -> None:
        x = doubles(3, 4)
        nothing = torch.zeros(0, dtype=torch.int32)
        assert_on(device, on_device(device, "npu_scatter", x, nothing, doubles(0), 0), x, rtol=0, atol=0)

    def test_documented_example_of_masked_fill_range(self, device: str) -> None:
        x = torch.rand(4, 4)
        start, end = (torch.tensor([row], dtype=torch.int32) for row in ([0, 1, 2, 0], [1, 2, 3, 0]))
        expected = x.clone()
        expected[0, 0] = expected[1, 1] = expected[2, 2] = 1
        assert_on(device, on_device(device, "npu_masked_fill_range", x, start, end, torch.tensor([1.0]), 1), expected)

    def test_later_ranges_overwrite_earlier_ones(self, device: str) -> None:
        x = torch.zeros(2, 3, 6)
        start, end = torch.tensor([[0, 2], [1, 5]]), torch.tensor([[4, 3], [2, 6]])
        expected = torch.zeros(2, 3, 6)
        expected[0, :, 0:4], expected[0, :, 1:2], expected[1, :, 2:3], expected[1, :, 5:6] = 7, 8, 7, 8
        found = on_device(device, "npu_masked_fill_range", x, start, end, torch.tensor([7.0, 8.0]))
        assert_on(device, found, expected)

    def test_masked_fill_range_of_another_dimension_is_not_emulated(self, device: str) -> None:
        ranges = torch.zeros(1, 2, dtype=torch.int32)
        with pytest.raises(NotEmulated, match="axis=0 of 2 dimensions"):
            on_device(device, "npu_masked_fill_range", torch.zeros(2, 3), ranges, ranges, torch.zeros(1), 0)
