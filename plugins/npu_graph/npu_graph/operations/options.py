"""The options of operators that have many: each list is written once, for the conversions of every vendor."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Callable, Optional, TypeVar

from npu_graph.operations.subgraph import Operation
from patchcore.plugin import signature_of

__all__ = ["AveragePooling", "Convolution", "Embedding", "MaxPooling", "NearestUpsampling", "with_options"]

Code = TypeVar("Code")
Pair = tuple[int, ...]


def with_options(record: type[Any]) -> Callable[[Callable[..., Code]], Callable[..., Code]]:
    """Pass several arguments of an operator to a conversion as one record, in its parameter ``options``.

    The pipeline reads the names of the arguments from the signature of a conversion. The signature of the decorated
    function has the fields of the record in the place of ``options``.

    Args:
        record: a dataclass whose fields have the names of arguments in the schema of the operator.
    """
    names = [field.name for field in fields(record)]

    def decorate(function: Callable[..., Code]) -> Callable[..., Code]:
        @functools.wraps(function)
        def convert(operation: Operation, /, **arguments: Any) -> Code:
            options = record(**{name: arguments.pop(name) for name in names})
            return function(operation, options=options, **arguments)

        signature = signature_of(function)
        others = [parameter for name, parameter in signature.parameters.items() if name != "options"]
        named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
        decorated: Any = convert
        decorated.__signature__ = signature.replace(parameters=[*others, *named])
        return convert

    return decorate


@dataclass(frozen=True)
class Convolution:
    """The options of ``aten.convolution`` and of its backward."""

    stride: Sequence[int]
    padding: Sequence[Any]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[Any]
    groups: int


@dataclass(frozen=True)
class _Pooling:
    """The options that all kinds of pooling have."""

    kernel_size: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    ceil_mode: bool

    @property
    def window(self) -> tuple[Pair, Pair, Pair]:
        """Size, stride and padding of the window, each for height and width.

        An empty stride means the size of the window.
        """
        return _pair(self.kernel_size), _pair(self.stride or self.kernel_size), _pair(self.padding)


@dataclass(frozen=True)
class MaxPooling(_Pooling):
    """The options of ``aten.max_pool2d_with_indices``."""

    dilation: Sequence[int]

    @property
    def gaps(self) -> Pair:
        """The dilation for height and width."""
        return _pair(self.dilation)


@dataclass(frozen=True)
class AveragePooling(_Pooling):
    """The options of ``aten.avg_pool2d`` and of its backward."""

    count_include_pad: bool
    divisor_override: Optional[int]


@dataclass(frozen=True)
class NearestUpsampling:
    """The options of ``aten.upsample_nearest2d_backward``."""

    output_size: Sequence[Any]
    input_size: Sequence[Any]
    scales_h: Optional[float]
    scales_w: Optional[float]


@dataclass(frozen=True)
class Embedding:
    """The options of ``aten.embedding``; all of them are about gradients."""

    padding_idx: int
    scale_grad_by_freq: bool
    sparse: bool


def _pair(given: Sequence[int]) -> Pair:
    return tuple(given) * 2 if len(given) == 1 else tuple(given)
