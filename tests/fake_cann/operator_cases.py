"""A program for the fake CANN: calls operators through torch_npu and compares them with the CPU, forward and backward.

``python -m fake_cann run operator_cases.py RESULTS`` writes a line of JSON for each case: what was called by its name
in PyTorch, its type, the operators of CANN that this executed, and what came of it: ``equal``, ``differs``, ``refused``
or ``failed``. Samples come from PyTorch's own database of operators, and from ``more_cases.py`` for what that has not.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch_npu  # noqa: F401
from more_cases import CASES
from torch.testing._internal.common_methods_invocations import op_db

from fake_cann.table import computed

TYPES = (torch.float32, torch.int64, torch.bool, torch.float16, torch.bfloat16)
#: Half precision is rounded in other places: operators are computed in float there, or in other steps.
TOLERANCES = {torch.float16: (2e-3, 2e-3), torch.bfloat16: (2e-2, 2e-2)}
SAMPLES = 5
BACKWARD_SAMPLES = 2
#: What draws random numbers, reads memory that nobody wrote, or is a choice among equals: how the last part of the name
#: begins. In evaluation torch_npu's native_batch_norm gives back statistics that the CPU leaves out.
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

NAMES = list(computed())
_library = ctypes.CDLL("libopapi.so")


def counts() -> list[int]:
    """Return how often each operator was executed."""
    buffer = (ctypes.c_long * len(NAMES))()
    _library.fake_cann_calls(buffer)
    return list(buffer)


def called_since(before: list[int]) -> list[str]:
    """Return the operators that were executed since."""
    return [name for name, then, now in zip(NAMES, before, counts()) if then != now]


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
    mapped(lambda tensor: found.append(tensor) or tensor, value)
    return found


def copied(value: Any, device: str) -> Any:
    """Return a value whose tensors are copies on a device."""
    return mapped(lambda tensor: tensor.detach().clone().to(device), value)


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives the gradients of its first argument."""

    def backward(first: Any, *rest: Any, **options: Any) -> Any:
        leaves = [tensor.requires_grad_() for tensor in tensors(first) if tensor.is_floating_point()]
        results = [result for result in tensors(function(first, *rest, **options)) if result.requires_grad]
        sum((result.float() ** 2).sum() for result in results).backward()
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    return backward


def compare(name: str, dtype: torch.dtype, function: Callable[..., Any], given: Any, options: Any) -> dict[str, Any]:
    """Return what came of one case."""
    result: dict[str, Any] = {"case": name, "type": str(dtype)}
    try:
        expected = function(*copied(given, "cpu"), **copied(options, "cpu"))
    except Exception:
        return {}  # nothing to compare with
    try:
        given, options = copied(given, "npu"), copied(options, "npu")
        before = counts()
        found = [tensor.cpu() for tensor in tensors(function(*given, **options))]
        result["called"] = called_since(before)
        if "dropout" not in name and any(called.startswith("Dropout") for called in result["called"]):
            return {}  # of attention: the device draws other numbers
        rtol, atol = TOLERANCES.get(dtype, (1e-4, 1e-5))
        torch.testing.assert_close(
            found, tensors(expected), rtol=rtol, atol=atol, equal_nan=True, check_dtype=False, check_stride=False
        )
        result["outcome"] = "equal"
    except AssertionError as error:
        result.update(outcome="differs", why=str(error).strip().splitlines()[0])
    except Exception as error:
        result.setdefault("called", called_since(before))
        lines = str(error).strip().splitlines()
        lines += [line for line in lines if "aclnn" in line or "NotEmulated" in line or "not in lib" in line][:1]
        refused = "NotEmulated" in str(error) or "not in lib" in str(error)
        result.update(outcome="refused" if refused else "failed", why=lines[-1][-200:] if lines else repr(error))
    return result


def database() -> Iterator[tuple[str, torch.dtype, Callable[..., Any], Any, Any]]:
    """Yield the cases of PyTorch's database."""
    for entry in op_db:
        if entry.name.split(".")[-1].startswith(NOT_COMPARED) or "dropout" in entry.name:
            continue
        for dtype in TYPES:
            if dtype not in entry.dtypes:
                continue
            try:
                samples = list(zip(range(SAMPLES), entry.sample_inputs("cpu", dtype, requires_grad=False)))
            except Exception:
                continue
            for number, sample in samples:
                if sample.kwargs.get("return_indices") or sample.kwargs.get("approximate") == "tanh":
                    continue  # the mask of max_pool2d has a format of its own; torch_npu leaves out the mode of gelu
                given = [sample.input, *sample.args]
                yield entry.name, dtype, entry.op, given, sample.kwargs
                if entry.inplace_variant and number < BACKWARD_SAMPLES:
                    yield f"{entry.name}_", dtype, entry.inplace_variant, given, sample.kwargs
                if entry.supports_autograd and dtype.is_floating_point and number < BACKWARD_SAMPLES:
                    yield f"{entry.name} backward", dtype, gradients(entry.op), given, sample.kwargs


def more() -> Iterator[tuple[str, torch.dtype, Callable[..., Any], Any, Any]]:
    """Yield the cases that are written here."""
    for name, function, given in CASES:
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            torch.manual_seed(0)
            made = [value(dtype) if callable(value) else value for value in given]
            yield name, dtype, function, made, {}
            yield f"{name} backward", dtype, gradients(function), made, {}


def main(path: str) -> None:
    """Run all cases."""
    torch.set_num_threads(1)
    only = os.environ.get("ONLY")
    with open(path, "w", encoding="utf-8") as file:
        for source in (more(), database()):
            for name, *case in source:
                if only and only not in name:
                    continue
                result = compare(name, *case)
                if result:
                    file.write(json.dumps(result) + "\n")
                    file.flush()


if __name__ == "__main__":
    main(sys.argv[1])
