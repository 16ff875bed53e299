"""``torch.batch_matmul`` without an NPU: which multiplications it takes, and that all others are torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

import npu_emulator  # noqa: E402
import patchcore as pc  # noqa: E402
from torch_npu_patches.batch_matmul import BATCH_MATMUL, make_matmul, make_method  # noqa: E402
from torch_npu_patches.wrapping import COMPILE  # noqa: E402

calls = npu_emulator.mx_driving.calls


@pytest.fixture(autouse=True)
def kernels() -> Iterator[None]:
    """mx_driving's kernels, on CPU tensors."""
    with npu_emulator.install(device=False):
        calls.clear()
        yield
        calls.clear()


def counting(device: str = "cpu") -> tuple[Any, list[Any]]:
    """Return a patched ``Tensor.matmul`` for ``device``, and the list of what it hands to the original."""
    handed: list[Any] = []

    def matmul(self: Any, other: Any) -> Any:
        handed.append((self, other))
        return Tensor.matmul(self, other)

    return make_method(matmul, device=device), handed


def random(*shape: int, dtype: Any = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


TAKEN = {
    "4 dimensions": ((2, 5, 4, 4), (2, 5, 4, 1)),
    "cameras by points": ((2, 6, 1, 1, 4, 4), (2, 1, 5, 3, 4, 1)),
    "7 dimensions": ((1, 2, 1, 2, 1, 3, 3), (2, 1, 2, 1, 2, 3, 1)),
    "1 x 1": ((2, 2, 1, 1), (2, 2, 1, 1)),
}


class TestWhatIsTaken:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
    @pytest.mark.parametrize("shapes", TAKEN.values(), ids=TAKEN)
    def test_equals_matmul(self, shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: Any) -> None:
        matrix, column = random(*shapes[0], dtype=dtype), random(*shapes[1], dtype=dtype, seed=1)
        patched, handed = counting()
        product = patched(matrix, column)
        assert not handed
        assert calls["npu_batch_matmul"] == 1
        torch.testing.assert_close(product, matrix @ column)

    def test_gradients(self) -> None:
        matrix = random(2, 6, 1, 1, 4, 4).requires_grad_()
        column = random(2, 1, 5, 3, 4, 1, seed=1).requires_grad_()
        patched, _ = counting()
        weight = random(2, 6, 5, 3, 4, 1, seed=2)
        actual = torch.autograd.grad((patched(matrix, column) * weight).sum(), (matrix, column))
        expected = torch.autograd.grad(((matrix @ column) * weight).sum(), (matrix, column))
        torch.testing.assert_close(actual, expected)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    def test_dtype_under_autocast_is_that_of_matmul(self, dtype: Any) -> None:
        matrix, column = random(2, 5, 4, 4), random(2, 5, 4, 1, seed=1)
        patched, handed = counting()
        with torch.autocast("cpu", dtype=dtype):
            product, expected = patched(matrix, column), matrix @ column
        assert not handed
        assert product.dtype is expected.dtype is dtype
        torch.testing.assert_close(product, expected, rtol=0.02, atol=0.05)

    def test_function_and_its_out(self) -> None:
        handed: list[Any] = []

        def original(input: Any, other: Any, *, out: Any = None) -> Any:
            handed.append(out)
            return torch.matmul(input, other, out=out)

        matmul = make_matmul(original, device="cpu")
        matrix, column = random(2, 5, 4, 4), random(2, 5, 4, 1, seed=1)
        torch.testing.assert_close(matmul(input=matrix, other=column), matrix @ column)
        assert not handed
        out = torch.empty(2, 5, 4, 1)
        assert matmul(matrix, column, out=out) is out
        torch.testing.assert_close(out, matrix @ column)
        assert handed == [out]


NOT_TAKEN = {
    "rank 3": ((5, 4, 4), (5, 4, 1)),
    "rank 8": ((1,) * 6 + (3, 3), (1,) * 6 + (3, 1)),
    "other ranks": ((5, 4, 4), (2, 5, 4, 1)),
    "two columns": ((2, 5, 4, 4), (2, 5, 4, 2)),
    "no square": ((2, 5, 3, 4), (2, 5, 4, 1)),
    "empty batch": ((0, 1, 4, 4), (1, 5, 4, 1)),
    "empty matrix": ((2, 5, 0, 0), (2, 5, 0, 1)),
}


class TestWhatIsNot:
    @pytest.mark.parametrize("shapes", NOT_TAKEN.values(), ids=NOT_TAKEN)
    def test_shapes(self, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        matrix, column = random(*shapes[0]), random(*shapes[1], seed=1)
        patched, handed = counting()
        torch.testing.assert_close(patched(matrix, column), matrix @ column)
        assert len(handed) == 1
        assert not calls

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.complex64], ids=str)
    def test_dtypes(self, dtype: Any) -> None:
        patched, handed = counting()
        product = patched(torch.ones(2, 5, 4, 4, dtype=dtype), torch.ones(2, 5, 4, 1, dtype=dtype))
        assert product.dtype is dtype
        assert len(handed) == 1

    def test_subclasses_and_parameters(self) -> None:
        plain, column = torch.ones(2, 5, 4, 4), torch.ones(2, 5, 4, 1)
        patched, handed = counting()
        patched(torch.nn.Parameter(plain), column)
        patched(plain, column.as_subclass(type("Points", (Tensor,), {})))
        assert len(handed) == 2

    def test_another_device(self) -> None:
        patched, handed = counting(device="meta")
        column = torch.ones(2, 5, 4, 1)
        assert patched(torch.ones(2, 5, 4, 4), column).device.type == "cpu"
        patched(torch.ones(2, 5, 4, 4), column.to("meta"))
        assert len(handed) == 2
        assert not calls

    @pytest.mark.parametrize(
        ("matrix", "column"),
        [
            (torch.ones(2, 5, 4, 4), torch.ones(3, 5, 4, 1)),
            (torch.ones(2, 5, 4, 4), torch.ones(2, 5, 3, 1)),
            (torch.ones(2, 5, 4, 4), torch.ones(2, 5, 4, 1, dtype=torch.float16)),
            (torch.ones(2, 5, 4, 4), 3),
        ],
        ids=["batches", "inner dimension", "dtypes", "number"],
    )
    def test_the_error_is_that_of_matmul(self, matrix: Tensor, column: Any) -> None:
        patched, _ = counting()
        with pytest.raises((RuntimeError, TypeError)) as expected:
            Tensor.matmul(matrix, column)
        with pytest.raises(type(expected.value)) as actual:
            patched(matrix, column)
        assert str(actual.value) == str(expected.value)


