"""The table of emulated operators, and how they get into torch's dispatcher.

An operator is a plain function, its *reference*, declared once with its schema::

    @operator("npu_swiglu(Tensor self, int dim=-1) -> Tensor")
    def npu_swiglu(self, dim=-1): ...

The decorator returns the function unchanged: called directly it computes on any device, which is how references are
checked against other implementations. :func:`define` puts it into torch's library ``npu`` as a composite kernel, so
that autograd, fake tensors, ``torch.compile`` and functorch see the ATen operators that it is made of.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, Callable, NamedTuple, Union

import torch
from torch import Tensor
from torch.library import Library

from patchcore.plugin import signature_of

__all__ = ["NAMESPACE", "Differentiable", "Operator", "define", "operator", "operators", "with_out"]

#: Of the library, and of the device as well.
NAMESPACE = "npu"

#: Through which outputs gradients flow: ``True`` for all, ``False`` for none, or their numbers.
Differentiable = Union[bool, tuple[int, ...]]

_operators: dict[str, Operator] = {}


class Operator(NamedTuple):
    """One overload of an operator.

    Args:
        schema: name, arguments and results, as in ``native_functions.yaml``.
        reference: computes it with ordinary PyTorch operators, on any device.
        differentiable: which outputs gradients flow through on hardware, from op-plugin's ``derivatives.yaml``.
        tags: of :class:`torch.Tag`.
    """

    schema: str
    reference: Callable[..., Any]
    differentiable: Differentiable
    tags: tuple[torch.Tag, ...]

    @property
    def qualified_name(self) -> str:
        """Name and overload, ``npu_max.dim`` or ``npu_swiglu``."""
        return self.schema.split("(", 1)[0].strip()

    @property
    def name(self) -> str:
        """Name without the overload, ``npu_max``: the attribute of ``torch_npu``."""
        return self.qualified_name.split(".", 1)[0]


def operator(
    schema: str, *, differentiable: Differentiable = True, tags: Iterable[torch.Tag] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function to be the reference of an operator.

    Args:
        schema: see :class:`Operator`; the function's parameters have the same names, order and defaults.
        differentiable: likewise.
        tags: likewise.

    Raises:
        ValueError: the overload is declared already.
    """

    def declare(reference: Callable[..., Any]) -> Callable[..., Any]:
        declared = Operator(schema, reference, differentiable, tuple(tags))
        if declared.qualified_name in _operators:
            raise ValueError(f"{NAMESPACE}::{declared.qualified_name} is declared twice; an overload has one schema")
        _operators[declared.qualified_name] = declared
        return reference

    return declare


def with_out(
    reference: Callable[..., Tensor],
) -> Callable[..., Tensor]:
    """Declare the overload ``out`` of a declared operator of one tensor, which no gradient flows through; return it.

    Args:
        reference: of the operator.
    """
    declared = next(each for each in _operators.values() if each.reference is reference)
    arguments = declared.schema[len(declared.name) + 1 :].rpartition(")")[0]
    signature = signature_of(reference)
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, annotation=Tensor)

    def write(*args: Any, out: Tensor, **kwargs: Any) -> Tensor:
        return out.copy_(reference(*args, **kwargs))

    write.__name__ = f"{declared.name}_out"
    write.__signature__ = signature.replace(parameters=[*signature.parameters.values(), out])  # type: ignore[attr-defined]
    return operator(f"{declared.name}.out({arguments}, *, Tensor(a!) out) -> Tensor(a!)", differentiable=False)(write)


def operators() -> tuple[Operator, ...]:
    """Return every declared overload, by name."""
    return tuple(_operators[name] for name in sorted(_operators))


def define(library: Library, declared: Operator) -> None:
    """Add an operator to a library of torch.

    Args:
        library: of the namespace :data:`NAMESPACE`.
        declared: the operator to add.
    """
    library.define(declared.schema, tags=declared.tags)
    library.impl(declared.qualified_name, _kernel(declared), "CompositeImplicitAutograd")


def _kernel(declared: Operator) -> Callable[..., Any]:
    """Return the function for the dispatcher: the reference, for NPU tensors only, with the gradients of the device."""

    @functools.wraps(declared.reference)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        _require_npu_tensors(declared, args, kwargs)
        # To autocast a fused kernel is one operator, which is on none of its lists: it must not see the operators
        # inside.
        with torch.autocast(NAMESPACE, enabled=False) if torch.is_autocast_enabled(NAMESPACE) else nullcontext():
            if declared.differentiable is False:
                with torch.no_grad():
                    return declared.reference(*args, **kwargs)
            outputs = declared.reference(*args, **kwargs)
        if declared.differentiable is True:
            return outputs
        return tuple(
            output if number in declared.differentiable or not isinstance(output, Tensor) else output.detach()
            for number, output in enumerate(outputs)
        )

    return kernel


def _require_npu_tensors(declared: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise torch's error for an operator that has no kernel for a device, as these have none but for the NPU."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.device.type not in (NAMESPACE, "meta"):
            backend = value.device.type.upper()
            raise NotImplementedError(
                f"Could not run '{NAMESPACE}::{declared.qualified_name}' with arguments from the '{backend}' backend: "
                f"expected every tensor on npu, found one of shape {tuple(value.shape)} on {value.device}; "
                f"move it with .npu()"
            )
