"""A subgraph as a vendor's code generation sees it: typed, in order, with all that is torch's about it resolved."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable, NamedTuple, Optional, Protocol, Union

import sympy
import torch
from torch.fx import GraphModule, Node

from npu_graph.errors import ConversionError
from npu_graph.operations.values import expression, free_symbols, line_of, tensors_in, value_of

__all__ = ["Operand", "Operation", "Output", "Subgraph", "TensorSpec", "failed_conversion", "size_source", "symbols_in"]


#: Arguments that describe the result, as its value does.
_TOLD_BY_RESULT = {"dtype", "layout", "device", "pin_memory", "non_blocking", "memory_format", "requires_grad"}


class Conversion(Protocol):
    """The part of a :class:`npu_graph.vendor.Conversion` that an operation uses."""

    @property
    def function(self) -> Callable[..., Any]:
        """Turns the operation into code."""

    @property
    def parameters(self) -> Optional[frozenset[str]]:
        """The arguments that it takes by name, ``None`` for whatever there is."""

    @property
    def provider(self) -> str:
        """The module that declares it."""


@dataclass(frozen=True)
class Operand:
    """The input of an operation: an input of the subgraph, or the result of another operation. Its text is its name.

    Args:
        name: in generated source; an identifier.
        value: a fake tensor, whose shape and strides may be symbolic; a number if it is one at run time, too.
    """

    name: str
    value: Any

    def __str__(self) -> str:
        return self.name

    @property
    def is_tensor(self) -> bool:
        """False for numbers: sizes, and values computed from sizes."""
        return isinstance(self.value, torch.Tensor)

    @property
    def dtype(self) -> torch.dtype:
        """Of the tensor."""
        return self.value.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """Of the tensor; sizes are ``int`` or ``torch.SymInt``."""
        return tuple(self.value.shape)

    @property
    def ndim(self) -> int:
        """Of the tensor."""
        return self.value.dim()


@dataclass(frozen=True)
class Operation:
    """One call of an operator.

    Args:
        name: of its result in generated source.
        target: the overload; ``operator.getitem`` to take one of several results.
        arguments: by their names in the schema, defaults filled in, with operands for the results of other nodes.
        given: the names of those that differ from their defaults, or have none; without those that :attr:`value` tells.
        value: its result: a fake tensor, or several.
        conversion: the vendor's, ``None`` for ``operator.getitem``.
        line: the line of the model it comes from.
    """

    name: str
    target: Any
    arguments: Mapping[str, Any]
    given: frozenset[str]
    value: Any
    conversion: Optional[Conversion] = None
    line: str = ""

    @classmethod
    def of(cls, node: Node, conversion: Optional[Conversion] = None) -> Operation:
        """Return the operation of a node that calls an overload, or ``operator.getitem``."""
        arguments, given = _bind(node)
        return cls(node.name, node.target, arguments, given, value_of(node), conversion, line_of(node))

    def __str__(self) -> str:
        return str(self.target)

    @property
    def is_item(self) -> bool:
        """True where it takes one of the results of another operation: argument ``index`` of ``self``."""
        return self.target is operator.getitem

    @property
    def dtype(self) -> torch.dtype:
        """Of the result; of the first one where there are several."""
        return next(tensors_in(self.value)).dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """Of the result; of the first one where there are several. Sizes are ``int`` or ``torch.SymInt``."""
        return tuple(next(tensors_in(self.value)).shape)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All operands among the arguments, in order."""
        return tuple(_operands_in(list(self.arguments.values())))

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All tensors, as fakes: those it takes, then those it gives."""
        taken = [operand.value for operand in self.operands if operand.is_tensor]
        return (*taken, *tensors_in(self.value))

    def convert(self) -> Any:
        """Return the result of its conversion.

        Raises:
            ConversionError: the conversion raises.
        """
        assert self.conversion is not None, f"{self} has no conversion"
        names = self.conversion.parameters
        taken = {name: value for name, value in self.arguments.items() if names is None or name in names}
        try:
            made = self.conversion.function(self, **taken)
            if made is None:
                raise TypeError("it returned None; return what the vendor's generate is to make source of")
        except Exception as error:
            raise failed_conversion(self, error) from error
        return made


def failed_conversion(operation: Operation, error: Exception) -> ConversionError:
    """Return the error with the names of the conversion that failed and of the operation."""
    assert operation.conversion is not None
    where = f" ({operation.line})" if operation.line else ""
    return ConversionError(
        f"the conversion of {operation} from {operation.conversion.provider} failed for {operation.name}{where}: "
        f"{type(error).__name__}: {error}; to go on without it: PATCHCORE_GRAPH_KEEP_EAGER={operation}"
    )


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that a kernel gives, in one call.

    Args:
        shape, stride: in elements.
        dtype, device: of torch.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def empty(self) -> torch.Tensor:
        """Return memory for it; where a stride is 0, elements share theirs, and only the first is to be written."""
        if 0 not in self.stride or 0 in self.shape:
            return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)
        alone = [1 if stride == 0 else size for size, stride in zip(self.shape, self.stride)]
        return torch.empty_strided(alone, self.stride, dtype=self.dtype, device=self.device)

    def expand(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor that :meth:`empty` made, in its full shape."""
        return tensor if tensor.shape == self.shape else tensor.expand(self.shape)


