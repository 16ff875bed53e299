"""The functions that edited lines call. Each counts its line and computes the comparison, for CUDA and for NPUs.

A value that is no text is compared as in the source: arrays and columns of tables have comparisons of their own.
``torch.compile`` can trace all functions here. A line in compiled code is not counted: the count would be a side effect
of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_npu_patches.transfer_to_npu.devices import CUDA, NPU

__all__ = [
    "COUNTS",
    "alike",
    "different",
    "is_compiling",
    "npu_text",
    "reached",
    "same",
    "starts",
    "table",
    "unlike",
    "within",
]

#: What the types of tensors begin with, as ``Tensor.type()`` returns them.
_CUDA_TENSORS, _NPU_TENSORS = f"torch.{CUDA}", f"torch.{NPU}"

#: How often each line ran, by its place: ``"train.py:12"``.
COUNTS: dict[str, int] = {}

#: ``torch.compiler.is_dynamo_compiling``, once torch is there.
is_compiling: Callable[[], bool] = bool


def reached(place: str) -> bool:
    """Count the line at ``place`` and return false, so that ``reached("train.py:12") or x`` is ``x``."""
    if not is_compiling():
        COUNTS[place] = COUNTS.get(place, 0) + 1
    return False


def same(place: str, value: Any, text: str) -> Any:
    """Return ``value == text``, where ``text`` is a CUDA device; true for the NPU of that number, too."""
    reached(place)
    if type(value) is not str:
        return value == text
    return value == text or value == npu_text(text)


def different(place: str, value: Any, text: str) -> Any:
    """Return ``value != text``, where ``text`` is a CUDA device; false for the NPU of that number, too."""
    reached(place)
    if type(value) is not str:
        return value != text
    return value != text and value != npu_text(text)


def alike(place: str, value: Any, other: Any) -> Any:
    """Return ``value == other``; true also if one of them is a CUDA device and the other the NPU of that number."""
    if type(value) is not str or type(other) is not str:
        return value == other
    npus = _npu(value), _npu(other)
    if npus != (value, other):
        reached(place)
    return npus[0] == npus[1]


def unlike(place: str, value: Any, other: Any) -> Any:
    """Return ``value != other``; false also if one of them is a CUDA device and the other the NPU of that number."""
    if type(value) is not str or type(other) is not str:
        return value != other
    return not alike(place, value, other)


def _npu(text: str) -> str:
    is_cuda = text == CUDA or text.startswith((f"{CUDA}:", f"{_CUDA_TENSORS}."))
    return npu_text(text) if is_cuda else text


def npu_text(text: str) -> str:
    """Return the text for NPUs in place of a text for CUDA: ``npu:0`` for ``cuda:0``, also in types of tensors."""
    if text.startswith(_CUDA_TENSORS):
        return _NPU_TENSORS + text[len(_CUDA_TENSORS) :]
    return NPU + text[len(CUDA) :]


def starts(place: str, value: Any, text: str) -> Any:
    """Return ``value.startswith(text)``, where ``text`` is a CUDA device; true for an NPU, too."""
    reached(place)
    if type(value) is not str:
        return value.startswith(text)
    return value.startswith((text, npu_text(text)))


def within(place: str, text: str, value: Any) -> bool:
    """Return ``text in value``, where ``text`` is a CUDA device; true for an NPU in a text, list, tuple or set, too.

    Texts are names of devices, ``npu:1``, and types of tensors, ``torch.npu.FloatTensor``.
    """
    reached(place)
    if text in value:
        return True
    npu = npu_text(text)
    if type(value) is str:
        if value.startswith(f"{_NPU_TENSORS}."):
            return npu == NPU or value.startswith(npu)
        return value == npu or (npu in ("npu", "npu:") and value.startswith("npu:") and value[4:].isdecimal())
    return isinstance(value, (list, tuple, set, frozenset)) and npu in value


def table(place: str, devices: dict[str, Any]) -> dict[str, Any]:
    """Return ``devices``, a table by device, with the entries for CUDA under the NPU's name as well."""
    reached(place)
    for name in list(devices):
        if name.startswith(CUDA):
            devices.setdefault(NPU + name[len(CUDA) :], devices[name])
    return devices
