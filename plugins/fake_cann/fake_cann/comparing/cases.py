"""The cases: operators of PyTorch with arguments, and their gradients."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional

import torch

from fake_cann import private_torch
from fake_cann.comparing import attention_cases, layer_cases, more_cases, old_cases

__all__ = ["Case", "cases", "mapped", "tensors"]

TYPES = (torch.float32, torch.int64, torch.bool, torch.float16, torch.bfloat16)
SAMPLES = 5
BACKWARD_SAMPLES = 2
#: Operators that draw random numbers, read memory that nobody wrote, or choose among equals: how the last part of the
#: name begins. In evaluation torch_npu's native_batch_norm gives back statistics that the CPU leaves out.
DRAWN = ("bernoulli", "cauchy", "empty", "exponential", "geometric", "log_normal", "multinomial", "new_empty", "normal")
NOT_COMPARED = (
    *DRAWN,
    "rand",
    "rrelu",
    "uniform",
    "eig",
    "lobpcg",
    "lstsq",
    "lu",
    "pca",
    "qr",
    "svd",
    "native_batch_norm",
    "_native_batch_norm",
)


class Case(NamedTuple):
    """One call.

    Args:
        name: of the operator, with ``_`` for its in-place variant, and ``backward`` for its gradients.
        dtype: of the arguments.
        number: of the sample, among those of the same name and type.
        function: to call.
        given: its arguments, on the CPU.
        options: its keyword arguments.
    """

    name: str
    dtype: torch.dtype
    number: int
    function: Callable[..., Any]
    given: Any
    options: Any

    @property
    def key(self) -> tuple[str, str, int]:
        """By which two files are compared."""
        return self.name, str(self.dtype), self.number


def mapped(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """Return a value with every tensor in it replaced."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(mapped(function, item) for item in value)
    if isinstance(value, dict):
        return {key: mapped(function, item) for key, item in value.items()}
    return value


def tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a value."""
    found: list[torch.Tensor] = []

    def add(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    mapped(add, value)
    return found


def cases(only: Optional[str] = None) -> Iterator[Case]:
    """Yield the cases; the same ones, with the same numbers, for a version of PyTorch.

    Args:
        only: a part of the name; ``None`` for all.
    """
    numbers: Counter[tuple[str, torch.dtype]] = Counter()
    for case in itertools.chain(_more(only), _database(only)):
        kind = case.name, case.dtype
        yield case._replace(number=numbers[kind])
        numbers[kind] += 1


def _gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives the gradients of its first argument."""

    def backward(first: Any, *rest: Any, **options: Any) -> Any:
        leaves = [tensor.requires_grad_() for tensor in tensors(first) if tensor.is_floating_point()]
        results = [result for result in tensors(function(first, *rest, **options)) if result.requires_grad]
        sum((result.float() ** 2).sum() for result in results).backward()
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    return backward


def _database(only: Optional[str]) -> Iterator[Case]:
    for entry in private_torch.op_db:
        names = (entry.full_name, f"{entry.full_name}_", f"{entry.full_name} backward")
        if entry.name.split(".")[-1].startswith(NOT_COMPARED) or "dropout" in entry.name:
            continue
        if only is not None and not any(only in name for name in names):
            continue
        for dtype in TYPES:
            if dtype in entry.dtypes:
                yield from (case for case in _of_entry(entry, dtype) if only is None or only in case.name)


def _of_entry(entry: Any, dtype: torch.dtype) -> Iterator[Case]:
    torch.manual_seed(0)
    try:
        samples = list(zip(range(SAMPLES), entry.sample_inputs("cpu", dtype, requires_grad=False)))
    except Exception:  # the entry has no samples of this type on the CPU
        return
    for number, sample in samples:
        if sample.kwargs.get("return_indices") or sample.kwargs.get("approximate") == "tanh":
            continue  # the mask of max_pool2d has a format of its own; torch_npu leaves out the mode of gelu
        given = [sample.input, *sample.args]
        yield Case(entry.full_name, dtype, number, entry.op, given, sample.kwargs)
        if entry.inplace_variant and number < BACKWARD_SAMPLES:
            yield Case(f"{entry.full_name}_", dtype, number, entry.inplace_variant, given, sample.kwargs)
        if entry.supports_autograd and dtype.is_floating_point and number < BACKWARD_SAMPLES:
            yield Case(f"{entry.full_name} backward", dtype, number, _gradients(entry.op), given, sample.kwargs)


def _more(only: Optional[str]) -> Iterator[Case]:
    for name, function, given in (
        *more_cases.CASES,
        *layer_cases.CASES,
        *attention_cases.CASES,
        *old_cases.CASES,
    ):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            torch.manual_seed(0)
            made = [value(dtype) if callable(value) else value for value in given]
            for case in (
                Case(name, dtype, 0, function, made, {}),
                Case(f"{name} backward", dtype, 0, _gradients(function), made, {}),
            ):
                if only is None or only in case.name:
                    yield case
