"""The scatter kernels against loops, torch's reductions and gradcheck."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Optional

import pytest

torch = pytest.importorskip("torch")

from kernel_results import assert_agree, output_and_gradients  # noqa: E402
from torch import Tensor  # noqa: E402

from npu_emulator.limits import LimitError, lifted  # noqa: E402

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
names = pytest.mark.parametrize("name", ["scatter_add", "scatter_mean"])

#: Shape of src, shape of the indices, dimension.
SHAPES = {
    "rows": ((9, 8), (9,), 0),
    "elements": ((20,), (20,), 0),
    "along the last dimension": ((4, 9), (4, 9), -1),
    "along the first dimension": ((9, 4), (9, 4), 0),
    "three dimensions": ((4, 6, 5), (4, 6), 1),
    "three dimensions along the first": ((4, 6, 5), (4, 6), 0),
    "negative, from the end of the indices": ((4, 6, 5), (4, 6), -1),
}
shapes = pytest.mark.parametrize(("shape", "index_shape", "dim"), SHAPES.values(), ids=SHAPES.keys())


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 1) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def groups(shape: tuple[int, ...], count: int = 5, seed: int = 2) -> Tensor:
    """Group numbers of which one occurs nowhere."""
    index = torch.randint(0, count - 1, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int32)
    return torch.where(index == 1, count - 1, index)


def loop(name: str, src: Tensor, index: Tensor, out: Optional[Tensor], dim: int, size: int) -> Tensor:
    """The definition, element by element; differentiable."""
    dim %= index.dim()
    shape = list(src.shape)
    shape[dim] = size
    groups_of: dict[tuple[int, ...], list[Tensor]] = {}
    for place in itertools.product(*map(range, index.shape)):
        target = list(place)
        target[dim] = int(index[place])
        groups_of.setdefault(tuple(target), []).append(src[place])
    result = torch.zeros(shape, dtype=src.dtype) if out is None else out.clone()
    for target, members in groups_of.items():
        total = result[target] + sum(members)
        result = result.index_put(
            tuple(torch.tensor(i) for i in target), total / len(members) if name == "scatter_mean" else total
        )
    return result


@names
@shapes
@dtypes
def test_sums_and_means_agree_with_a_loop(
    mx_driving: ModuleType,
    name: str,
    shape: tuple[int, ...],
    index_shape: tuple[int, ...],
    dim: int,
    dtype: torch.dtype,
) -> None:
    src, index, kernel = values(shape, dtype), groups(index_shape), getattr(mx_driving, name)
    for dim_size in (None, 7):
        assert_agree(
            output_and_gradients(lambda s, size=dim_size: kernel(s, index, None, dim, size), [src]),
            output_and_gradients(lambda s, size=dim_size: loop(name, s, index, None, dim, size or 5), [src]),
        )


@names
@shapes
def test_out_takes_part_in_the_sums(
    mx_driving: ModuleType, name: str, shape: tuple[int, ...], index_shape: tuple[int, ...], dim: int
) -> None:
    src, index, kernel = values(shape, torch.float64), groups(index_shape), getattr(mx_driving, name)
    out_shape = list(shape)
    out_shape[dim % len(index_shape)] = 6
    out = values(tuple(out_shape), torch.float64, seed=3)
    before = out.clone()
    assert_agree(
        output_and_gradients(lambda s: kernel(s, index, out.clone(), dim, 99), [src]),  # the size is not looked at
        output_and_gradients(lambda s: loop(name, s, index, before, dim, 6), [src]),
    )


def test_out_is_overwritten_where_the_device_does(mx_driving: ModuleType) -> None:
    src, index = values((4, 6, 5), torch.float32), groups((4, 6))
    for dim, written in ((1, True), (0, False)):
        out = torch.zeros(5, 6, 5) if dim == 0 else torch.zeros(4, 5, 5)
        result = mx_driving.scatter_add(src, index, out, dim)
        assert torch.equal(out, result) is written
        assert written or not out.any()
    out = torch.zeros(5, 8)
    result, _ = mx_driving.scatter_max(values((9, 8), torch.float32), groups((9,)), out)
    assert torch.equal(out, result)
    assert out.any()


# --- maxima -------------------------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("with_out", [False, True], ids=["", "out"])
def test_maxima_agree_with_scatter_reduce(mx_driving: ModuleType, dtype: torch.dtype, with_out: bool) -> None:
    updates, index = values((30, 8), dtype), groups((30,))
    out = values((6, 8), dtype, seed=3) if with_out else None

    def reference(source: Tensor) -> Tensor:
        start = torch.zeros(5, 8, dtype=dtype) if out is None else out
        place = index.long().unsqueeze(1).expand(-1, 8)
        return start.scatter_reduce(0, place, source, "amax", include_self=out is not None)

    ours = output_and_gradients(
        lambda u: mx_driving.scatter_max(u, index, None if out is None else out.clone())[0], [updates]
    )
    assert_agree(ours, output_and_gradients(reference, [updates]))


def test_rows_of_the_maxima(mx_driving: ModuleType) -> None:
    """The example of mx-driving's page on scatter_max, with its results; no row is in group 1."""
    updates = torch.tensor([[2, 0, 1, 3, 1, 0, 0, 4], [0, 2, 1, 3, 0, 3, 4, 2], [1, 2, 3, 4, 4, 3, 2, 1]]).float()
    indices = torch.tensor([0, 2, 0], dtype=torch.int32)
    for out in (updates.new_zeros(3, 8), None):
        maxima, rows = mx_driving.scatter_max(updates, indices, out)
        assert maxima.tolist() == [[2, 2, 3, 4, 4, 3, 2, 4], [0] * 8, [0, 2, 1, 3, 0, 3, 4, 2]]
        assert rows.tolist() == [[0, 2, 2, 2, 2, 2, 2, 0], [3] * 8, [1] * 8]
        assert rows.dtype == torch.int32


