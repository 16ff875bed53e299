"""Making the call of a case: on a device, in a dtype, with gradients where there are any.

torch is used where a case brings it along; nothing here imports it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from patchcore.builtin.verify.check import Case, Check, Size
from patchcore.builtin.verify.outcomes import GRADIENT, Outcome, is_tensor, loaded_torch
from patchcore.objects.generated import signature_of

__all__ = ["Execution", "draw", "run", "takes"]


def draw(check: Check, make: Any, seed: str, *, size: Optional[Size] = None, dtype: Optional[str] = None) -> Case:
    """Draw the case that ``seed`` stands for.

    Args:
        check: whose case it is, for messages.
        make: its function, imported.
        seed: any text; the same text gives the same case.
        size, dtype: handed on where the function takes them; ``None`` leaves it to the function.

    Raises:
        TypeError: the function does not return a :class:`Case`.
    """
    offered = {"size": size, "dtype": dtype}
    wanted = {name: value for name, value in offered.items() if value is not None and takes(make, name)}
    case = make(random.Random(seed), **wanted)
    if not isinstance(case, Case):
        raise TypeError(f"check {check}: {make!r} returns {type(case).__name__}, expected patchcore.Case")
    return case


def takes(make: Any, argument: str) -> bool:
    """Tell whether a function that draws cases has an argument of this name, besides the first."""
    return argument in list(signature_of(make).parameters)[1:]


def run(
    case: Case, device: Optional[str] = None, *, reference: bool = False, cast: Sequence[str] = (), seed: int = 0
) -> Outcome:
    """Make the call and return what it gives, with gradients where there are any.

    Arguments: see :class:`Execution`.
    """
    execution = Execution(case, device, reference=reference, cast=cast, seed=seed)
    execution.forward()
    execution.backward()
    return execution.outcome()


class Execution:
    """One call, ready to be made: :meth:`forward`, then :meth:`backward`.

    Args:
        case: freshly drawn; its module and tensors are used up.
        device: where tensors and modules go first, ``"npu"``; ``None`` leaves them where they are.
        reference: call the case's reference, where it has one.
        cast: the dtypes through which floating-point tensors and modules go in turn: ``("float16", "float32")`` for the
            numbers of the one computed with in the other.
        seed: of the random weights by which several results are summed up before they are differentiated.
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
        self._module = case.call if _is_module(case.call) else None
        self._cast = tuple(cast)
        self._seed = seed
        if self._module is not None:
            for dtype in self._cast:
                self._module.to(_dtype(dtype))
            if device is not None:
                self._module.to(device)
        self._args, self._kwargs = (_moved(value, device, self._cast) for value in (case.args, dict(case.kwargs)))
        self._results: Outcome = {}
        self._weights: list[Any] = []

    def forward(self) -> None:
        """Make the call."""
        self._results = dict(_flatten("result", self._call(*self._args, **self._kwargs)))

    def weigh(self) -> None:
        """Draw the weights that :meth:`backward` begins with, if they are not drawn yet."""
        torch = loaded_torch()
        if not self._weights and self._leaves() and self._differentiable():
            generator = torch.Generator().manual_seed(self._seed)
            self._weights = [self._weight(value, generator) for value in self._differentiable()]

    def backward(self) -> None:
        """Differentiate the weighted sum of the results, where something is differentiable."""
        self.weigh()
        if self._weights:
            loaded_torch().autograd.backward(self._differentiable(), self._weights)

    def outcome(self) -> Outcome:
        """Return results and gradients by name, on the CPU."""
        outcome = dict(self._results)
        if self._weights:
            outcome.update((f"{GRADIENT}{name}", leaf.grad) for name, leaf in self._leaves().items())
        return {name: value.detach().cpu() if is_tensor(value) else value for name, value in outcome.items()}

    def _differentiable(self) -> list[Any]:
        return [value for value in self._results.values() if is_tensor(value) and value.requires_grad]

    def _leaves(self) -> Outcome:
        """What gets a gradient, by name: arguments that require one, and parameters."""
        arguments = (*_flatten("args", self._args), *_flatten("kwargs", self._kwargs))
        leaves = {name: leaf for name, leaf in arguments if is_tensor(leaf) and leaf.requires_grad}
        if self._module is not None:
            leaves.update((name, leaf) for name, leaf in self._module.named_parameters() if leaf.requires_grad)
        return leaves

    def _weight(self, value: Any, generator: Any) -> Any:
        # positive, so that what sums them up (a bias) does not cancel and lose its digits to the order of summation
        weight = 0.5 + loaded_torch().rand(value.shape, generator=generator)
        return _as_dtypes(weight, self._cast).to(value)


def _is_module(value: Any) -> bool:
    torch = loaded_torch()
    return torch is not None and isinstance(value, torch.nn.Module)


def _dtype(name: str) -> Any:
    return getattr(loaded_torch(), name)


def _as_dtypes(tensor: Any, cast: Sequence[str]) -> Any:
    for name in cast:
        tensor = tensor.to(_dtype(name))
    return tensor


def _moved(value: Any, device: Optional[str], cast: Sequence[str]) -> Any:
    """Return containers with fresh leaves in the place of their tensors."""
    if is_tensor(value):
        tensor = value.detach().clone()
        if tensor.is_floating_point():
            tensor = _as_dtypes(tensor, cast)
        return tensor.to(device=device).requires_grad_(value.requires_grad)
    if isinstance(value, tuple):
        items = [_moved(item, device, cast) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if type(value) is list:
        return [_moved(item, device, cast) for item in value]
    if type(value) is dict:
        return {key: _moved(item, device, cast) for key, item in value.items()}
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
