"""Recognises values that name a CUDA device, backend or tensor type, and translates them for an NPU.

Every function here returns ``None`` for a value that stays unchanged: most values do. Text counts as a device
only as a whole (``cuda``, ``cuda:3``), so that a path, an address or a sentence with the word in it never does. Nothing
here imports torch, and nothing here is hard for ``torch.compile`` to follow: no regular expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

__all__ = [
    "CUDA",
    "NPU",
    "Translator",
    "nccl_backend",
    "npu_accelerator",
    "npu_activities",
    "npu_backend",
    "npu_device",
    "npu_devices",
    "npu_location",
    "npu_name",
    "npu_number",
    "npu_tensor_type",
]

CUDA = "cuda"
NPU = "npu"

#: Returns the value for an NPU, ``None`` if it stays.
Translator = Callable[[Any], Optional[Any]]

_TENSOR_TYPES = "torch.cuda."


def npu_name(text: str) -> Optional[str]:
    """Return the NPU's name for ``cuda`` or ``cuda:<number>``, ``None`` for any other text."""
    if text == CUDA:
        return NPU
    if text.startswith("cuda:") and text[5:].isdecimal() and text.isascii():
        return NPU + text[4:]
    return None


def npu_device(value: Any) -> Optional[Any]:
    """Return the NPU that a device argument means: a text for a text, a ``torch.device`` for a ``torch.device``.

    Whole numbers stay: torch itself takes them for the device it was extended with (``torch.zeros(2, device=0)`` is on
    ``npu:0`` with torch_npu; tried with torch 2.13).
    """
    if isinstance(value, str):
        return npu_name(value)
    if _is_cuda_device(value):
        device = type(value)
        return device(NPU) if value.index is None else device(NPU, value.index)
    return None


def npu_accelerator(value: Any) -> Optional[Any]:
    """Return the same as :func:`npu_device`, for arguments whose numbers mean any accelerator: they are not counted."""
    return npu_device(value)


def npu_number(value: Any) -> Optional[Any]:
    """Return the NPU that a device number means, as text, or those that several numbers mean; ``None`` for others.

    Args:
        value: any argument: ``0`` is ``npu:0``, ``[0, 1]`` is ``["npu:0", "npu:1"]``.
    """
    if isinstance(value, (list, tuple)):
        found = [npu_number(item) for item in value]
        return found if found and None not in found else None
    return f"{NPU}:{value}" if type(value) is int and value >= 0 else None


def npu_devices(value: Any) -> Optional[Any]:
    """Return a list or tuple of devices, or a device alone, with CUDA exchanged; ``None`` where there is none."""
    if not isinstance(value, (list, tuple)):
        return npu_device(value)
    exchanged = [npu_device(item) for item in value]
    if all(item is None for item in exchanged):
        return None
    return type(value)([old if new is None else new for old, new in zip(value, exchanged)])


def npu_tensor_type(value: Any) -> Optional[Any]:
    """Return ``torch.npu.FloatTensor`` for the text ``torch.cuda.FloatTensor``, and so on for the other types."""
    if not isinstance(value, str) or not value.startswith(_TENSOR_TYPES):
        return None
    name = value[len(_TENSOR_TYPES) :]
    return f"torch.npu.{name}" if name.isidentifier() and name.endswith("Tensor") else None


def npu_backend(value: Any) -> Optional[Any]:
    """Return a backend of torch.distributed with ``nccl`` as ``hccl``: ``cpu:gloo,cuda:nccl`` is ``cpu:gloo,npu:hccl``.

    The text is read token by token, as :class:`torch.distributed.BackendConfig` reads it; case does not matter there.
    """
    return _exchange_tokens(value, {CUDA: NPU}, {"nccl": "hccl"})


def nccl_backend(value: str) -> Optional[str]:
    """Return a backend with ``hccl`` as ``nccl``, the reverse of :func:`npu_backend`."""
    return _exchange_tokens(value, {NPU: CUDA}, {"hccl": "nccl"})


def npu_location(value: Any) -> Optional[Any]:
    """Return the ``map_location`` for ``torch.load``.

    A text or ``torch.device`` is a device. In a mapping the values are devices, and so are the keys, which are compared
    with the location in the file: that is ``npu:0`` where the file was written on an NPU and ``cuda:0`` where it was
    written on a GPU, so the mapping answers both. Functions stay: their calls are rewritten when they are made.
    """
    if not isinstance(value, Mapping):
        return npu_device(value)
    moved = {key: npu_device(location) for key, location in value.items()}
    exchanged = {key: location if moved[key] is None else moved[key] for key, location in value.items()}
    twins = {npu_device(key): location for key, location in exchanged.items()}
    twins = {twin: location for twin, location in twins.items() if twin is not None and twin not in value}
    # devices of CUDA may be equal to those of NPUs (EqualDevices), so that comparing the two mappings says nothing
    return {**twins, **exchanged} if twins or any(device is not None for device in moved.values()) else None


def npu_activities(value: Any) -> Optional[Any]:
    """Return profiler activities as names, ``CUDA`` as ``NPU``; ``None`` where none were given.

    Args:
        value: activities of ``torch.profiler``, which are told by their names: ``ProfilerActivity.CUDA``.
    """
    if value is None:
        return None
    return ["NPU" if activity.name == "CUDA" else activity.name for activity in value]


def _is_cuda_device(value: Any) -> bool:
    # torch.device is a built-in type of that name; asking any other object for its type might mean something to it
    return type(value).__name__ == "device" and value.type == CUDA and type(value).__module__ == "torch"


def _exchange_tokens(value: Any, devices: Mapping[str, str], backends: Mapping[str, str]) -> Optional[Any]:
    if not isinstance(value, str):
        return None
    tokens = []
    for token in value.split(","):
        device, colon, backend = token.rpartition(":")
        device = devices.get(device.lower(), device)
        tokens.append(f"{device}{colon}{backends.get(backend.lower(), backend)}")
    exchanged = ",".join(tokens)
    return None if exchanged == value else exchanged
