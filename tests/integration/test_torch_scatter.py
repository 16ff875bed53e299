"""``torch_scatter.scatter`` without an NPU: sums, means and maxima of groups, by definition and as in torch_scatter.

The replacements run on CPU tensors here, on the stand-ins for mx_driving's kernels. torch_scatter is compiled against
one torch and is nobody's requirement; where it cannot be imported, what compares with it is skipped.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

import npu_emulator  # noqa: E402
import patchcore as pc  # noqa: E402
from torch_npu_patches import torch_scatter as ours  # noqa: E402

calls = npu_emulator.mx_driving.calls
needs_torch_scatter = pytest.mark.skipif(
    importlib.util.find_spec("torch_scatter") is None,
    reason="torch_scatter is not installed: pip install --no-build-isolation torch_scatter==2.1.2 compiles it, "
    "which takes a C++ compiler: apt-get install g++",
)


@pytest.fixture(autouse=True)
def kernels() -> Iterator[None]:
    """mx_driving's kernels, on CPU tensors."""
    with npu_emulator.install(device=False):
        calls.clear()
        yield
        calls.clear()


def random(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def groups(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 4, shape, generator=torch.Generator().manual_seed(seed))


def over_all(index: Tensor, src: Tensor, dim: int) -> Tensor:
    """Return the group of every element of src: the rule in torch_scatter's documentation."""
    if index.dim() == 1:
        index = index.view(*[1] * (dim % src.dim()), -1)
    return index.view(*index.shape, *[1] * (src.dim() - index.dim())).expand_as(src)


def defined(reduce: str, src: Tensor, index: Tensor, dim: int, dim_size: int) -> Tensor:
    """Return what a reduction is by definition, one group after another."""
    found = []
    for group in range(dim_size):
        member = over_all(index, src, dim) == group
        count = member.sum(dim)
        if reduce == "max":
            value = src.masked_fill(~member, -torch.inf).amax(dim).masked_fill(count == 0, 0)
        else:
            value = src.masked_fill(~member, 0).sum(dim)
        found.append(value / count.clamp(min=1) if reduce == "mean" else value)
    return torch.stack(found, dim)


#: The shape of src, that of the index, and the dimension.
LAYOUTS = {
    "vector": ((7,), (7,), 0),
    "rows": ((6, 5), (6,), 0),
    "columns": ((5, 6), (6,), -1),
    "middle": ((4, 3, 5), (3,), 1),
    "index of every element": ((4, 3, 5), (4, 3, 5), 1),
    "index of every element, last": ((6, 8), (6, 8), -1),
    "index of leading dimensions": ((2, 6, 3, 4), (2, 6), 1),
    "index that is broadcast": ((2, 6, 3), (1, 6, 1), 1),
    "index that is broadcast in front": ((2, 6, 3), (1, 6, 3), 1),
    "index shorter than dim": ((2, 3, 4), (2, 3), 2),
}
#: The mean of torch_scatter 2.1.2 fails where the index has no dimension dim.
COMPARED = {name: layout for name, layout in LAYOUTS.items() if name != "index shorter than dim"}
REDUCTIONS = ("sum", "mean", "max")


def reduce_by(module: Any, reduce: str, *arguments: Any, **options: Any) -> tuple[Tensor, Any]:
    """Return the values, and for a maximum its positions too."""
    found = getattr(module, f"scatter_{reduce}")(*arguments, **options)
    return found if reduce == "max" else (found, None)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("reduce", REDUCTIONS)
class TestByDefinition:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
    def test_values(self, reduce: str, layout: Any, dtype: Any) -> None:
        shape, index_shape, dim = layout
        src, index = random(*shape, dtype=dtype), groups(*index_shape)
        values, where = reduce_by(ours, reduce, src, index, dim, dim_size=6)
        expected = defined(reduce, src.double(), index, dim, 6)
        assert values.dtype is dtype
        torch.testing.assert_close(values.double(), expected, rtol=2e-3, atol=4e-3 if dtype is torch.float16 else 1e-6)
        assert sum(calls.values()) == 1
        if reduce == "max":
            missing = torch.cat([src, torch.zeros_like(src.narrow(dim, 0, 1))], dim)
            assert torch.equal(missing.gather(dim, where), values)

    def test_size_is_the_highest_group_and_one(self, reduce: str, layout: Any) -> None:
        shape, index_shape, dim = layout
        index = groups(*index_shape)
        values, _ = reduce_by(ours, reduce, random(*shape), index, dim)
        assert values.shape[dim] == int(index.max()) + 1

    def test_gradient(self, reduce: str, layout: Any) -> None:
        shape, index_shape, dim = layout
        src, index = random(*shape).requires_grad_(), groups(*index_shape)
        values, _ = reduce_by(ours, reduce, src, index, dim, dim_size=6)
        weight = random(*values.shape, seed=1)
        expected = torch.autograd.grad((defined(reduce, src, index, dim, 6) * weight).sum(), src)
        torch.testing.assert_close(torch.autograd.grad((values * weight).sum(), src), expected)


@needs_torch_scatter
@pytest.mark.parametrize("layout", COMPARED.values(), ids=COMPARED)
@pytest.mark.parametrize("reduce", REDUCTIONS)
class TestAsTorchScatter:
    @pytest.mark.parametrize("options", [{}, {"dim_size": 6}], ids=["", "dim_size"])
    def test_values_positions_and_gradient(self, reduce: str, layout: Any, options: Any) -> None:
        import torch_scatter

        shape, index_shape, dim = layout
        found = []
        for module in (ours, torch_scatter):
            src = random(*shape).requires_grad_()
            values, where = reduce_by(module, reduce, src, groups(*index_shape), dim, **options)
            found.append((values, where, torch.autograd.grad((values * random(*values.shape, seed=1)).sum(), src)))
        torch.testing.assert_close(found[0], found[1])

    def test_out(self, reduce: str, layout: Any) -> None:
        import torch_scatter

        shape, index_shape, dim = layout
        found = []
        for module in (ours, torch_scatter):
            size = list(shape)
            size[dim] = 6
            out = random(*size, seed=2)
            src = random(*shape).requires_grad_()
            values, where = reduce_by(module, reduce, src, groups(*index_shape), dim, out=out)
            assert values is out
            found.append((values, where, torch.autograd.grad((values * random(*size, seed=1)).sum(), src)))
        torch.testing.assert_close(found[0], found[1])


@needs_torch_scatter
@pytest.mark.parametrize("options", [{}, {"dim_size": 4}], ids=["", "dim_size"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)], ids=str)
def test_maximum_of_nothing(shape: tuple[int, ...], options: Any) -> None:
    import torch_scatter

    arguments = (torch.zeros(shape), torch.zeros(shape, dtype=torch.int64), 0)
    for actual, expected in zip(
        ours.scatter_max(*arguments, **options), torch_scatter.scatter_max(*arguments, **options)
    ):
        assert actual.dtype is expected.dtype
        assert torch.equal(actual, expected)


