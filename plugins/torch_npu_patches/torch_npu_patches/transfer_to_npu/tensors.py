"""Replacements in torch.Tensor and its like that are more than a rewritten argument.

Each ``make_...`` takes the group and the target, for the audit, where it needs them, and returns the factory of the
replacement from the original.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import patchcore as pc
from torch_npu_patches import private_torch
from torch_npu_patches.transfer_to_npu import audit
from torch_npu_patches.transfer_to_npu.audit import Place
from torch_npu_patches.transfer_to_npu.devices import CUDA, NPU, npu_device, npu_number, npu_tensor_type
from torch_npu_patches.transfer_to_npu.wrappers import under_the_name

__all__ = [
    "make_allowed_methods",
    "make_cuda",
    "make_data_parallel",
    "make_generator_call",
    "make_getstate",
    "make_is_cuda",
    "make_module_cuda",
    "make_packed_cuda",
    "make_set_default_tensor_type",
    "make_setstate",
]

Make = Callable[[Any], Any]


def make_cuda(group: str, target: pc.Target) -> Make:
    """``Tensor.cuda``: move to the NPU of that number."""

    def make(original: Any) -> Any:
        import torch

        note = audit.counter_of(Place(group, str(target), "device")).note
        to = torch.Tensor.to

        def cuda(
            self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = torch.preserve_format
        ) -> Any:
            moved = _npu_of(device)
            note(device, moved)
            return to(self, device=moved, non_blocking=non_blocking, memory_format=memory_format)

        return under_the_name(cuda, original, target)

    return make


def make_packed_cuda(group: str, target: pc.Target) -> Make:
    """``PackedSequence.cuda``, which in torch compares the device with ``cuda`` to see whether it has moved."""

    def make(original: Any) -> Any:
        note = audit.counter_of(Place(group, str(target), "device")).note

        def cuda(self: Any, device: Any = None, **kwargs: Any) -> Any:
            moved = _npu_of(device)
            note(device, moved)
            return self.to(device=moved, **kwargs)

        return under_the_name(cuda, original, target)

    return make


def make_is_cuda(group: str, target: pc.Target) -> Make:
    """``is_cuda`` of tensors, storages and packed sequences: true on NPUs too."""

    def make(original: Any) -> property:
        note_read = audit.counter_of(Place(group, str(target), "")).note_read

        def is_cuda(self: Any) -> bool:
            answer = self.device.type in (CUDA, NPU)
            note_read(answer, answer)
            return answer

        def is_cuda_of_packed(self: Any) -> bool:
            answer = self.data.device.type in (CUDA, NPU)
            note_read(answer, answer)
            return answer

        getter = is_cuda_of_packed if "PackedSequence" in target.path else is_cuda
        return property(getter, doc="True where this is on an NPU, which stands in for a GPU, or on a GPU.")

    return make


def make_module_cuda(group: str, target: pc.Target) -> Make:
    """``Module.cuda``, which calls ``Tensor.cuda`` for each parameter and buffer: a module without any is counted."""

    def make(original: Any) -> Any:
        import torch

        note = audit.counter_of(Place(group, str(target), "device")).note
        modules = torch.nn.Module.modules

        def cuda(self: Any, device: Any = None) -> Any:
            moved = original(self, device)
            held = (value for each in modules(self) for value in (*each._parameters.values(), *each._buffers.values()))
            if all(value is None for value in held):
                note(device, npu_number(device) or npu_device(device) or NPU)
            return moved

        return under_the_name(cuda, original, target)

    return make


def make_data_parallel(group: str, target: pc.Target) -> Make:
    """``DataParallel.__init__``: counted only. Without device numbers it means all CUDA devices."""

    def make(original: Any) -> Any:

        note_call = audit.counter_of(Place(group, str(target), "device_ids")).note_call

        def __init__(self: Any, module: Any, device_ids: Any = None, *args: Any, **kwargs: Any) -> None:
            has_device = private_torch.get_available_device_type() is not None
            named = npu_number(device_ids) if has_device else None
            note_call(device_ids, ", ".join(named) if named else NPU if has_device else "cpu")
            original(self, module, device_ids, *args, **kwargs)

        return under_the_name(__init__, original, target)

    return make


def make_allowed_methods(original: list[Any]) -> list[Any]:
    """The methods that parameters of lazy modules allow before they have a shape: the wrapped methods as well."""
    from torch import Tensor

    return [*original, *(method for method in (Tensor.to, Tensor.cuda) if method not in original)]


def make_set_default_tensor_type(group: str, target: pc.Target) -> Make:
    """``set_default_tensor_type`` of a CUDA type: the default dtype and the default device.

    torch refuses types of NPUs there. A later call with a type of the CPU resets the default device.
    """

    def make(original: Any) -> Any:
        import torch

        note = audit.counter_of(Place(group, str(target), "t")).note
        device_is_ours = False

        def set_default_tensor_type(t: Any) -> None:
            nonlocal device_is_ours
            name = _npu_type_of(t)
            if name is None:
                original(t)
                if device_is_ours:
                    torch.set_default_device(None)
                device_is_ours = False
                return
            note(f"torch.cuda.{name}", f"torch.npu.{name}")
            torch.set_default_dtype(getattr(torch, name)(0).dtype)
            torch.set_default_device(NPU)
            device_is_ours = True

        return under_the_name(set_default_tensor_type, original, target)

    return make


def _npu_type_of(value: Any) -> Optional[str]:
    """Return ``FloatTensor`` for ``torch.cuda.FloatTensor``, the type or its name; ``None`` for other types."""
    text = value if isinstance(value, str) else f"{getattr(value, '__module__', '')}.{getattr(value, '__name__', '')}"
    if npu_tensor_type(text) is None and not text.startswith("torch.npu."):
        return None
    return text.rpartition(".")[2]


_DEVICE_MODULE = "custom_device_mod"


def make_getstate(original: Any) -> Any:
    """The state of an autocast context that is copied or pickled: without the module ``torch.npu``.

    torch keeps that module in the object for devices other than its own, and modules cannot be copied.
    """

    def __getstate__(self: Any) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != _DEVICE_MODULE}

    return __getstate__


def make_setstate(original: Any) -> Any:
    """Restore the state that :func:`make_getstate` left out."""

    def __setstate__(self: Any, state: dict[str, Any]) -> None:
        import torch

        self.__dict__.update(state)
        if self.device == NPU:
            setattr(self, _DEVICE_MODULE, torch.npu)

    return __setstate__


def make_generator_call(group: str, target: pc.Target) -> Make:
    """Calling ``torch.Generator``, through its metaclass: torch compares the class itself by identity.

    For a class that a program derives from it, a device that names CUDA is exchanged among the arguments.
    """

    def make(original: Any) -> Any:
        import torch

        counter = audit.counter_of(Place(group, "torch:Generator", "device"))
        note, note_number = counter.note, counter.note_number
        native = private_torch.Generator

        def __call__(cls: type, *args: Any, **kwargs: Any) -> Any:
            if cls is native:
                device = args[0] if args else kwargs.get("device")
                moved = npu_device(device)
                if type(device) is int:
                    note_number(device)
                if moved is not None:
                    note(device, moved)
                    return torch.Generator(moved)  # which may be another class, where the NPU is emulated
            elif issubclass(cls, native):
                args = tuple(_exchanged(value, note) for value in args)
                kwargs = {name: _exchanged(value, note) for name, value in kwargs.items()}
            return original(cls, *args, **kwargs)

        return under_the_name(__call__, original, target)

    return make


def _exchanged(value: Any, note: Callable[[Any, Any], None]) -> Any:
    moved = npu_device(value)
    if moved is None:
        return value
    note(value, moved)
    return moved


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
