"""Memory formats and dtypes: properties of a tensor that do not change its values.

The NPU keeps some tensors in formats of its own, such as 29, FRACTAL_NZ, for matrices. The emulator keeps every tensor
in the plain one, and remembers the number that was asked for.
"""

from __future__ import annotations

from typing import Optional, Union

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from npu_emulator.errors import NotEmulated
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


@operator("get_npu_format(Tensor input) -> int", differentiable=False)
def get_npu_format(input: Tensor) -> int:
    """Return the number of the format of a tensor, as ``torch_npu.Format`` has it.

    A format is remembered for the tensor that :func:`npu_format_cast` has returned, not for its views and not for
    tensors that are computed from it.

    Args:
        input: any tensor.
    """
    return int(_formats.get(input, _PLAIN.get(input.dim(), _ND)))


_DTYPES = ", *, int? customize_dtype=None, int? input_dtype=None"


@operator(f"npu_format_cast(Tensor input, int acl_format{_DTYPES}) -> Tensor")
def npu_format_cast(
    input: Tensor, acl_format: int, *, customize_dtype: Optional[int] = None, input_dtype: Optional[int] = None
) -> Tensor:
    """Return a copy in another format: the same values, of which :func:`get_npu_format` returns the new number.

    Args:
        input: any tensor.
        acl_format: number of the format.
        customize_dtype: ``None``.
        input_dtype: ``None``.

    Raises:
        NotEmulated: one of the last two is given.
    """
    _refuse_dtypes("npu_format_cast", customize_dtype, input_dtype)
    result = input.clone()
    _formats[result] = acl_format
    return result


@operator(f"npu_format_cast.Tensor(Tensor input, Tensor dst{_DTYPES}) -> Tensor")
def npu_format_cast_as(
    input: Tensor, dst: Tensor, *, customize_dtype: Optional[int] = None, input_dtype: Optional[int] = None
) -> Tensor:
    """Return a copy in the format of another tensor; see :func:`npu_format_cast`.

    Args:
        input: any tensor.
        dst: has the format.
        customize_dtype: ``None``.
        input_dtype: ``None``.
    """
    return npu_format_cast(input, get_npu_format(dst), customize_dtype=customize_dtype, input_dtype=input_dtype)


@operator(f"npu_format_cast_.acl_format(Tensor(a!) input, int acl_format{_DTYPES}) -> Tensor(a!)", differentiable=True)
def npu_format_cast_(
    input: Tensor, acl_format: int, *, customize_dtype: Optional[int] = None, input_dtype: Optional[int] = None
) -> Tensor:
    """Change the format of a tensor in place; its values stay.

    Args:
        input: any tensor.
        acl_format: number of the format.
        customize_dtype: ``None``.
        input_dtype: ``None``.

    Raises:
        NotEmulated: one of the last two is given.
    """
    _refuse_dtypes("npu_format_cast_", customize_dtype, input_dtype)
    _formats[input] = acl_format
    return input


@operator(f"npu_format_cast_(Tensor(a!) input, Tensor src{_DTYPES}) -> Tensor(a!)", differentiable=True)
def npu_format_cast_as_(
    input: Tensor, src: Tensor, *, customize_dtype: Optional[int] = None, input_dtype: Optional[int] = None
) -> Tensor:
    """Change the format of a tensor to that of another, in place; its values stay.

    Args:
        input: any tensor.
        src: has the format.
        customize_dtype: ``None``.
        input_dtype: ``None``.
    """
    return npu_format_cast_(input, get_npu_format(src), customize_dtype=customize_dtype, input_dtype=input_dtype)


def _refuse_dtypes(name: str, customize_dtype: Optional[int], input_dtype: Optional[int]) -> None:
    if customize_dtype is not None or input_dtype is not None:
        raise NotEmulated(
            f"{name}: customize_dtype and input_dtype, of quantised types, are not emulated; leave them out"
        )


@operator("npu_dtype_cast(Tensor input, int dtype, int? input_dtype=None) -> Tensor")
def npu_dtype_cast(input: Tensor, dtype: Union[torch.dtype, int], input_dtype: Optional[int] = None) -> Tensor:
    """Return a tensor of another dtype.

    Args:
        input: any tensor.
        dtype: the other one; a number is torch's own, as a ``torch.dtype`` that is passed to an operator becomes.
        input_dtype: ``None``.

    Raises:
        NotEmulated: ``input_dtype`` is given, or the number is of no type of PyTorch's tensors.
    """
    if input_dtype is not None:
        raise NotEmulated("npu_dtype_cast: input_dtype, of quantised types, is not emulated; leave it out")
    found = _BY_NUMBER.get(dtype) if isinstance(dtype, int) else dtype
    if found is None:
        raise NotEmulated(f"npu_dtype_cast: there is no dtype of number {dtype} here; pass a torch.dtype")
    return input.to(found, copy=True)


#: c10::ScalarType, by number (torch 2.13, ``torch/headeronly/core/ScalarType.h``).
_BY_NUMBER = {
    **dict(enumerate((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32))),
    7: torch.float64,
    8: torch.complex32,
    9: torch.complex64,
    10: torch.complex128,
    11: torch.bool,
    15: torch.bfloat16,
    23: torch.float8_e5m2,
    24: torch.float8_e4m3fn,
}


@operator("npu_dtype_cast_(Tensor(a!) input, Tensor src) -> Tensor(a!)", differentiable=False)
def npu_dtype_cast_(input: Tensor, src: Tensor) -> Tensor:
    """Copy a tensor into one of another dtype.

    Args:
        input: takes the values.
        src: has them, in a shape that broadcasts to that of ``input``.
    """
    return input.copy_(src)
