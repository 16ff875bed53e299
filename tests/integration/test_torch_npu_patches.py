"""Every patch of plugins/torch_npu_patches on the real torch and numpy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

import patchcore as pc  # noqa: E402
from torch_npu_patches.cuda_names.patches import CUDA_NAMES  # noqa: E402
from torch_npu_patches.numpy_compat import NUMPY_COMPAT  # noqa: E402
from torch_npu_patches.plugin import PATCHES  # noqa: E402
from torch_npu_patches.tensor_index import TENSOR_INDEX, make_getitem  # noqa: E402
from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU  # noqa: E402


class TestPlugin:
    def test_default_set_and_legacy_names(self) -> None:
        plan = pc.Patcher.discover(plugins=["torch_npu"]).plan()
        layer = {patch.name: ["transfer_to_npu"] for patch in (*TRANSFER_TO_NPU, *CUDA_NAMES)}
        assert {entry.patch.name: sorted(entry.patch.legacy_names) for entry in plan} == {
            **layer,
            "collections.compat": ["CollectionsCompat", "Iterable", "collections_compat"],
            "numpy.compat": ["NumpyCompat", "numpy_compat", "numpy_type"],
            "torch.internal_format": ["allow_internal_format", "internal_format"],
            "torch.compile": ["compile"],
            "torch.tensor_index": ["TensorIndex", "index", "tensor_index"],
            "torch.batch_matmul": ["BatchMatmul", "batch_matmul"],
            "torch.npu_conjugated_copies": [],
            "torch.npu_fused_adamw_step": ["NpuFusedAdamwStep", "npu_fused_adamw_step"],
            "torch_scatter.scatter": ["TorchScatter", "scatter", "torch_scatter"],
        }
        by_request = {
            "collections.compat",
            "torch.npu_fused_adamw_step",
            "torch.transfer_to_npu.apex",
            "torch_scatter.scatter",
        }
        assert {entry.patch.name for entry in plan if not entry.patch.default} == by_request
        assert plan["numpy_type"].verdict == "apply"
        skipped = plan["index"]
        assert skipped.verdict == "skipped"
        assert skipped.reason == "needs module torch_npu, which is neither installed nor emulated here"

    def test_lists_without_the_libraries(self, run_python: Callable[..., str]) -> None:
        out = run_python("""
            import sys
            sys.modules["torch"] = sys.modules["numpy"] = None
            import patchcore as pc
            patcher = pc.Patcher.discover(plugins=["torch_npu"])
            for entry in patcher.plan():
                print(entry.patch.name, entry.verdict)
            assert not patcher.plugins.problems
            patcher.apply()
            patcher.revert()
        """)
        expected = {f"{patch.name} {'skipped' if patch.default else 'off'}" for patch in PATCHES}
        assert set(out.splitlines()) == expected


class TestNumpyCompat:
    def test_aliases_are_there_while_numpy_is_patched(self, run_python: Callable[..., str]) -> None:
        out = run_python("""
            import builtins, sys, warnings
            warnings.simplefilter("error")
            import patchcore as pc
            from torch_npu_patches.numpy_compat import ALIASES, NUMPY_COMPAT

            patcher = pc.Patcher([NUMPY_COMPAT], strict=True)
            patcher.apply()
            assert "numpy" not in sys.modules
            import numpy as np
            kept = {"bool", "long"} if np.__version__ >= "2" else set()
            for name, builtin in ALIASES.items():
                assert (vars(np)[name] is builtin) == (name not in kept), name
            assert ALIASES == {
                "bool": bool, "int": int, "float": float, "complex": complex, "object": object, "str": str,
                "long": int, "unicode": str,
            }
            assert np.zeros(2, dtype=np.float).dtype == np.float64
            assert np.array([1, 0]).astype(np.bool).dtype == np.bool_
            print(patcher.report().summary())

            patcher.revert()
            warnings.simplefilter("ignore")  # numpy's own note on np.bool and others
            print([name for name in ALIASES if name not in kept if name in vars(np) or hasattr(np, name)])
        """)
        assert out.splitlines() == ["1 applied", "[]"]

    def test_names_that_numpy_2_has_removed(self, run_python: Callable[..., str]) -> None:
        """numpy 1 has them, or lost them for the test."""
        out = run_python("""
            import numpy as np
            import patchcore as pc
            from torch_npu_patches.numpy_compat import NUMPY_COMPAT, RENAMED

            for name in ("in1d", *RENAMED):
                vars(np).pop(name, None)
            np.__all__ = [name for name in np.__all__ if name in vars(np)]
            if not hasattr(np, "trapezoid"):  # of numpy 2
                np.trapezoid = len
            with pc.Patcher([NUMPY_COMPAT], strict=True):
                assert all(vars(np)[name] is getattr(np, now) for name, now in RENAMED.items())
                grid = np.arange(6).reshape(2, 3)
                print(np.in1d(grid, [1, 4]).tolist(), np.in1d(grid, [1, 4], invert=True).sum(), np.float_(2) / np.Inf)
            print([name for name in ("in1d", *RENAMED) if name in vars(np)])
        """)
        assert out.splitlines() == ["[False, True, False, False, True, False] 4 0.0", "[]"]

    def test_an_alias_that_exists_stays(self, run_python: Callable[..., str]) -> None:
        """As on numpy 2, whose np.bool and np.long are types of its own."""
        out = run_python("""
            import numpy as np
            import patchcore as pc
            from torch_npu_patches.numpy_compat import ALIASES, NUMPY_COMPAT

            np.bool, np.long = np.bool_, np.int_
            with pc.Patcher([NUMPY_COMPAT], strict=True) as patcher:
                print(np.bool is np.bool_, np.long is np.int_, np.float)
                record = patcher.report()["numpy.compat"]
                print(record.status)
                for change in record.changes[: len(ALIASES)]:
                    if change.status != "applied":
                        print(change.target, change.status, change.reason)
            print(np.bool is np.bool_, np.long is np.int_, hasattr(np, "float"))
        """)
        assert out.splitlines() == [
            "True True <class 'float'>",
            "applied",
            "numpy:bool skipped numpy:bool already exists",
            "numpy:long skipped numpy:long already exists",
            "True True False",
        ]

    def test_names_of_builtins_elsewhere_are_nobodys_references(self, run_python: Callable[..., str]) -> None:
        """Modules imported while numpy is patched may call ``str`` text_type, as six does; it is not numpy's."""
        out = run_python("""
            import sys, types
            import numpy
            import patchcore as pc
            from torch_npu_patches.numpy_compat import NUMPY_COMPAT

            before, late = types.ModuleType("before"), types.ModuleType("late")
            before.text_type = late.text_type = str
            sys.modules["before"] = before
            with pc.Patcher([NUMPY_COMPAT], strict=True) as patcher:
                sys.modules["late"] = late
                print([change.rebound for change in patcher.report()["numpy.compat"].changes if change.rebound])
            print(vars(before).get("text_type"), vars(late).get("text_type"))
        """)
        assert out.splitlines() == ["[]", "<class 'str'> <class 'str'>"]

    def test_goes_before_patches_of_libraries_that_read_the_aliases(self) -> None:
        other = pc.Patch("other.patch", [pc.Replace("json:dumps", len)])
        plan = pc.Patcher([other, NUMPY_COMPAT]).plan()
        assert [entry.patch.name for entry in plan] == ["numpy.compat", "other.patch"]


