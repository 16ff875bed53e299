"""Memory formats and dtypes: what a tensor is, not what it holds.

The NPU keeps some tensors in formats of its own, such as 29, FRACTAL_NZ, for matrices. The emulator keeps every tensor
in the plain one, and remembers the number that was asked for.
"""

from __future__ import annotations

from typing import Union

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from npu_emulator.torch_npu.ops.registry import operator

__all__ = [
    "get_npu_format",
    "npu_dtype_cast",
    "npu_dtype_cast_",
    "npu_format_cast",
    "npu_format_cast_",
    "npu_format_cast_as",
    "npu_format_cast_as_",
]

_ND = 2
_NCHW = 0
_NCDHW = 30
#: The plain format by number of dimensions, as torch_npu guesses it; ND otherwise.
_PLAIN = {4: _NCHW, 5: _NCDHW}

_formats: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


@operator("get_npu_format(Tensor self) -> int", differentiable=False)
def get_npu_format(self: Tensor) -> int:
    """Return the number of the format of a tensor, as ``torch_npu.Format`` has it.

    A format is remembered for the tensor that :func:`npu_format_cast` has returned, not for its views and not for what
    is computed from it.

    Args:
        self: any tensor.
    """
    return int(_formats.get(self, _PLAIN.get(self.dim(), _ND)))


@operator("npu_format_cast(Tensor self, int acl_format) -> Tensor")
def npu_format_cast(self: Tensor, acl_format: int) -> Tensor:
    """Return a copy in another format: the same values, of which :func:`get_npu_format` tells the new number.

    Args:
        self: any tensor.
        acl_format: number of the format.
    """
    result = self.clone()
    _formats[result] = acl_format
    return result


@operator("npu_format_cast.Tensor(Tensor self, Tensor dst) -> Tensor")
def npu_format_cast_as(self: Tensor, dst: Tensor) -> Tensor:
    """Return a copy in the format of another tensor; see :func:`npu_format_cast`.

    Args:
        self: any tensor.
        dst: has the format.
    """
    return npu_format_cast(self, get_npu_format(dst))


@operator("npu_format_cast_.acl_format(Tensor(a!) self, int acl_format) -> Tensor(a!)", differentiable=True)
def npu_format_cast_(self: Tensor, acl_format: int) -> Tensor:
    """Change the format of a tensor in place; its values stay.

    Args:
        self: any tensor.
        acl_format: number of the format.
    """
    _formats[self] = acl_format
    return self


@operator("npu_format_cast_(Tensor(a!) self, Tensor src) -> Tensor(a!)", differentiable=True)
def npu_format_cast_as_(self: Tensor, src: Tensor) -> Tensor:
    """Change the format of a tensor to that of another, in place; its values stay.

    Args:
        self: any tensor.
        src: has the format.
    """
    return npu_format_cast_(self, get_npu_format(src))


@operator("npu_dtype_cast(Tensor self, ScalarType dtype) -> Tensor")
def npu_dtype_cast(self: Tensor, dtype: Union[torch.dtype, int]) -> Tensor:
    """Return a tensor of another dtype.

    Args:
        self: any tensor.
        dtype: the other one.
    """
    return self.to(dtype, copy=True)


@operator("npu_dtype_cast_(Tensor(a!) self, Tensor src) -> Tensor(a!)", differentiable=False)
def npu_dtype_cast_(self: Tensor, src: Tensor) -> Tensor:
    """Copy a tensor into one of another dtype.

    Args:
        self: takes the values.
        src: has them, in a shape that broadcasts to that of ``self``.
    """
    return self.copy_(src)
