"""``torch.npu.FloatTensor`` and its like: the tensor types of torch before it had dtypes and devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class _TensorType(type):
    """The type of the tensor types: makes tensors, and recognises those of its dtype on the NPU."""

    dtype: torch.dtype

    # Tensor.type(torch.npu.HalfTensor) takes the full name from the type in C, which for a type made in Python is
    # __name__ alone.
    __name__ = property(lambda cls: type.__dict__["__name__"].__get__(cls).rpartition(".")[2])

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.device.type == "npu" and instance.dtype == cls.dtype

    def __call__(cls, *args: Any) -> Tensor:
        """Make a tensor on the current device.

        Args:
            args: nothing; sizes, as integers or ``torch.Size``; a sequence or array of values; or a tensor of this
                type, of which an alias is returned.

        Raises:
            TypeError: a tensor of another type.
        """
        if len(args) != 1 or isinstance(args[0], int):
            return torch.empty(args or (0,), dtype=cls.dtype, device="npu")
        (value,) = args
        if isinstance(value, torch.Size):
            return torch.empty(value, dtype=cls.dtype, device="npu")
        if isinstance(value, Tensor):
            if not isinstance(value, cls):
                raise TypeError(f"expected torch.npu.{cls.__name__} (got {value.type()})")
            return value.detach()
        if isinstance(value, Sequence) or hasattr(value, "__array__"):
            return torch.tensor(value, dtype=cls.dtype, device="npu")
        raise TypeError(f"torch.npu.{cls.__name__}: expected sizes, values or a tensor, found {value!r}")


def _tensor_type(name: str, dtype: torch.dtype) -> _TensorType:
    attributes = {"__doc__": f"Tensors of {dtype} on the NPU.", "__module__": "torch.npu", "dtype": dtype}
    return _TensorType(f"torch.npu.{name}", (), attributes)


BFloat16Tensor = _tensor_type("BFloat16Tensor", torch.bfloat16)
BoolTensor = _tensor_type("BoolTensor", torch.bool)
ByteTensor = _tensor_type("ByteTensor", torch.uint8)
CharTensor = _tensor_type("CharTensor", torch.int8)
DoubleTensor = _tensor_type("DoubleTensor", torch.float64)
FloatTensor = _tensor_type("FloatTensor", torch.float32)
HalfTensor = _tensor_type("HalfTensor", torch.float16)
IntTensor = _tensor_type("IntTensor", torch.int32)
LongTensor = _tensor_type("LongTensor", torch.int64)
ShortTensor = _tensor_type("ShortTensor", torch.int16)