class TestWhileItIsApplied:
    @pytest.fixture
    def patched(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pc.Patcher]:
        (tmp_path / "torch_npu.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        before, function = dict(vars(Tensor)), torch.matmul
        with pc.Patcher([COMPILE, BATCH_MATMUL], strict=True) as patcher:
            assert torch.matmul is not function
            yield patcher
        assert torch.matmul is function
        assert before.keys() == vars(Tensor).keys()
        assert all(vars(Tensor)[key] is value for key, value in before.items())

    def test_cpu_tensors_keep_their_matmul(self, patched: pc.Patcher) -> None:
        matrix, column = random(2, 5, 4, 4), random(2, 5, 4, 1)
        for product in (
            matrix @ column,
            torch.matmul(matrix, column),
            matrix.matmul(column),
            matrix.matmul(other=column),
        ):
            assert product.shape == (2, 5, 4, 1)
        assert not calls
        record = patched.report()["torch.batch_matmul"]
        assert (record.status, len(record.changes)) == ("applied", 3)

    def test_operands_that_are_no_tensors(self, patched: pc.Patcher) -> None:
        numpy = pytest.importorskip("numpy")
        assert (torch.ones(2, 3) @ numpy.ones((3, 2))).shape == (2, 2)

        class Right:
            def __rmatmul__(self, other: Any) -> str:
                return "reflected"

        assert torch.ones(2, 3) @ Right() == "reflected"
        with pytest.raises(TypeError, match="unsupported operand"):
            torch.ones(2, 3) @ 3  # type: ignore[operator]

    def test_script_and_trace(self, patched: pc.Patcher) -> None:
        x = random(3, 3)
        scripted = torch.jit.script(_three_products)
        assert torch.equal(scripted(x, x), _three_products(x, x))
        assert torch.equal(torch.jit.trace(_three_products, (x, x))(x, x), _three_products(x, x))
        graph = torch.fx.symbolic_trace(_three_products)
        assert torch.equal(graph(x, x), _three_products(x, x))
        assert "torch.matmul" in graph.code

    def test_compiles_whole(self, patched: pc.Patcher) -> None:
        torch.compiler.reset()
        x = random(2, 5, 4, 4)
        compiled = torch.compile(_three_products, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(x, x[..., :1]), _three_products(x, x[..., :1]))

    def test_compiles_after_revert(self, run_python: Callable[..., str], tmp_path: Path) -> None:
        """In a process in which torch.compile has come to know torch's functions while they were patched."""
        for name in ("torch_npu", "mx_driving"):
            (tmp_path / f"{name}.py").touch()
        out = run_python("""
            import sys
            sys.path.insert(0, ".")
            import patchcore as pc
            from torch_npu_patches.batch_matmul import BATCH_MATMUL
            from torch_npu_patches.wrapping import COMPILE
            patcher = pc.Patcher([COMPILE, BATCH_MATMUL], strict=True)
            patcher.apply()
            import torch
            assert "torch._dynamo.trace_rules" not in sys.modules
            x = torch.ones(2, 2)
            compiled = torch.compile(lambda a: torch.matmul(a, a) + a @ a, backend="eager", fullgraph=True)
            print(compiled(x).sum().item(), patcher.report().summary())
            patcher.revert()
            torch.compiler.reset()
            print(compiled(x).sum().item())
        """)
        assert out.splitlines() == ["16.0 2 applied", "16.0"]


def _three_products(a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(a, b) + a @ b + a.matmul(b)