def test_maxima_that_only_out_has(mx_driving: ModuleType) -> None:
    updates = torch.ones(2, 8, requires_grad=True)
    maxima, rows = mx_driving.scatter_max(updates, torch.tensor([0, 1], dtype=torch.int32), torch.full((3, 8), 5.0))
    assert torch.equal(maxima, torch.full((3, 8), 5.0))
    assert torch.equal(rows, torch.full((3, 8), 2, dtype=torch.int32))
    maxima.sum().backward()
    assert not updates.grad.any()


# --- limits and mistakes ------------------------------------------------------------------------------------------


INT = torch.int32
BEYOND_LIMITS = {
    "rows that are no multiple of 8": (
        lambda mx: mx.scatter_max(torch.ones(2, 4), torch.zeros(2, dtype=INT)),
        "scatter_max: the device takes rows of a multiple of 8 elements, found 4",
    ),
    "large index": (
        lambda mx: mx.scatter_max(torch.ones(1, 8), torch.tensor([491520], dtype=INT)),
        "indices below 491520, found 491520",
    ),
}


@pytest.mark.parametrize(("call", "message"), BEYOND_LIMITS.values(), ids=BEYOND_LIMITS.keys())
def test_calls_that_the_device_does_not_take(
    mx_driving: ModuleType, call: Callable[[ModuleType], object], message: str
) -> None:
    with pytest.raises(LimitError, match=message):
        call(mx_driving)
    assert not mx_driving.calls
    with lifted():
        call(mx_driving)


def test_gradient_of_maxima_that_the_device_does_not_have(mx_driving: ModuleType) -> None:
    updates = torch.ones(2, 2, 4, requires_grad=True)
    maxima, _ = mx_driving.scatter_max(updates, torch.zeros(2, dtype=INT))
    with pytest.raises(LimitError, match="updates of two dimensions"):
        maxima.sum().backward()


@pytest.mark.parametrize("name", ["scatter_add", "scatter_mean", "scatter_max"])
def test_nothing_to_scatter(mx_driving: ModuleType, name: str) -> None:
    with pytest.raises(LimitError, match=f"{name}: the device takes at least one element, found none"):
        getattr(mx_driving, name)(torch.ones(0, 8), torch.zeros(0, dtype=INT))


MISTAKES = {
    "shape of the indices": (
        lambda mx: mx.scatter_add(torch.ones(3, 4), torch.zeros(4, dtype=INT)),
        r"shape of src's leading dimensions, \(3, 4\), found \(4,\)",
    ),
    "dimension": (
        lambda mx: mx.scatter_mean(torch.ones(3, 4), torch.zeros(3, dtype=INT), None, 1),
        "expected dim below 1, indices' dimensions, found 1",
    ),
    "index outside": (
        lambda mx: mx.scatter_add(torch.ones(3), torch.tensor([0, 5, 1], dtype=INT), None, 0, 4),
        "expected indices from 0 to 3, found 0 to 5",
    ),
    "negative index": (
        lambda mx: mx.scatter_mean(torch.ones(3), torch.tensor([0, -1, 1], dtype=INT)),
        "expected indices from 0 to 1, found -1 to 1",
    ),
    "shape of out": (
        lambda mx: mx.scatter_add(torch.ones(3, 4), torch.zeros(3, dtype=INT), torch.ones(2, 5)),
        r"expected out of shape \(3, 4\) but for dimension 0, found \(2, 5\)",
    ),
    "dimensions of out": (
        lambda mx: mx.scatter_max(torch.ones(3, 8), torch.zeros(3, dtype=INT), torch.ones(2)),
        r"scatter_max: expected out of shape \(3, 8\) but for dimension 0, found \(2,\)",
    ),
    "indices of maxima": (
        lambda mx: mx.scatter_max(torch.ones(3, 8), torch.zeros(3, 8, dtype=INT)),
        r"expected updates of shape \(n, ...\) and indices of shape \(n,\), found \(3, 8\) and \(3, 8\)",
    ),
}


@pytest.mark.parametrize(("call", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(mx_driving: ModuleType, call: Callable[[ModuleType], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(mx_driving)
