"""Replacements in torch.Tensor and its like that are more than a rewritten argument.

Each ``make_...`` takes the group and the target, for the audit, where it needs them, and returns what makes the
replacement from the original.
"""

from __future__ import annotations

from typing import Any, Callable

import patchcore as pc
from torch_npu_patches.transfer_to_npu import audit
from torch_npu_patches.transfer_to_npu.audit import Place
from torch_npu_patches.transfer_to_npu.devices import CUDA, NPU, npu_device
from torch_npu_patches.transfer_to_npu.wrappers import under_the_name

__all__ = ["make_allowed_methods", "make_cuda", "make_is_cuda", "make_opaque_call", "make_packed_cuda"]

Make = Callable[[Any], Any]


def make_cuda(group: str, target: pc.Target) -> Make:
    """``Tensor.cuda``: move to the NPU of that number."""
    note = audit.counter_of(Place(group, str(target), "device")).note

    def make(original: Any) -> Any:
        import torch

        to, is_dynamo_compiling = torch.Tensor.to, torch.compiler.is_dynamo_compiling

        def cuda(
            self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format
        ) -> Any:
            moved = _npu_of(device)
            if not is_dynamo_compiling():
                note(device, moved)
            return to(self, device=moved, non_blocking=non_blocking, memory_format=memory_format)

        return under_the_name(cuda, original, target)

    return make


def make_packed_cuda(group: str, target: pc.Target) -> Make:
    """``PackedSequence.cuda``, which in torch compares the device with ``cuda`` to see whether it has moved."""
    note = audit.counter_of(Place(group, str(target), "device")).note

    def make(original: Any) -> Any:
        def cuda(self: Any, device: Any = None, **kwargs: Any) -> Any:
            moved = _npu_of(device)
            note(device, moved)
            return self.to(device=moved, **kwargs)

        return under_the_name(cuda, original, target)

    return make


def make_is_cuda(original: Any) -> property:
    """``is_cuda`` of tensors and storages: true on NPUs too."""

    def is_cuda(self: Any) -> bool:
        return self.device.type in (CUDA, NPU)

    return property(is_cuda, doc="True where this is on an NPU, which stands in for a GPU, or on a GPU.")


def make_allowed_methods(original: list[Any]) -> list[Any]:
    """What parameters of lazy modules let through before they have a shape: the wrapped methods as well."""
    from torch import Tensor

    return [*original, *(method for method in (Tensor.to, Tensor.cuda) if method not in original)]


def make_opaque_call(group: str, target: pc.Target) -> Make:
    """Calling ``torch.Generator``, through its metaclass: torch compares the class itself by identity."""
    counter = audit.counter_of(Place(group, "torch:Generator", "device"))
    note, note_number = counter.note, counter.note_number

    def make(original: Any) -> Any:
        import torch

        native = torch._C.Generator

        def __call__(cls: type, *args: Any, **kwargs: Any) -> Any:
            if cls is native:
                device = args[0] if args else kwargs.get("device")
                moved = npu_device(device)
                if type(device) is int:
                    note_number(device)
                if moved is not None:
                    note(device, moved)
                    return torch.Generator(moved)  # which may be another class, where the NPU is emulated
            return original(cls, *args, **kwargs)

        return under_the_name(__call__, original, target)

    return make


def _npu_of(device: Any) -> Any:
    """The NPU that an argument of ``.cuda()`` means: ``None`` for the current one, a number, or a device."""
    from torch import device as as_device

    if device is None:
        return as_device(NPU)
    if isinstance(device, int):
        return as_device(NPU, device)
    moved = npu_device(device)
    found = as_device(device if moved is None else moved)
    if found.type != NPU:
        raise ValueError(f"cuda(): expected a CUDA device or an NPU, found {device!r}; write .to({device!r})")
    return found