# --- tensor_index -----------------------------------------------------------------------------------------------------

getitem = make_getitem(Tensor.__getitem__, device="cpu")
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]


def counting(device: str = "cpu") -> tuple[Any, list[Any]]:
    """Return a patched ``__getitem__``, and the list of the indices that it hands to the original."""
    handed: list[Any] = []

    def original(self: Tensor, index: Any) -> Any:
        handed.append(index)
        return None if self.device.type == "meta" else Tensor.__getitem__(self, index)

    return make_getitem(original, device=device), handed


def tensor(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randint(0, 100, shape, generator=random).to(dtype)


def mask_of(length: int, seed: int) -> Tensor:
    return torch.rand(length, generator=torch.Generator().manual_seed(seed)) < 0.5


class TestMaskSelection:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("columns", [None, 1, 2, 7])
    def test_equals_plain_indexing(self, columns: int | None, seed: int, dtype: torch.dtype) -> None:
        rows = int(torch.randint(0, 9, (), generator=torch.Generator().manual_seed(seed)))
        x = tensor((rows,) if columns is None else (rows, columns), dtype, seed)
        mask = mask_of(rows, seed + 1)
        patched, handed = counting()
        selected = patched(x, mask)
        assert not handed
        assert (selected.shape, selected.dtype) == (x[mask].shape, x[mask].dtype)
        assert torch.equal(selected, x[mask])

    @pytest.mark.parametrize("shape", [(6,), (6, 3)])
    def test_gradient(self, shape: tuple[int, ...]) -> None:
        x = tensor(shape, torch.float64, 0).requires_grad_()
        mask = mask_of(6, 1)
        weight = torch.randn(x[mask].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        (expected,) = torch.autograd.grad((x[mask] * weight).sum(), x)
        (actual,) = torch.autograd.grad((getitem(x, mask) * weight).sum(), x)
        assert torch.equal(actual, expected)
        assert expected.abs().sum() > 0

    @pytest.mark.parametrize("shape", [(6,), (6, 3)])
    def test_the_tensor_may_be_written_to_afterwards(self, shape: tuple[int, ...]) -> None:
        """As with plain indexing, which keeps the shape of the tensor alone for its backward pass."""
        mask, gradients = mask_of(6, 1), []
        for select in (Tensor.__getitem__, getitem):
            start = tensor(shape, torch.float64, 0).requires_grad_()
            x = start * 2
            selected = select(x, mask)
            x[:2] = 0
            selected *= 3
            gradients += torch.autograd.grad(selected.square().sum(), start)
        assert torch.equal(*gradients)
        assert gradients[0].abs().sum() > 0

    @pytest.mark.parametrize("shape", [(6,), (6, 3)])
    def test_other_derivatives(self, shape: tuple[int, ...]) -> None:
        x, mask = tensor(shape, torch.float64, 0), mask_of(6, 1)

        def loss(x: Tensor) -> Tensor:
            return getitem(x, mask).pow(3).sum()

        assert torch.autograd.gradcheck(loss, x.requires_grad_(), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(loss, x)
        expected = torch.zeros_like(x)
        expected[mask] = 3 * x.detach()[mask].square()
        assert torch.equal(torch.func.grad(loss)(x.detach()), expected)

    @pytest.mark.parametrize(
        ("shape", "mask"),
        [
            ((5, 0), torch.ones(5, dtype=torch.bool)),
            ((5, 2, 3), torch.ones(5, dtype=torch.bool)),
            ((5, 2), torch.ones(5, 2, dtype=torch.bool)),
            ((5,), torch.tensor(True)),
            ((5,), torch.ones(5, dtype=torch.uint8)),
            ((5,), torch.tensor([0, 4])),
            ((5,), torch.ones(5, dtype=torch.bool).as_subclass(type("Mask", (Tensor,), {}))),
            ((5,), [True, False, True, False, True]),
            ((5,), (torch.ones(5, dtype=torch.bool),)),
            ((5, 2), (torch.ones(5, dtype=torch.bool), 0)),
            ((5,), slice(1, 3)),
            ((5,), 0),
            ((5,), ...),
            ((5,), None),
        ],
        ids=[
            *("no columns", "rank 3", "mask of rank 2", "mask of rank 0", "uint8", "integers", "subclass", "list"),
            *("tuple", "mask and number", "slice", "number", "ellipsis", "None"),
        ],
    )
    @pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8:UserWarning")
    def test_every_other_index_goes_to_the_original(self, shape: tuple[int, ...], mask: Any) -> None:
        x = tensor(shape, torch.float32, 0)
        patched, handed = counting()
        selected = patched(x, mask)
        assert [index is mask for index in handed] == [True]
        assert type(selected) is type(x[mask])
        assert torch.equal(selected, x[mask])

    @pytest.mark.parametrize("shape", [(5,), (5, 3)])
    @pytest.mark.parametrize("length", [0, 4, 6])
    def test_mask_of_the_wrong_length_is_the_same_error(self, shape: tuple[int, ...], length: int) -> None:
        x, mask = tensor(shape, torch.float32, 0), torch.ones(length, dtype=torch.bool)
        with pytest.raises(IndexError) as expected:
            x[mask]
        with pytest.raises(IndexError) as actual:
            getitem(x, mask)
        assert str(actual.value) == str(expected.value)

    def test_tensors_of_another_device_and_masks_from_the_cpu(self) -> None:
        mask = torch.ones(5, dtype=torch.bool)
        patched, handed = counting(device="meta")
        assert torch.equal(patched(torch.arange(5), mask), torch.arange(5))
        assert patched(torch.empty(5, device="meta"), mask) is None
        assert len(handed) == 2


class TestTensorIndex:
    @pytest.fixture
    def torch_npu(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A torch_npu that can be found, which is all the patch asks for."""
        (tmp_path / "torch_npu.py").touch()
        monkeypatch.syspath_prepend(tmp_path)

    @pytest.fixture
    def patched(self, torch_npu: None) -> Iterator[pc.Patcher]:
        assert "__getitem__" not in vars(Tensor)
        before = dict(vars(Tensor))
        with pc.Patcher([TENSOR_INDEX], strict=True) as patcher:
            assert vars(Tensor)["__getitem__"].__module__ == "torch_npu_patches.tensor_index"
            yield patcher
        assert "__getitem__" not in vars(Tensor)
        assert all(vars(Tensor)[key] is value for key, value in before.items())
        assert "torch_npu" not in sys.modules

    def test_cpu_tensors_keep_their_indexing(self, patched: pc.Patcher, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> Any:
            raise AssertionError("masked_select was called for a CPU tensor")

        monkeypatch.setattr(torch, "masked_select", refuse)
        getitem = vars(Tensor)["__getitem__"]
        names = getitem.__code__.co_freevars
        cell = dict(zip(names, getitem.__closure__))["masked_select"]
        monkeypatch.setattr(cell, "cell_contents", refuse)
        x = torch.arange(6.0).view(3, 2)
        mask = torch.tensor([True, False, True])
        assert x[mask].tolist() == [[0, 1], [4, 5]]
        assert x[:, 1][mask].tolist() == [1, 5]
        assert x[0, 1] == 1
        assert x[1:, ..., None].shape == (2, 2, 1)
        with pytest.raises(IndexError):
            x[3]

    def test_subclasses_and_iteration(self, patched: pc.Patcher) -> None:
        class Sub(Tensor):
            pass

        x = torch.arange(4.0).as_subclass(Sub)
        assert type(x[1:]) is Sub
        assert type(x[torch.tensor([True, False, True, False])]) is Sub
        assert [value.item() for value in x] == [0, 1, 2, 3]
        parameter = torch.nn.Parameter(torch.arange(4.0))
        assert parameter[torch.tensor([True, False, True, False])].tolist() == [0, 2]

    def test_function_modes_see_the_indexing(self, patched: pc.Patcher) -> None:
        from torch.overrides import TorchFunctionMode

        seen = []

        class Mode(TorchFunctionMode):
            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                seen.append(function)
                return function(*args, **(kwargs or {}))

        x = torch.arange(4.0)
        with Mode():
            x[0]
        assert seen == [Tensor.__getitem__]  # torch hands out what it finds under this name

    def test_script_and_trace(self, patched: pc.Patcher) -> None:
        traced = torch.jit.trace(lambda x: x[1:] + x[0], torch.arange(4.0))
        assert traced(torch.arange(4.0)).tolist() == [1, 2, 3]

    @pytest.mark.parametrize("fullgraph", [True, False])
    def test_compiles(self, patched: pc.Patcher, fullgraph: bool) -> None:
        def function(x: Tensor) -> Tensor:
            return x[1:] * x[0] + x[torch.tensor([2, 0])][:1]

        def masked(x: Tensor) -> Tensor:
            return x[x > 1].sum()

        x = torch.arange(1.0, 5.0)
        torch.compiler.reset()
        assert torch.equal(torch.compile(function, backend="eager", fullgraph=fullgraph)(x), function(x))
        assert torch.equal(torch.compile(masked, backend="eager")(x), masked(x))

    def test_vmap_and_fake_tensors(self, patched: pc.Patcher) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        assert torch.equal(torch.vmap(lambda row: row[1:])(torch.ones(2, 3)), torch.ones(2, 2))
        with FakeTensorMode():
            assert torch.empty(4, 3)[1:, 0].shape == (3,)


def test_a_tensor_without_dimensions_is_no_sequence_while_indexing_is_patched_nor_afterwards() -> None:
    """torch.tensor asks PySequence_Check, which a ``__getitem__`` written in Python changes for good."""
    numbers = [torch.tensor(1.0), torch.nn.Parameter(torch.tensor(2.0))]
    with pc.Patcher([TENSOR_INDEX], strict=True):
        assert torch.tensor(numbers).tolist() == [1.0, 2.0]
    assert torch.tensor(numbers).tolist() == [1.0, 2.0]
