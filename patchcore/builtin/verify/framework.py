"""Makes calls and compares their results: plain Python values here, tensors of a framework in a plugin.

A plugin returns a :class:`Framework` of its own from the hook ``verify_framework``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from patchcore.builtin.verify.check import Case
from patchcore.errors import SettingsError

__all__ = [
    "CPU_DEVICE",
    "GRADIENT_PREFIX",
    "CallOutcome",
    "Deviation",
    "Execution",
    "Framework",
    "flatten_values",
    "judge_difference",
]

#: Values by name, ``result[0]`` or ``gradient of args[1]``; tensors are on the CPU.
CallOutcome = dict[str, Any]

#: The prefix of the name of a gradient.
GRADIENT_PREFIX = "gradient of "

#: The device of originals, and the only one without a framework.
CPU_DEVICE = "cpu"


class Deviation(NamedTuple):
    """How far two outcomes are apart.

    Args:
        forward: the largest difference of results as a share of the largest absolute value expected, over all
            floating-point values.
        gradient: that of gradients, ``None`` where there are none.
        message: the first value that differs by more than is allowed, empty for none.
    """

    forward: float
    gradient: Optional[float]
    message: str


class Execution:
    """One call, ready to be made: :meth:`forward`, then :meth:`backward`.

    Args:
        case: freshly drawn; the call may change its arguments.
        device: where tensors and modules go first; ``None`` leaves them where they are.
        reference: call the case's reference, where it has one.
        cast: the dtypes through which floating-point tensors and modules go in turn: ``("float16", "float32")`` for the
            numbers of the one computed with in the other.
        seed: of the random weights by which several results are summed up before they are differentiated.

    Examples:
        >>> from patchcore import Case
        >>> from patchcore.plugin import Execution
        >>> execution = Execution(Case(sum, [[1, 2]]))
        >>> execution.forward()
        >>> execution.outcome()
        {'result': 3}
    """

    def __init__(
        self,
        case: Case,
        device: Optional[str] = None,
        *,
        reference: bool = False,
        cast: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self._call = case.reference if reference and case.reference is not None else case.call
        self._args: Any = case.args
        self._kwargs: Any = dict(case.kwargs)
        self._results: CallOutcome = {}

    def forward(self) -> None:
        """Make the call."""
        self._results = dict(flatten_values("result", self._call(*self._args, **self._kwargs)))

    def weigh(self) -> None:
        """Draw the weights that :meth:`backward` begins with, if there are any and they are not drawn yet."""

    def backward(self) -> None:
        """Differentiate the weighted sum of the results, where something is differentiable."""

    def outcome(self) -> CallOutcome:
        """Return results and gradients by name."""
        return dict(self._results)


class Framework:
    """Makes calls and compares their results; this one knows the CPU and the values of Python.

    Examples:
        >>> from patchcore import Case
        >>> from patchcore.plugin import Framework
        >>> Framework().run(Case(sum, [[1, 2]]))
        {'result': 3}
    """

    def default_device(self) -> str:
        """Return the device that is verified where the user names none."""
        return CPU_DEVICE

    def require_device(self, device: str) -> None:
        """Check that there is such a device.

        Raises:
            SettingsError: there is none; with the reason.
        """
        if device != CPU_DEVICE:
            raise SettingsError(
                f"--device {device}: no plugin is loaded that knows devices (hook verify_framework); patchcore list "
                "shows the plugins, patchcore doctor those that could not be loaded"
            )

    def wait_for(self, device: str) -> None:
        """Wait until the device has finished its work, if that is asynchronous."""

    def execution(self, case: Case, device: Optional[str] = None, **options: Any) -> Execution:
        """Return a call that is ready to be made; arguments as of :class:`Execution`."""
        return Execution(case, device, **options)

    def run(self, case: Case, device: Optional[str] = None, **options: Any) -> CallOutcome:
        """Make the call and return its results, with gradients if there are any."""
        execution = self.execution(case, device, **options)
        execution.forward()
        execution.backward()
        return execution.outcome()

    def rounded(self, precise: CallOutcome, like: CallOutcome, dtype: str) -> CallOutcome:
        """Return an outcome with the dtypes of another one, that was computed with fewer digits.

        Args:
            precise: its floating-point tensors are rounded.
            like: the other one; empty where there is none.
            dtype: for values that the other one does not have.
        """
        return precise

    def compare(self, actual: CallOutcome, expected: CallOutcome, rtol: float) -> Deviation:
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
                error, why = self.compare_values(actual[name], expected[name], rtol)
            if name.startswith(GRADIENT_PREFIX):
                gradients.append(error)
            else:
                forward = max(forward, error)
            if why and not message:
                message = f"{name}: {why}"
        return Deviation(forward, max(gradients, default=None), message)

    def compare_values(self, actual: Any, wanted: Any, rtol: float) -> tuple[float, str]:
        """Return how far two values are apart, and a text about the difference if it is too large, else an empty one.

        Floating-point numbers are compared as numbers, everything else with ``==``.

        Args:
            actual, wanted: of replacement and original.
            rtol: see :meth:`compare`.
        """
        if type(actual) is not type(wanted):
            return math.inf, f"expected {type(wanted).__name__}, found {type(actual).__name__}"
        if isinstance(wanted, float):
            return _compare_floats(actual, wanted, rtol)
        return (0.0, "") if bool(actual == wanted) else (math.inf, f"expected {wanted!r}, found {actual!r}")


def flatten_values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the innermost values of nested sequences and mappings by name: ``result[0]``, ``result['loss']``.

    Examples:
        >>> from patchcore.plugin import flatten_values
        >>> dict(flatten_values("result", {"loss": [1, 2]}))
        {"result['loss'][0]": 1, "result['loss'][1]": 2}
    """
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from flatten_values(f"{name}[{index}]", item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from flatten_values(f"{name}[{key!r}]", item)
    else:
        yield name, value


def judge_difference(distance: float, largest: float, rtol: float) -> tuple[float, str]:
    """Return a difference as a share, and a text about it if it is too large, else an empty one.

    Args:
        distance: the largest difference.
        largest: the largest absolute value expected.
        rtol: see :meth:`Framework.compare`.

    Examples:
        >>> from patchcore.plugin import judge_difference
        >>> judge_difference(0.5, 10.0, rtol=0.1)
        (0.05, '')
    """
    if distance == 0.0:
        return 0.0, ""
    error = distance / largest if largest else math.inf
    if error <= rtol:
        return error, ""
    return error, f"differs by {distance:.3g} where the largest value is {largest:.3g}: {error:.3g}, allowed {rtol:.3g}"


def _compare_floats(actual: float, wanted: float, rtol: float) -> tuple[float, str]:
    if not (math.isfinite(actual) and math.isfinite(wanted)):
        same = actual == wanted or (math.isnan(actual) and math.isnan(wanted))
        return (0.0, "") if same else (math.inf, f"expected {wanted!r}, found {actual!r}")
    return judge_difference(abs(actual - wanted), abs(wanted), rtol)
