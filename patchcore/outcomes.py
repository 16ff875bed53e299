"""What a call gives back, laid out flat by name: results, and the gradients of what it was called with.

Tensors and arrays are compared as numbers, everything else with ``==``. torch and numpy are used where a case brings
them along; nothing here imports torch.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Optional

from patchcore.check import Case, Check

__all__ = ["Difference", "Outcome", "compare", "run"]

#: Values by name, ``result[0]`` or ``gradient of args[1]``; tensors are on the CPU.
Outcome = dict[str, Any]


class Difference(NamedTuple):
    """How far two outcomes are apart.

    Args:
        error: the largest difference as a share of the largest absolute value expected, over all floating-point values.
        message: what differs by more than is allowed, empty for nothing.
    """

    error: float
    message: str


def run(case: Case, device: Optional[str] = None, *, reference: bool = False, seed: int = 0) -> Outcome:
    """Make the call and return what it gives, with gradients where there are any.

    Args:
        case: freshly drawn; its module and tensors are used up.
        device: where tensors and modules go first, ``"npu"``; ``None`` leaves them where they are.
        reference: call the case's reference, where it has one.
        seed: of the random weights by which several results are summed up before they are differentiated.
    """
    call = case.reference if reference and case.reference is not None else case.call
    args, kwargs = _moved(case.args, device), _moved(dict(case.kwargs), device)
    if _is_module(case.call) and device is not None:
        case.call.to(device)
    results = call(*args, **kwargs)
    outcome = dict(_flatten("result", results))
    arguments = {**dict(_flatten("args", args)), **dict(_flatten("kwargs", kwargs))}
    outcome.update(_gradients(outcome, arguments, case, seed))
    return {name: value.detach().cpu() if _is_tensor(value) else value for name, value in outcome.items()}


def compare(actual: Outcome, expected: Outcome, rtol: float) -> Difference:
    """Compare two outcomes value by value: type, shape and dtype first, then the numbers.

    Args:
        actual: of the replacement.
        expected: of the original.
        rtol: the largest difference of a floating-point value allowed, see :class:`Check`.
    """
    for name in [*expected, *actual]:
        if (name in actual) != (name in expected):
            who, other = ("replacement", "original") if name in actual else ("original", "replacement")
            return Difference(float("inf"), f"{name}: the {who} gives one, the {other} none")
    worst = 0.0
    message = ""
    for name, wanted in expected.items():
        error, why = _compare_values(actual[name], wanted, rtol)
        worst = max(worst, error)
        if why and not message:
            message = f"{name}: {why}"
    return Difference(worst, message)


def draw(check: Check, make: Any, seed: str) -> Case:
    """Draw the case that ``seed`` stands for.

    Args:
        check: whose case it is, for messages.
        make: its function, imported.
        seed: any text; the same text gives the same case.

    Raises:
        TypeError: the function does not return a :class:`Case`.
    """
    case = make(random.Random(seed))
    if not isinstance(case, Case):
        raise TypeError(f"check {check}: {make!r} returns {type(case).__name__}, expected patchcore.Case")
    return case


def _torch() -> Any:
    return sys.modules.get("torch")


def _is_tensor(value: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(value, torch.Tensor)


def _is_module(value: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(value, torch.nn.Module)


def _moved(value: Any, device: Optional[str]) -> Any:
    """Return containers with fresh leaves in the place of their tensors."""
    if _is_tensor(value):
        return value.detach().clone().to(device=device).requires_grad_(value.requires_grad)
    if isinstance(value, tuple):
        items = [_moved(item, device) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if type(value) is list:
        return [_moved(item, device) for item in value]
    if type(value) is dict:
        return {key: _moved(item, device) for key, item in value.items()}
    return value


def _flatten(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _flatten(f"{name}[{index}]", item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(f"{name}[{key!r}]", item)
    else:
        yield name, value


def _gradients(results: Outcome, arguments: Outcome, case: Case, seed: int) -> Iterator[tuple[str, Any]]:
    torch = _torch()
    leaves = {name: leaf for name, leaf in arguments.items() if _is_tensor(leaf) and leaf.requires_grad}
    if _is_module(case.call):
        leaves.update((name, leaf) for name, leaf in case.call.named_parameters() if leaf.requires_grad)
    differentiable = [value for value in results.values() if _is_tensor(value) and value.requires_grad]
    if not leaves or not differentiable:
        return
    generator = torch.Generator().manual_seed(seed)
    # positive, so that what sums them up (a bias) does not cancel and lose its digits to the order of summation
    weights = [(0.5 + torch.rand(value.shape, generator=generator)).to(value) for value in differentiable]
    torch.autograd.backward(differentiable, weights)
    for name, leaf in leaves.items():
        yield f"gradient of {name}", leaf.grad


def _compare_values(actual: Any, wanted: Any, rtol: float) -> tuple[float, str]:
    if type(actual) is not type(wanted) and not (_is_tensor(actual) and _is_tensor(wanted)):
        return float("inf"), f"expected {type(wanted).__name__}, found {type(actual).__name__}"
    if not hasattr(wanted, "dtype") and not isinstance(wanted, float):
        equal = bool(actual == wanted)
        return (0.0, "") if equal else (float("inf"), f"expected {wanted!r}, found {actual!r}")
    for what in ("dtype", "shape"):
        one, other = getattr(actual, what, None), getattr(wanted, what, None)
        if one != other:
            return float("inf"), f"expected {what} {_text(other)}, found {_text(one)}"
    if isinstance(wanted, float):
        return _compare_floats(actual, wanted, rtol)
    return _compare_arrays(_array(actual), _array(wanted), rtol, _is_floating(wanted))


def _text(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, tuple) else str(value)


def _is_floating(value: Any) -> bool:
    if _is_tensor(value):
        return bool(value.is_floating_point() or value.is_complex())
    return bool(value.dtype.kind in "fc")


def _array(value: Any) -> Any:
    """Return a numpy array; of floating-point tensors, bfloat16 among them, one in double precision."""
    import numpy

    if _is_tensor(value):
        if value.layout is not _torch().strided:
            value = value.to_dense()
        if value.is_complex():
            return value.to(_torch().complex128).numpy()
        return (value.double() if value.is_floating_point() else value).numpy()
    return numpy.asarray(value)


def _compare_floats(actual: float, wanted: float, rtol: float) -> tuple[float, str]:
    if not (math.isfinite(actual) and math.isfinite(wanted)):
        same = actual == wanted or (math.isnan(actual) and math.isnan(wanted))
        return (0.0, "") if same else (float("inf"), f"expected {wanted!r}, found {actual!r}")
    return _judge(abs(actual - wanted), abs(wanted), rtol)


def _compare_arrays(actual: Any, wanted: Any, rtol: float, floating: bool) -> tuple[float, str]:
    import numpy

    if not floating:
        wrong = int(numpy.count_nonzero(actual != wanted))
        return (float("inf"), f"{wrong} of {wanted.size} values differ") if wrong else (0.0, "")
    finite = numpy.isfinite(wanted)
    others_agree = numpy.array_equal(actual[~finite], wanted[~finite], equal_nan=True)
    if not others_agree or not numpy.isfinite(actual[finite]).all():
        return float("inf"), "NaN or infinity in other places"
    if not finite.any():
        return 0.0, ""
    largest = float(numpy.abs(wanted[finite]).max())
    return _judge(float(numpy.abs(actual[finite] - wanted[finite]).max()), largest, rtol)


def _judge(distance: float, largest: float, rtol: float) -> tuple[float, str]:
    if distance == 0.0:
        return 0.0, ""
    error = distance / largest if largest else float("inf")
    if error <= rtol:
        return error, ""
    return error, f"differs by {distance:.3g} where the largest value is {largest:.3g}: {error:.3g}, allowed {rtol:.3g}"
