"""Models compiled for a vendor beside the same models in eager, and how far they are apart."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Callable, Optional

import torch
from torch import nn

from npu_graph.conformance.models import Model
from npu_graph.pipeline import compile_graph
from npu_graph.recording import GraphRecord, records
from npu_graph.vendor import Vendor

__all__ = ["Pair", "differences", "draw", "share_of"]

#: How near to where its derivative jumps the input of a ReLU may be. Rounding decides there which side it is on, and
#: gradients of networks with BatchNorm differ in their second digit between any two implementations.
_MARGIN = 1e-5


class Pair:
    """A model compiled for a vendor, and the same model in eager.

    Args:
        vendor: prepared.
        options: of ``torch.compile``.
        model: the model to create.
        dtype: of weights and inputs.
        dynamic: whether sizes are known only when it runs.
    """

    def __init__(
        self, vendor: Vendor, options: Mapping[str, Any], model: Model, dtype: torch.dtype, dynamic: bool
    ) -> None:
        torch.manual_seed(0)
        self.module = model.make().to(vendor.device_type, dtype)
        self.twin = copy.deepcopy(self.module)
        self.shapes = model.shapes if dynamic else model.shapes[:1]
        self._placed = {"device": vendor.device_type, "dtype": dtype}
        self._before = len(records())

        def backend(graph: Any, inputs: Any) -> Any:
            return compile_graph(vendor, graph, inputs, options)

        self.compiled: Callable[..., Any] = torch.compile(self.module, backend=backend, dynamic=dynamic)

    @property
    def records(self) -> tuple[GraphRecord, ...]:
        """The graphs that were compiled since this object was made."""
        return records()[self._before :]

    def inputs(self) -> Iterator[torch.Tensor]:
        """Make an input of each shape; where gradients are wanted, one that :func:`draw` finds."""
        for shape in self.shapes:
            x = draw(self.twin, shape) if self.twin.training else torch.randn(shape)
            yield x.to(**self._placed)

    def both(self, run: Callable[[Callable[..., Any], nn.Module], Any]) -> tuple[Any, Any]:
        """Run ``run(call, module)`` compiled and in eager, with the same random numbers; return the results of both."""
        results = []
        for call, module in ((self.compiled, self.module), (self.twin, self.twin)):
            torch.manual_seed(3)
            results.append(run(call, module))
        return results[0], results[1]


def draw(module: nn.Module, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a random input for which no ReLU of the module is near the place where its derivative jumps.

    Args:
        module: in the state in which it is going to be run; it stays in it.
        shape: of the input.

    Raises:
        RuntimeError: there was none in many.
    """
    judge = copy.deepcopy(module)
    nearest: list[float] = []
    for layer in judge.modules():
        if isinstance(layer, nn.ReLU):
            layer.register_forward_pre_hook(lambda _, inputs: nearest.append(float(inputs[0].abs().min())))
    placed = next(module.parameters())
    for seed in range(300):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        nearest.clear()
        with torch.no_grad():
            judge(x.to(placed.device, placed.dtype))
        if min(nearest, default=1.0) > _MARGIN:
            return x
    raise RuntimeError(f"no input of shape {shape} in 300 is away from where ReLU has no derivative")


def differences(
    got: Mapping[str, Optional[torch.Tensor]],
    wanted: Mapping[str, Optional[torch.Tensor]],
    tolerance: float,
    rounding: Mapping[str, float] = MappingProxyType({}),
) -> list[str]:
    """Return the tensors that differ by more than ``tolerance`` times their largest magnitude, by name.

    Args:
        got, wanted: tensors by name.
        tolerance: share of the largest magnitude of each.
        rounding: the difference that is always allowed, by name of the tensor.
    """
    found = []
    for name, other in wanted.items():
        one = got[name]
        if one is None or other is None:
            if one is not other:
                found.append(f"{name}: {'none' if one is None else 'some'}, where eager has another")
            continue
        if one.shape != other.shape or one.dtype is not other.dtype:
            found.append(f"{name}: {one.dtype} {tuple(one.shape)}, expected {other.dtype} {tuple(other.shape)}")
            continue
        largest = float(other.abs().max()) if other.numel() else 0.0
        distance = float((one.double() - other.double()).abs().max()) if other.numel() else 0.0
        if not distance <= max(tolerance * (largest or 1.0), rounding.get(name, 0.0)):
            found.append(
                f"{name}: off by {distance:.3g} where the largest is {largest:.3g}; allowed: {tolerance:g} of it"
            )
    return found


def share_of(found: tuple[GraphRecord, ...]) -> tuple[int, int, str]:
    """Return how many operators were converted, of how many, and which others there were."""
    converted = sum(len(record.converted) for record in found)
    eager = [node for record in found for node in record.eager]
    others = ", ".join(sorted({f"{node.operator} ({node.reason})" for node in eager}))
    return converted, converted + len(eager), others
