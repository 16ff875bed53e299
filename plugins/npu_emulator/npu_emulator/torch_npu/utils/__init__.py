"""``torch_npu.utils``, of which combining tensors is emulated; other names raise an error that names the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Optional

import torch
from torch import Tensor

from npu_emulator.torch_npu.npu._refusals import missing_name

__all__ = ["get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors"]


def npu_combine_tensors(list_of_tensor: Sequence[Tensor], require_copy_value: bool = True) -> Optional[Tensor]:
    """Move tensors into one memory, one behind the other.

    Args:
        list_of_tensor: dense tensors of one dtype on one NPU. They keep shape and strides.
        require_copy_value: whether they keep their values, else they become zeros.

    Returns:
        All of the memory, of one dimension; ``None`` where there is no element.

    Raises:
        RuntimeError: the tensors are others than that.
    """
    if any(tensor is None for tensor in list_of_tensor):
        raise RuntimeError("Tensors to combine must not have `None`.")
    _require_one_kind(list_of_tensor)
    count = sum(tensor.numel() for tensor in list_of_tensor)
    if count == 0:
        return None
    combined = torch.zeros(count, dtype=list_of_tensor[0].dtype, device=list_of_tensor[0].device)
    offset = 0
    for tensor in list_of_tensor:
        part = combined.as_strided(tensor.shape, tensor.stride(), offset)
        if require_copy_value:
            part.copy_(tensor.detach())
        tensor.data = part
        offset += tensor.numel()
    return combined


def get_part_combined_tensor(combined_tensor: Optional[Tensor], index: int, size: int) -> Optional[Tensor]:
    """Return a part of the tensor that :func:`npu_combine_tensors` returned, in the same memory.

    Args:
        combined_tensor: the whole.
        index: of the first element.
        size: how many elements.

    Returns:
        The part, ``None`` where there is no element.

    Raises:
        RuntimeError: the part ends behind the whole.
    """
    if combined_tensor is None or size == 0:
        return None
    if index + size > combined_tensor.numel():
        raise RuntimeError(
            f"get_part_combined_tensor: expected a part of {combined_tensor.numel()} elements, found {size} from "
            f"element {index} on"
        )
    return combined_tensor[index : index + size]


def is_combined_tensor_valid(combined_tensor: Optional[Tensor], list_of_tensor: Sequence[Optional[Tensor]]) -> bool:
    """Return whether tensors are in the memory of a combined one.

    Args:
        combined_tensor: the result of :func:`npu_combine_tensors`.
        list_of_tensor: the tensors; no combined tensor is needed where there are none.
    """
    if not list_of_tensor:
        return True
    if combined_tensor is None:
        return False
    start = combined_tensor.data_ptr()
    end = start + combined_tensor.nbytes
    return all(tensor is not None and start <= tensor.data_ptr() < end for tensor in list_of_tensor)


def _require_one_kind(tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        if tensor.dtype != tensors[0].dtype:
            raise RuntimeError("Tensors to combine must have the same dtype.")
        if tensor.device.type != "npu":
            raise RuntimeError(f"Tensors to combine must be on NPU, got {tensor.device.type}.")
        if tensor.device != tensors[0].device:
            raise RuntimeError(
                f"Tensors to combine must be on one NPU, found {tensors[0].device} and {tensor.device}: make an "
                "optimizer for each"
            )
        if not _is_dense(tensor):
            raise RuntimeError(
                f"Tensors to combine must be dense in memory, found shape {tuple(tensor.shape)} with strides "
                f"{tensor.stride()}; use tensor.contiguous()"
            )


def _is_dense(tensor: Tensor) -> bool:
    """Return whether a tensor's elements fill its memory without gaps, in any order."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def __getattr__(name: str) -> NoReturn:
    raise missing_name("torch_npu.utils", name)
