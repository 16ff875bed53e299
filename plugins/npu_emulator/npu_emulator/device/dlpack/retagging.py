"""The same memory under another device: ``npu`` to ``cpu`` and back, through DLPack, without a copy.

torch can make a tensor from a DLPack capsule for any device whose memory somebody else allocated, ``PrivateUse1``
among them (``kDLExtDev``). A capsule of a CPU tensor whose device field says ``kDLExtDev`` therefore becomes a real
tensor on ``npu:N`` whose storage is host memory, and the other way round. Everything here needs the private functions
``torch._C._to_dlpack`` and ``_from_dlpack``, because the public ones refuse to relabel.

Source of the layout: ``dlpack.h`` 1.0, ``DLTensor`` and ``DLDeviceType``.
"""

from __future__ import annotations

import ctypes
from typing import Callable, NoReturn

import torch

from npu_emulator import private_torch
from npu_emulator.device.dlpack import sparse
from npu_emulator.errors import NotEmulated
from npu_emulator.private_torch import from_dlpack as _from_dlpack
from npu_emulator.private_torch import to_dlpack as _to_dlpack

__all__ = ["cpu_alias", "dense_cpu_alias", "dense_npu_alias", "npu_alias", "refuse"]

#: ``DLTensor`` starts with ``void *data``; ``DLDevice`` follows, two 32-bit numbers: type and index.
_DEVICE_OFFSET = ctypes.sizeof(ctypes.c_void_p)
_HEADER = object.__basicsize__
_CPU = 1
_EXTENSION = 12

_pointer_of: Callable[[object, bytes], int] = ctypes.pythonapi.PyCapsule_GetPointer
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_number_at = ctypes.c_int64.from_address


def _device_by_pointer(capsule: object) -> ctypes.c_int64:
    """Return the device field of a capsule: both 32-bit numbers in one, on little-endian machines the type below."""
    return _number_at(_pointer_of(capsule, b"dltensor") + _DEVICE_OFFSET)


def _device_by_address(capsule: object) -> ctypes.c_int64:
    """Return the same in half the time: a capsule's pointer is its first field after the header of every object."""
    return _number_at(_number_at(id(capsule) + _HEADER).value + _DEVICE_OFFSET)


def _choose() -> Callable[[object], ctypes.c_int64]:
    """Return the faster of the two, unless this Python keeps the pointer of a capsule in another place."""
    capsule = _to_dlpack(torch.empty(1, device="cpu"))
    expected = _pointer_of(capsule, b"dltensor")
    return _device_by_address if _number_at(id(capsule) + _HEADER).value == expected else _device_by_pointer


_device_of = _choose()


def refuse(reason: str) -> None:
    """Make no alias from now on, in this process: every access to the memory of a device begins with one.

    Args:
        reason: of the :class:`RuntimeError` that is raised instead.
    """
    global _to_dlpack

    def refusing(tensor: torch.Tensor) -> NoReturn:
        raise RuntimeError(reason)

    _to_dlpack = refusing


def dense_cpu_alias(tensor: torch.Tensor) -> torch.Tensor:
    """Return :func:`cpu_alias` of a strided tensor whose conjugate and negative bits are clear, and faster."""
    capsule = _to_dlpack(tensor)
    _device_of(capsule).value = _CPU
    return _from_dlpack(capsule)


def dense_npu_alias(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """Return :func:`npu_alias` of a strided tensor whose conjugate and negative bits are clear, and faster.

    Raises:
        NotEmulated: DLPack cannot express the dtype: quantized, or bits.
    """
    try:
        capsule = _to_dlpack(tensor)
    except BufferError as error:
        raise NotEmulated(f"npu_emulator: the Python core has no {tensor.dtype} on the NPU: {error}") from error
    _device_of(capsule).value = _EXTENSION | index << 32
    return _from_dlpack(capsule)


def cpu_alias(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor with the memory, sizes, strides and dtype of an NPU tensor.

    The alias begins at the tensor's first element: its storage offset is 0. It keeps the memory alive.

    Args:
        tensor: on an NPU; dense or sparse COO.

    Raises:
        NotEmulated: the layout is neither.
    """
    if tensor.layout is not torch.strided:
        return sparse.rewrap(tensor, cpu_alias)
    if tensor.is_conj() or tensor.is_neg():
        return _relabel(tensor, dense_cpu_alias)
    return dense_cpu_alias(tensor)


def npu_alias(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """Return a tensor on ``npu:index`` with the memory, sizes, strides and dtype of a CPU tensor.

    Args:
        tensor: on the CPU; dense or sparse COO.
        index: an existing device.

    Raises:
        NotEmulated: the layout is neither.
    """
    if tensor.layout is not torch.strided:
        return sparse.rewrap(tensor, lambda part: npu_alias(part, index))
    if tensor.is_conj() or tensor.is_neg():
        return _relabel(tensor, lambda plain: dense_npu_alias(plain, index))
    return dense_npu_alias(tensor, index)


def _relabel(tensor: torch.Tensor, relabel: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Relabel memory, and set the bits on the alias that DLPack cannot express: conjugate and negative."""
    conjugate, negative = tensor.is_conj(), tensor.is_neg()
    plain = tensor.detach()
    if conjugate:
        plain = private_torch.conj(plain)
    if negative:
        plain = private_torch.neg_view(plain)
    alias = relabel(plain)
    if conjugate:
        alias = private_torch.conj(alias)
    if negative:
        alias = private_torch.neg_view(alias)
    return alias
