"""Plans for running an operator on aliases, made from its schema once per operator."""

from __future__ import annotations

from typing import Any, Optional

import torch

from npu_emulator import private_torch
from npu_emulator.private_torch import DispatchKey, DispatchKeySet, OpOverload
from npu_emulator.private_torch import should_allow_numbers_as_tensors as _should_allow_numbers_as_tensors

__all__ = ["FRESH", "Plan"]

#: A result that is no argument: a new tensor, or no tensor at all.
FRESH = -1

_TENSOR = ("Tensor", "Optional[Tensor]")
_TENSORS = ("List[Tensor]", "List[Optional[Tensor]]")
#: Indices may be on the CPU whatever is indexed, in torch too (``aten/src/ATen/native/TensorAdvancedIndexing.cpp``).
_HOST_INDICES = frozenset(
    [
        "index",
        "index_put",
        "index_put_",
        "_index_put_impl_",
        "_unsafe_index",
        "_unsafe_index_put",
        "_unsafe_masked_index",
    ]
)


class Plan:
    """The conversions of the arguments and results of an operator.

    Args:
        operator: any overload of any namespace.
        keys: the dispatch key of the CPU kernel to run.

    Attributes:
        tensors: positions of the arguments that are tensors.
        lists: positions of the arguments that are lists of tensors.
        outs: names of the ``out=`` arguments.
        results: for each result, the position of the argument that it is, or :data:`FRESH`.
        mutates: whether an argument that is no ``out=`` is written to.
        lazy: whether arguments may come with their conjugate or negative bit set: torch clears them first for other
            operators.
        seeded: whether it draws random numbers.
        generator: position of the argument ``generator``, if there is one.
        host_indices: whether the list of tensors may be on the CPU.
    """

    __slots__ = (
        "generator",
        "host_indices",
        "keys",
        "lazy",
        "lists",
        "mutates",
        "names",
        "operator",
        "outs",
        "redispatch",
        "results",
        "seeded",
        "takes_numbers",
        "tensors",
    )

    def __init__(self, operator: OpOverload, keys: DispatchKeySet) -> None:
        schema = operator._schema
        arguments = schema.arguments
        types = [str(argument.type) for argument in arguments]
        name = schema.name if not schema.overload_name else f"{schema.name}.{schema.overload_name}"
        self.operator = operator
        self.keys = keys
        self.redispatch: Any = operator._handle.redispatch_boxed
        self.names = tuple(argument.name for argument in arguments)
        self.tensors = tuple(position for position, kind in enumerate(types) if kind in _TENSOR)
        self.lists = tuple(position for position, kind in enumerate(types) if kind in _TENSORS)
        self.outs = tuple(argument.name for argument in arguments if argument.is_out)
        self.results = tuple(_argument_returned(result, arguments) for result in schema.returns)
        self.mutates = any(_is_written(argument) and not argument.is_out for argument in arguments)
        has_kernel = private_torch.dispatch_has_kernel_for_dispatch_key
        self.lazy = has_kernel(name, "Conjugate") or has_kernel(name, "Negative")
        self.seeded = torch.Tag.nondeterministic_seeded in operator.tags
        self.generator: Optional[int] = self.names.index("generator") if "generator" in self.names else None
        self.takes_numbers = _should_allow_numbers_as_tensors(schema.name.partition("::")[2])
        self.host_indices = schema.name.startswith("aten::") and schema.name[6:] in _HOST_INDICES


#: The keys of the CPU kernel for dense and for sparse arguments.
DENSE = DispatchKeySet(DispatchKey.CPU)
SPARSE = DispatchKeySet(DispatchKey.SparseCPU)


def _is_written(value: Any) -> bool:
    return value.alias_info is not None and value.alias_info.is_write


def _argument_returned(result: Any, arguments: Any) -> int:
    """Return the position of the argument that a result is: ``Tensor(a!)`` stands for the same ``a`` on both sides."""
    if not _is_written(result):
        return FRESH
    for position, argument in enumerate(arguments):
        if _is_written(argument) and argument.alias_info.before_set == result.alias_info.before_set:
            return position
    return FRESH
