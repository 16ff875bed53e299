"""Code generation, compilation and launch of the C vendor."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Union

from npu_graph.vendor import Answer, Vendor
from patchcore import Skip

if TYPE_CHECKING:
    import torch

    from npu_graph.operations.subgraph import Subgraph, TensorSpec

__all__ = ["CVendor", "Kernel"]

_OUT_OF_MEMORY, _OUT_OF_RANGE = 1, 2
#: For kernels that take tensors only, which are most; kernels only read them.
_NO_INTEGERS, _NO_REALS = (ctypes.c_int64 * 1)(), (ctypes.c_double * 1)()


class CVendor(Vendor):
    """Generates one C function per subgraph.

    A conversion returns a :class:`~npu_graph.c.loops.Map` (one element from others: those of one shape share a loop),
    a :class:`~npu_graph.c.loops.Fold` (one element from several of another shape, likewise), a
    :class:`~npu_graph.c.loops.View` (the same memory, arranged anew) or a :class:`~npu_graph.c.loops.Block` (loops of
    its own).
    """

    name = "c"
    summary = "C, compiled by the system's compiler"
    version = "1"
    device_type = "cpu"
    dtypes = frozenset({"float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"})
    gives_views = True
    source_name = "kernel.c"

    def setup(self) -> None:
        from npu_graph.c import convolution, elementwise, indexing, layout, pooling, products, reductions

        for module in (elementwise, layout, reductions, indexing, products, convolution, pooling):
            module.declare(self)

    def available(self) -> Answer:
        from npu_graph.c.toolchain import MISSING, find_compiler

        return Skip(MISSING) if find_compiler() is None else True

    def generate(self, subgraph: Subgraph) -> str:
        from npu_graph.c.program import Program
        from npu_graph.c.toolchain import find_toolchain

        return Program(subgraph).source(str(find_toolchain() or "no compiler"))

    def compile(self, source: Path) -> None:
        from npu_graph.c.toolchain import MISSING, find_toolchain

        toolchain = find_toolchain()
        if toolchain is None:
            raise RuntimeError(MISSING)
        toolchain.build(source, _library(source))

    def load(self, source: Path) -> Kernel:
        return Kernel(_library(source))

    def launch(
        self,
        kernel: Callable[..., Any],
        inputs: Sequence[Union[torch.Tensor, int, float, bool]],
        outputs: Sequence[TensorSpec],
    ) -> list[torch.Tensor]:
        results = [spec.empty() for spec in outputs]
        kernel(inputs, results)
        for number, spec in enumerate(outputs):
            if 0 in spec.stride:
                results[number] = spec.expand(results[number])
        return results


class Kernel:
    """The function of a shared library.

    Args:
        library: made from the source of a :class:`~npu_graph.c.program.Program`.
    """

    def __init__(self, library: Path) -> None:
        import torch

        self._tensor = torch.Tensor
        self._address = torch.Tensor.data_ptr
        self._arrays: dict[int, type[ctypes.Array[ctypes.c_void_p]]] = {}
        self._library = ctypes.CDLL(str(library))
        self._run = self._library.kernel
        if hasattr(self._library, "omp_set_num_threads"):
            _survive_forks(self._library.omp_set_num_threads)
        self._layouts: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {}

    def __call__(self, inputs: Sequence[Any], results: Sequence[torch.Tensor]) -> None:
        """Run it.

        Args:
            inputs: tensors and numbers, in order, with the values of symbols last.
            results: memory for the outputs.

        Raises:
            MemoryError: there is no memory for intermediate values.
            IndexError: an index is out of range.
        """
        tensors = [value for value in inputs if isinstance(value, self._tensor)]
        integers, reals = _NO_INTEGERS, _NO_REALS
        whole: tuple[int, ...] = ()
        if len(tensors) < len(inputs):
            numbers = [value for value in inputs if not isinstance(value, self._tensor)]
            whole = tuple(0 if isinstance(number, float) else int(number) for number in numbers)
            integers = (ctypes.c_int64 * len(whole))(*whole)
            reals = (ctypes.c_double * len(whole))(*map(float, numbers))
        strides = self._layouts.get(whole)
        if strides is None:
            strides = self._layouts[whole] = self._layout(tensors, integers)
        for number, stride in enumerate(strides):
            tensor = tensors[number]
            if tensor.stride() != stride or tensor.is_neg():
                tensors[number] = _laid_out(tensor, stride)
        tensors += results
        count = len(tensors)
        array = self._arrays.get(count)
        if array is None:
            array = self._arrays[count] = ctypes.c_void_p * count
        status = self._run(array(*map(self._address, tensors)), integers, reals)
        if status == _OUT_OF_MEMORY:
            raise MemoryError("no memory for intermediate results")
        if status == _OUT_OF_RANGE:
            raise IndexError("an index is out of range")

    def _layout(self, tensors: Sequence[Any], integers: Any) -> tuple[tuple[int, ...], ...]:
        """The strides that the source was generated for; no size depends on a number that is not whole."""
        ranks = [tensor.dim() for tensor in tensors]
        flat = (ctypes.c_int64 * (sum(ranks) + 1))()
        self._library.layout(integers, flat)
        ends = [sum(ranks[: i + 1]) for i in range(len(ranks))]
        return tuple(tuple(flat[end - rank : end]) for end, rank in zip(ends, ranks))


#: The objects that were registered with this process, once.
_HOOKS: dict[str, Any] = {}


def _survive_forks(set_threads: Callable[[int], Any]) -> None:
    """Have children of this process use one thread: GNU's OpenMP would wait for those that the parent has."""
    if hasattr(os, "register_at_fork") and "fork" not in _HOOKS:
        os.register_at_fork(after_in_child=_HOOKS.setdefault("fork", functools.partial(set_threads, 1)))


def _laid_out(tensor: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """Return ``tensor`` with ``stride``: torch's strides of an intermediate result may differ from its kernel's."""
    tensor = tensor.resolve_neg()
    if tensor.stride() == stride:
        return tensor
    pairs = zip(tensor.shape, tensor.stride(), stride)
    if all(size < 2 or given == wanted for size, given, wanted in pairs):
        return tensor
    return tensor.detach().new_empty_strided(tensor.shape, stride).copy_(tensor.detach())


def _library(source: Path) -> Path:
    return source.with_suffix(".so")