class TestErrors:
    @pytest.mark.parametrize("reduce", REDUCTIONS)
    def test_a_group_that_there_is_not(self, reduce: str) -> None:
        message = "the index names group 3, and there are 3 groups"
        with pytest.raises(IndexError, match=message):
            reduce_by(ours, reduce, torch.ones(4), torch.tensor([0, 1, 2, 3]), 0, dim_size=3)
        with pytest.raises(IndexError, match=message):
            reduce_by(ours, reduce, torch.ones(4), torch.tensor([0, 1, 2, 3]), 0, out=torch.zeros(3))

    @pytest.mark.parametrize("reduce", REDUCTIONS)
    @pytest.mark.parametrize("dim", [2, -3])
    def test_a_dimension_that_there_is_not(self, reduce: str, dim: int) -> None:
        with pytest.raises(IndexError, match=f"dim={dim} is out of range for a tensor of 2 dimensions"):
            reduce_by(ours, reduce, torch.ones(4, 2), torch.zeros(4, dtype=torch.int64), dim)

    def test_an_index_of_another_length(self) -> None:
        with pytest.raises(RuntimeError):
            ours.scatter_sum(torch.ones(4, 2), torch.zeros(3, dtype=torch.int64), 0)


class TestWhatGoesToTorchScatter:
    def test_tensors_of_another_device(self) -> None:
        src, index = torch.ones(4), torch.zeros(4, dtype=torch.int64)
        assert not any(fits(src, index) for fits in (ours.on_npu, ours.sum_on_npu, ours.mean_on_npu))


@needs_torch_scatter
class TestPatch:
    @pytest.fixture
    def patched(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pc.Patcher]:
        import torch_scatter

        (tmp_path / "torch_npu.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        before = dict(vars(torch_scatter))
        with pc.Patcher([ours.TORCH_SCATTER], enable=ours.TORCH_SCATTER, strict=True) as patcher:
            yield patcher
        assert all(vars(torch_scatter)[key] is value for key, value in before.items())

    def test_functions_are_replaced_where_they_are_exported(self, patched: pc.Patcher) -> None:
        import sys

        import torch_scatter

        module = sys.modules["torch_scatter.scatter"]  # its name in the package is a function's
        for name in ("scatter_sum", "scatter_mean", "scatter_max"):
            assert vars(torch_scatter)[name] is vars(module)[name]
            assert vars(module)[name].__wrapped__.__module__ == "torch_scatter.scatter"
        assert patched.report()["torch_scatter.scatter"].status == "applied"

    def test_cpu_tensors_keep_their_functions(self, patched: pc.Patcher) -> None:
        import torch_scatter

        src, index = torch.tensor([1, 2, 3]), torch.tensor([0, 1, 1])
        assert torch_scatter.scatter_add(src, index).tolist() == [1, 5]
        assert torch_scatter.scatter(src, index, dim_size=3, reduce="mean").tolist() == [1, 2, 0]
        assert torch_scatter.scatter_max(src.double(), index, dim=-1)[1].tolist() == [0, 2]
        assert not calls
