"""Measures the differences of tensors and arrays. torch and numpy are used only if a case has their values."""

from __future__ import annotations

import math
import sys
from typing import Any, Optional

from patchcore.plugin import CallOutcome, judge_difference

__all__ = ["compare_numbers", "is_tensor", "loaded_torch", "rounded"]


def loaded_torch() -> Any:
    """Return torch if something has imported it, else ``None``."""
    return sys.modules.get("torch")


def is_tensor(value: Any) -> bool:
    """Return whether ``value`` is a tensor of torch, without importing it."""
    torch = loaded_torch()
    return torch is not None and isinstance(value, torch.Tensor)


def rounded(precise: CallOutcome, like: CallOutcome, dtype: str) -> CallOutcome:
    """Return an outcome with the dtypes of another one; see :meth:`Framework.rounded`."""
    default = getattr(loaded_torch(), dtype)
    return {
        name: value.to(getattr(like.get(name), "dtype", default)) if _is_floating_tensor(value) else value
        for name, value in precise.items()
    }


def _is_floating_tensor(value: Any) -> bool:
    return is_tensor(value) and bool(value.is_floating_point())


def compare_numbers(actual: Any, wanted: Any, rtol: float) -> Optional[tuple[float, str]]:
    """Compare two tensors, or two arrays: dtype and shape, then the numbers.

    Returns:
        The difference and the fault, as from :meth:`Framework.compare_values`; ``None`` for other values.
    """
    tensors = is_tensor(actual) and is_tensor(wanted)  # parameters and tensors are alike
    if not tensors and (type(actual) is not type(wanted) or not hasattr(wanted, "dtype")):
        return None
    for what in ("dtype", "shape"):
        one, other = getattr(actual, what, None), getattr(wanted, what, None)
        if one != other:
            return math.inf, f"expected {what} {_text(other)}, found {_text(one)}"
    return _compare_arrays(_array(actual), _array(wanted), rtol, _is_floating(wanted))


def _text(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, tuple) else str(value)


def _is_floating(value: Any) -> bool:
    if is_tensor(value):
        return bool(value.is_floating_point() or value.is_complex())
    return bool(value.dtype.kind in "fc")


def _array(value: Any) -> Any:
    """Return a numpy array; of floating-point tensors, bfloat16 among them, one in double precision."""
    import numpy

    if is_tensor(value):
        if value.layout is not loaded_torch().strided:
            value = value.to_dense()
        if value.is_complex():
            return value.to(loaded_torch().complex128).numpy()
        return (value.double() if value.is_floating_point() else value).numpy()
    return numpy.asarray(value)


def _compare_arrays(actual: Any, wanted: Any, rtol: float, floating: bool) -> tuple[float, str]:
    import numpy

    if not floating:
        wrong = int(numpy.count_nonzero(actual != wanted))
        return (math.inf, f"{wrong} of {wanted.size} values differ") if wrong else (0.0, "")
    finite = numpy.isfinite(wanted)
    others_agree = numpy.array_equal(actual[~finite], wanted[~finite], equal_nan=True)
    if not others_agree or not numpy.isfinite(actual[finite]).all():
        return math.inf, "NaN or infinity at different positions"
    if not finite.any():
        return 0.0, ""
    largest = float(numpy.abs(wanted[finite]).max())
    return judge_difference(float(numpy.abs(actual[finite] - wanted[finite]).max()), largest, rtol)
