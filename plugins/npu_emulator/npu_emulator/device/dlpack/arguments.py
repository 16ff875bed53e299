"""Converts arguments of operators for the CPU: checks that they are on one device, and replaces them by aliases.

Every operator passes here, so the closures look at nothing that the schema has already told.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from npu_emulator.device.dlpack.devices import Devices
from npu_emulator.device.dlpack.plans import Plan
from npu_emulator.device.dlpack.retagging import cpu_alias, dense_cpu_alias

__all__ = ["Keywords", "Lowering", "Positional", "lowering"]

#: The arguments of a call.
Positional = tuple[Any, ...]
Keywords = dict[str, Any]
#: Takes the arguments of a call. Returns the index of its device, whether Python numbers stand for tensors, and the
#: positional and keyword arguments for a CPU kernel.
Lowering = Callable[[Positional, Keywords], "tuple[int, bool, list[Any], Keywords]"]

_CPU = torch.device("cpu")
#: No device found yet.
_UNKNOWN = -1


def lowering(plan: Plan, devices: Devices, dense: bool) -> Lowering:
    """Return the function that converts the arguments of an operator.

    It raises :class:`RuntimeError`, in torch's words, for arguments on different devices. A tensor without dimensions
    on the CPU is welcome anywhere: it is a number.

    Args:
        plan: of the operator.
        devices: the devices.
        dense: whether no argument can be sparse.
    """
    tensors, lists = plan.tensors, plan.lists
    alias = dense_cpu_alias if dense and not plan.lazy else cpu_alias

    def lower_tensor(value: Tensor, index: int, on_host: Optional[Tensor]) -> tuple[int, Optional[Tensor], Tensor]:
        found = value.get_device()
        if found < 0:
            return index, (value if on_host is None and value.dim() else on_host), value
        if found != index and index != _UNKNOWN:
            raise _mixed(plan, f"npu:{index}", f"npu:{found}")
        return found, on_host, alias(value)

    def lower_list(values: Any, index: int, on_host: Optional[Tensor]) -> tuple[int, Optional[Tensor], Any]:
        if not values or not isinstance(values[0], (Tensor, type(None))):
            return index, on_host, values
        lowered = []
        for value in values:
            if value is not None:
                if _UNKNOWN != value.get_device() == index:
                    value = alias(value)  # as in lower_tensor(), without the call
                else:
                    index, unwelcome, value = lower_tensor(value, index, on_host)
                    if not plan.host_indices:
                        on_host = unwelcome
            lowered.append(value)
        return index, on_host, lowered

    def lower_keywords(
        kwargs: Keywords, index: int, on_host: Optional[Tensor]
    ) -> tuple[int, Optional[Tensor], Keywords]:
        lowered = dict(kwargs)
        for name, value in kwargs.items():
            if isinstance(value, Tensor):
                index, on_host, lowered[name] = lower_tensor(value, index, on_host)
            elif isinstance(value, (list, tuple)):
                index, on_host, lowered[name] = lower_list(value, index, on_host)
            elif isinstance(value, torch.device):
                if index == _UNKNOWN and value.type == "npu":
                    index = devices.resolve(value)
                lowered[name] = _CPU
        return index, on_host, lowered

    def lower(args: Positional, kwargs: Keywords) -> tuple[int, bool, list[Any], Keywords]:
        index, on_host, numbers = _UNKNOWN, None, False
        lowered = list(args)
        count = len(lowered)
        for position in tensors:
            if position >= count:
                break
            value = lowered[position]
            if isinstance(value, Tensor):
                # As in lower_tensor(), without the call: the path of most operators.
                found = value.get_device()
                if found < 0:
                    if on_host is None and value.dim():
                        on_host = value
                    continue
                if found != index:
                    if index != _UNKNOWN:
                        raise _mixed(plan, f"npu:{index}", f"npu:{found}")
                    index = found
                lowered[position] = alias(value)
            elif value is not None:
                numbers = True
        for position in lists:
            if position >= count:
                break
            index, on_host, lowered[position] = lower_list(lowered[position], index, on_host)
        if kwargs:
            index, on_host, kwargs = lower_keywords(kwargs, index, on_host)
        if index == _UNKNOWN:
            index = devices.current()
        if on_host is not None:
            if plan.host_indices and on_host is args[0]:
                raise _foreign_indices(on_host)
            raise _mixed(plan, f"npu:{index}", str(on_host.device))
        return index, numbers, lowered, kwargs

    return lower


# The errors are in torch's words: programs and tests look for them.


def _mixed(plan: Plan, first: str, second: str) -> RuntimeError:
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}! "
        f"(when checking arguments of {plan.operator})"
    )


def _foreign_indices(indexed: Tensor) -> RuntimeError:
    return RuntimeError(
        f"indices should be either on cpu or on the same device as the indexed tensor ({indexed.device})"
    )
