"""What calls give back, laid out flat by name, and how far two of them are apart.

Tensors and arrays are compared as numbers, everything else with ``==``. torch and numpy are used where a case brings
them along; nothing here imports torch.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple, Optional

__all__ = ["GRADIENT", "Difference", "Outcome", "compare", "is_tensor", "loaded_torch", "rounded"]

#: Values by name, ``result[0]`` or ``gradient of args[1]``; tensors are on the CPU.
Outcome = dict[str, Any]

#: What the name of a gradient begins with.
GRADIENT = "gradient of "


class Difference(NamedTuple):
    """How far two outcomes are apart.

    Args:
        forward: the largest difference of results as a share of the largest absolute value expected, over all
            floating-point values.
        gradient: that of gradients, ``None`` where there are none.
        message: what differs by more than is allowed, empty for nothing.
    """

    forward: float
    gradient: Optional[float]
    message: str


def loaded_torch() -> Any:
    """Return torch if something has imported it, else ``None``."""
    return sys.modules.get("torch")


def is_tensor(value: Any) -> bool:
    """Tell whether ``value`` is a tensor of torch, without importing it."""
    torch = loaded_torch()
    return torch is not None and isinstance(value, torch.Tensor)


def compare(actual: Outcome, expected: Outcome, rtol: float) -> Difference:
    """Compare two outcomes value by value: type, shape and dtype first, then the numbers.

    Args:
        actual: of the replacement.
        expected: of the original.
        rtol: the largest difference of a floating-point value allowed, see :class:`patchcore.Check`.
    """
    forward, gradients, message = 0.0, [], ""
    for name in dict.fromkeys((*expected, *actual)):
        if (name in actual) != (name in expected):
            who, other = ("replacement", "original") if name in actual else ("original", "replacement")
            error, why = math.inf, f"the {who} gives one, the {other} none"
        else:
            error, why = _compare_values(actual[name], expected[name], rtol)
        if name.startswith(GRADIENT):
            gradients.append(error)
        else:
            forward = max(forward, error)
        if why and not message:
            message = f"{name}: {why}"
    return Difference(forward, max(gradients, default=None), message)


def rounded(precise: Outcome, like: Outcome, dtype: str) -> Outcome:
    """Return an outcome with the dtypes of another one, that was computed with fewer digits.

    Args:
        precise: its floating-point tensors are rounded.
        like: the other one; empty where there is none.
        dtype: for what the other one does not have.
    """
    default = getattr(loaded_torch(), dtype)
    return {
        name: value.to(getattr(like.get(name), "dtype", default)) if _is_floating_tensor(value) else value
        for name, value in precise.items()
    }


def _is_floating_tensor(value: Any) -> bool:
    return is_tensor(value) and bool(value.is_floating_point())


def _compare_values(actual: Any, wanted: Any, rtol: float) -> tuple[float, str]:
    if type(actual) is not type(wanted) and not (is_tensor(actual) and is_tensor(wanted)):
        return math.inf, f"expected {type(wanted).__name__}, found {type(actual).__name__}"
    if not hasattr(wanted, "dtype") and not isinstance(wanted, float):
        equal = bool(actual == wanted)
        return (0.0, "") if equal else (math.inf, f"expected {wanted!r}, found {actual!r}")
    for what in ("dtype", "shape"):
        one, other = getattr(actual, what, None), getattr(wanted, what, None)
        if one != other:
            return math.inf, f"expected {what} {_text(other)}, found {_text(one)}"
    if isinstance(wanted, float):
        return _compare_floats(actual, wanted, rtol)
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


def _compare_floats(actual: float, wanted: float, rtol: float) -> tuple[float, str]:
    if not (math.isfinite(actual) and math.isfinite(wanted)):
        same = actual == wanted or (math.isnan(actual) and math.isnan(wanted))
        return (0.0, "") if same else (math.inf, f"expected {wanted!r}, found {actual!r}")
    return _judge(abs(actual - wanted), abs(wanted), rtol)


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
    return _judge(float(numpy.abs(actual[finite] - wanted[finite]).max()), largest, rtol)


def _judge(distance: float, largest: float, rtol: float) -> tuple[float, str]:
    if distance == 0.0:
        return 0.0, ""
    error = distance / largest if largest else math.inf
    if error <= rtol:
        return error, ""
    return error, f"differs by {distance:.3g} where the largest value is {largest:.3g}: {error:.3g}, allowed {rtol:.3g}"
