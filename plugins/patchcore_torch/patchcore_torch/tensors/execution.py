"""Makes the call of a case with tensors: on a device, in a dtype, with gradients where there are any.

torch is used where a case brings it along; nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from patchcore import Case
from patchcore.plugin import GRADIENT_PREFIX, CallOutcome, Execution, flatten_values
from patchcore_torch.tensors.comparison import is_tensor, loaded_torch

__all__ = ["TensorExecution"]


class TensorExecution(Execution):
    """One call with tensors and modules; see :class:`Execution`."""

    def __init__(
        self,
        case: Case,
        device: Optional[str] = None,
        *,
        reference: bool = False,
        cast: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(case, device, reference=reference, cast=cast, seed=seed)
        self._module = case.call if _is_module(case.call) else None
        self._cast = tuple(cast)
        self._seed = seed
        if self._module is not None:
            for dtype in self._cast:
                self._module.to(_dtype(dtype))
            if device is not None:
                self._module.to(device)
        self._args, self._kwargs = (_moved(value, device, self._cast) for value in (self._args, self._kwargs))
        self._weights: list[Any] = []

    def weigh(self) -> None:
        torch = loaded_torch()
        if not self._weights and self._leaves() and self._differentiable():
            generator = torch.Generator().manual_seed(self._seed)
            self._weights = [self._weight(value, generator) for value in self._differentiable()]

    def backward(self) -> None:
        self.weigh()
        if self._weights:
            loaded_torch().autograd.backward(self._differentiable(), self._weights)

    def outcome(self) -> CallOutcome:
        """Return results and gradients by name, on the CPU."""
        outcome = dict(self._results)
        if self._weights:
            outcome.update((f"{GRADIENT_PREFIX}{name}", leaf.grad) for name, leaf in self._leaves().items())
        return {name: value.detach().cpu() if is_tensor(value) else value for name, value in outcome.items()}

    def _differentiable(self) -> list[Any]:
        return [value for value in self._results.values() if is_tensor(value) and value.requires_grad]

    def _leaves(self) -> CallOutcome:
        """The tensors that get a gradient, by name: arguments that require one, and parameters."""
        arguments = (*flatten_values("args", self._args), *flatten_values("kwargs", self._kwargs))
        leaves = {name: leaf for name, leaf in arguments if is_tensor(leaf) and leaf.requires_grad}
        if self._module is not None:
            leaves.update((name, leaf) for name, leaf in self._module.named_parameters() if leaf.requires_grad)
        return leaves

    def _weight(self, value: Any, generator: Any) -> Any:
        # positive, so that a sum of them (for a bias) does not cancel and lose its digits to the order of summation
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
