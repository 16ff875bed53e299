"""Sparse COO tensors: their indices and values are dense tensors, so the kernels of dense tensors serve them."""

from __future__ import annotations

from typing import Any, Callable, NoReturn

import torch

from npu_emulator.device.dlpack.registry import Registry
from npu_emulator.errors import NotEmulated
from npu_emulator.private_torch import DispatchKey, DispatchKeySet, OpOverload

__all__ = ["refuse_compressed", "register", "rewrap"]

#: Kernels that read or write only the bookkeeping of a sparse tensor, whatever the device of its parts.
_BOOKKEEPING = (
    "_sparse_coo_tensor_with_dims",
    "_sparse_coo_tensor_with_dims_and_tensors",
    "_indices",
    "_values",
    "indices",
    "values",
    "_nnz",
    "sparse_dim",
    "dense_dim",
    "is_coalesced",
    "_coalesced_",
)


def rewrap(tensor: torch.Tensor, relabel: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return a sparse tensor like another, of that one's relabelled indices and values.

    Args:
        tensor: sparse COO.
        relabel: returns the alias of a dense tensor on the other device.

    Raises:
        NotEmulated: the layout is another.
    """
    if tensor.layout is not torch.sparse_coo:
        raise NotEmulated(
            f"npu_emulator: the Python core has dense and sparse COO tensors on the NPU, found {tensor.layout}. "
            "Convert with .to_sparse_coo() or .to_dense() before the transfer."
        )
    indices, values = relabel(tensor._indices()), relabel(tensor._values())
    copy = torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
        tensor.sparse_dim(),
        tensor.dense_dim(),
        list(tensor.shape),
        indices,
        values,
        dtype=tensor.dtype,
        layout=torch.sparse_coo,
        device=values.device,
    )
    return copy._coalesced_(tensor.is_coalesced())


def refuse_compressed(operator: OpOverload, /, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise for an operator on compressed sparse tensors.

    Raises:
        NotEmulated: always.
    """
    raise NotEmulated(
        f"npu_emulator: {operator} of compressed sparse tensors (CSR, CSC, BSR, BSC) is not in the Python core. "
        "Use COO (.to_sparse_coo()), or move the tensor to the CPU for this call."
    )


def register(registry: Registry) -> None:
    """Run the bookkeeping kernels of the CPU on sparse NPU tensors themselves."""
    keys = DispatchKeySet(DispatchKey.SparseCPU)
    for name in _BOOKKEEPING:
        registry.redispatch(name, "SparsePrivateUse1", keys)