class Output(NamedTuple):
    """The results of a subgraph."""

    operand: Operand
    made_by: str  # name of the operator, for messages


class Subgraph:
    """Operations that a vendor compiles into one kernel.

    The kernel takes :attr:`inputs` in order, then the values of :attr:`symbols`, which sizes are expressions of, and
    returns one result for each of :attr:`outputs`. Numbers are computed outside, so that results are tensors only.

    Args:
        graph: the module with its nodes.
        symbols: every symbol that a shape or stride in it depends on.
        find: returns the conversion of an operator.
    """

    def __init__(
        self, graph: GraphModule, symbols: Sequence[sympy.Symbol], find: Callable[[Any], Optional[Conversion]]
    ) -> None:
        self.graph = graph
        self.symbols = tuple(symbols)
        nodes = list(graph.graph.nodes)
        self.inputs = tuple(Operand(node.name, value_of(node)) for node in nodes if node.op == "placeholder")
        self.operations = tuple(
            Operation.of(node, None if node.target is operator.getitem else find(node.target))
            for node in nodes
            if node.op == "call_function"
        )
        (result,) = nodes[-1].args
        self.single = isinstance(result, Node)
        given = (result,) if self.single else result
        self.outputs = tuple(Output(Operand(node.name, value_of(node)), _made_by(node)) for node in given)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The names of the symbols in generated source."""
        return tuple(map(str, self.symbols))

    @cached_property
    def output_specs(self) -> Callable[[Sequence[Any]], list[TensorSpec]]:
        """A function that takes the values of the symbols and returns the metadata of the outputs in that call."""
        return _compile_specs([output.operand.value for output in self.outputs], self.symbol_names)


def size_source(number: Any) -> str:
    """Return a size or a stride as Python source, an expression of the names of the symbols."""
    from npu_graph.private_torch import PythonPrinter

    return str(number) if isinstance(number, int) else str(PythonPrinter().doprint(expression(number)))


def symbols_in(graph: GraphModule) -> list[sympy.Symbol]:
    """Return every symbol that a shape, a stride or a number in a graph depends on, by name."""
    found = {symbol for node in graph.graph.nodes for symbol in free_symbols(value_of(node))}
    return sorted(found, key=str)


def _compile_specs(values: Sequence[torch.Tensor], names: Sequence[str]) -> Callable[[Sequence[Any]], list[TensorSpec]]:
    if not any(map(free_symbols, values)):
        fixed = [TensorSpec(tuple(v.shape), tuple(v.stride()), v.dtype, v.device) for v in values]
        return lambda symbols: fixed
    sizes = ", ".join(f"({_tuple(value.shape)}, {_tuple(value.stride())})" for value in values)
    scope: dict[str, Any] = {}
    exec(f"def sizes({', '.join(names)}):\n    return ({sizes},)", {"math": math, "torch": torch}, scope)

    def specs(symbols: Sequence[Any]) -> list[TensorSpec]:
        found = scope["sizes"](*symbols)
        return [TensorSpec(shape, stride, v.dtype, v.device) for (shape, stride), v in zip(found, values)]

    return specs


def _tuple(numbers: Sequence[Any]) -> str:
    return "(" + "".join(f"{size_source(number)}, " for number in numbers) + ")"


def _made_by(node: Node) -> str:
    producer = node.args[0] if node.target is operator.getitem else node
    return str(getattr(producer, "target", producer))


def _bind(node: Node) -> tuple[dict[str, Any], frozenset[str]]:
    """The arguments of a node by name, and the names of those that differ from their defaults."""
    if node.target is operator.getitem:
        return {"self": _operand(node.args[0]), "index": node.args[1]}, frozenset({"self", "index"})
    bound, given = {}, set()
    for position, argument in enumerate(node.target._schema.arguments):
        default = argument.default_value if argument.has_default_value() else None
        value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name, default)
        bound[argument.name] = torch.fx.node.map_arg(value, _operand)
        if not argument.has_default_value() or isinstance(value, Node) or value != default:
            given.add(argument.name)
    return bound, frozenset(given - _TOLD_BY_RESULT)


def _operand(node: Any) -> Operand:
    return Operand(node.name, value_of(node))


def _operands_in(value: Union[Any, Sequence[Any]]) -> Iterator[Operand]:
    if isinstance(value, Operand):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _operands_in(item)
