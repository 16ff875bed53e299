"""The precision check: each subgraph against eager, in every call, down to the first operator that deviates."""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, Optional

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

from npu_graph import private_torch
from npu_graph.cache import Entry
from npu_graph.errors import DeviationError
from npu_graph.operations.subgraph import Subgraph, TensorSpec, symbols_in
from npu_graph.operations.values import line_of, tensors_in, value_of
from npu_graph.options import Options
from npu_graph.vendor import Vendor
from patchcore.plugin import counted

__all__ = ["Check", "deviation", "run_kernel"]

logger = logging.getLogger("patchcore")

#: Compiles a graph with its symbols, under a name, for a vendor with options; returns the subgraph and its kernel.
Compile = Callable[[Vendor, Options, GraphModule, Sequence[Any], str], tuple[Subgraph, Entry]]


def run_kernel(vendor: Vendor, subgraph: Subgraph, entry: Entry, inputs: Sequence[Any]) -> list[torch.Tensor]:
    """Launch a kernel and return its outputs, each with the shape, the strides and the memory of its own.

    Args:
        inputs: of the subgraph, then the values of its symbols.

    Raises:
        TypeError: the kernel gives another number, shape or dtype of tensors than the subgraph has.
        Exception: whatever the kernel raises.
    """
    specs = subgraph.output_specs(inputs[len(subgraph.inputs) :])
    outputs = vendor.launch(entry.kernel, inputs, specs)
    if len(outputs) != len(specs):
        raise TypeError(f"expected {counted(len(specs), 'output')}, got {len(outputs)}")
    taken = {tensor.untyped_storage().data_ptr() for tensor in inputs if isinstance(tensor, torch.Tensor)}
    results = []
    for tensor, spec, output in zip(outputs, specs, subgraph.outputs):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"expected a torch.Tensor for {output.operand}, got {type(tensor).__name__}")
        if tensor.shape != spec.shape or tensor.dtype is not spec.dtype:
            raise TypeError(
                f"expected {spec.dtype} {spec.shape} of {output.made_by} ({output.operand}), "
                f"got {tensor.dtype} {tuple(tensor.shape)}"
            )
        memory = tensor.untyped_storage().data_ptr()
        if (memory in taken or tensor.stride() != spec.stride) and tensor.numel():
            tensor = _copy(tensor, spec)
            memory = tensor.untyped_storage().data_ptr()
        taken.add(memory)
        results.append(tensor)
    return results


def _copy(tensor: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    memory = spec.empty()
    first = tuple(slice(0, size) for size in memory.shape)  # where a stride is 0, all elements are the first
    return spec.expand(memory.copy_(tensor[first]))


class Check:
    """Compares the result of a kernel with that of eager on the same inputs.

    Args:
        vendor: whose kernel it is.
        options: whether to raise; where single operators are compiled, to find the one that deviates.
        subgraph: the compiled subgraph.
        name: for messages.
        compile: compiles one operator by itself, to find the one that deviates: :func:`.compiling.compile_subgraph`.
    """

    def __init__(self, vendor: Vendor, options: Options, subgraph: Subgraph, name: str, compile: Compile) -> None:
        self._compile = compile
        self._vendor = vendor
        self._options = options
        self._subgraph = subgraph
        self._name = name

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return ``outputs``, or the results of eager if they deviate and the check is to warn.

        Raises:
            DeviationError: they deviate, and the check is to raise.
        """
        arguments = inputs[: len(self._subgraph.inputs)]
        with torch.no_grad():
            result = self._subgraph.graph(*arguments)
        expected = [result] if self._subgraph.single else list(result)
        for position, (output, got, wanted) in enumerate(zip(self._subgraph.outputs, outputs, expected)):
            found = deviation(got, wanted, self._vendor.tolerances)
            if found is not None and not _is_rounding(got, wanted, self._subgraph.graph, arguments, position):
                message = f"vendor {self._vendor.name}: {self._name} deviates from eager: {output.operand}: {found}"
                message += f"; {self._first_operator(inputs)}"
                if self._options.check == "raise":
                    raise DeviationError(message)
                logger.warning("%s; going on with what eager gives", message)
                return expected
        return list(outputs)

    def _first_operator(self, inputs: Sequence[Any]) -> str:
        """Return the first operator that deviates when it is run by itself on the values of eager mode."""
        values = dict(zip(map(str, self._subgraph.symbols), inputs[len(self._subgraph.inputs) :]))
        interpreter = _Comparison(self._subgraph.graph, self._vendor, self._options, values, self._compile)
        with torch.no_grad():
            interpreter.run(*inputs[: len(self._subgraph.inputs)])
        return interpreter.found or "each operator by itself agrees with eager"


class _Comparison(Interpreter):
    """Runs a subgraph eagerly, and each operator as a kernel of its own, until one deviates."""

    def __init__(
        self, graph: GraphModule, vendor: Vendor, options: Options, symbols: Mapping[str, Any], compile: Compile
    ) -> None:
        super().__init__(graph)
        self._compile = compile
        self.found: Optional[str] = None
        self._vendor = vendor
        self._options = options
        self._symbols = symbols

    def run_node(self, node: Node) -> Any:
        wanted = super().run_node(node)
        if self.found is None and node.op == "call_function" and isinstance(node.target, private_torch.OpOverload):
            alone, arguments = _alone(node), [self.env[argument] for argument in node.all_input_nodes]
            results = zip(self._run_alone(alone, arguments), tensors_in(wanted))
            for position, (got, expected) in enumerate(results):
                found = deviation(got, expected, self._vendor.tolerances)
                if found is not None and not _is_rounding(got, expected, alone, arguments, position):
                    line = line_of(node)
                    where = f" ({line})" if line else ""
                    self.found = f"the first operator that does is {node.target}, {node.name}{where}: {found}"
                    break
        return wanted

    def _run_alone(self, alone: GraphModule, arguments: Sequence[Any]) -> list[torch.Tensor]:
        symbols = symbols_in(alone)
        subgraph, entry = self._compile(self._vendor, self._options, alone, symbols, "a check of one operator")
        values = [self._symbols[str(symbol)] for symbol in symbols]
        return run_kernel(self._vendor, subgraph, entry, [*arguments, *values])


class _Exact(Interpreter):
    """Runs a graph with every floating-point tensor in double precision."""

    def run_node(self, node: Node) -> Any:
        return torch.fx.node.map_aggregate(super().run_node(node), _double)


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _is_rounding(
    got: torch.Tensor, wanted: torch.Tensor, graph: GraphModule, arguments: Sequence[Any], position: int
) -> bool:
    """Return whether a kernel is about as far from the result in double precision as eager is.

    Where large terms cancel, as in the gradient of a bias before a batch norm, two right results may have no digit in
    common. Eager may be exact by chance, and is then tried on inputs close by.
    """
    if got.shape != wanted.shape or got.dtype is not wanted.dtype or not wanted.is_floating_point():
        return False

    def exact(inputs: Sequence[Any]) -> torch.Tensor:
        return list(tensors_in(_Exact(graph).run(*inputs)))[position]

    with torch.no_grad():
        right = exact(arguments)
        found = _distance(got, right)
        if found <= _ROUNDINGS * _distance(wanted, right):
            return True
        for near in _near(arguments):
            if found <= _ROUNDINGS * _distance(list(tensors_in(graph(*near)))[position], exact(near)):
                return True
    return False


#: How much further a kernel may be from the exact result than eager is: sums of another order round differently.
_ROUNDINGS = 8
#: On how many inputs eager is tried.
_TRIALS = 4


def _near(arguments: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield inputs that differ by a few thousandths, without drawing numbers that the model would draw."""
    generator = torch.Generator().manual_seed(0)

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        factors = 1 + 1e-3 * torch.rand(value.shape, generator=generator)
        return value * factors.to(value.device, value.dtype)

    for _ in range(_TRIALS):
        yield [moved(value) for value in arguments]


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.double() - other.double()).square().mean().sqrt())


def _alone(node: Node) -> GraphModule:
    """A graph of one operator, which gives all of its results."""
    graph = Graph()
    inputs = {}
    for argument in node.all_input_nodes:
        inputs[argument] = graph.placeholder(argument.name)
        inputs[argument].meta = dict(argument.meta)
    made = graph.node_copy(node, inputs.__getitem__)
    value = value_of(node)
    if isinstance(value, torch.Tensor):
        graph.output(made)
        return GraphModule({}, graph)
    items = []
    for index, item in enumerate(value):
        if isinstance(item, torch.Tensor):
            taken = graph.call_function(operator.getitem, (made, index))
            taken.meta["val"] = item
            items.append(taken)
    graph.output(tuple(items))
    return GraphModule({}, graph)


def deviation(got: torch.Tensor, wanted: torch.Tensor, tolerances: Mapping[str, tuple[float, float]]) -> Optional[str]:
    """Return how far two tensors are apart, ``None`` when they agree.

    Args:
        got, wanted: of any shape and dtype.
        tolerances: by name of a dtype: relative to each element, and relative to the largest finite magnitude; dtypes
            that are not there must be equal.
    """
    if got.shape != wanted.shape or got.dtype is not wanted.dtype or got.stride() != wanted.stride():
        return f"got {_describe(got)}, expected {_describe(wanted)}"
    if not got.is_floating_point():
        differing = int((got != wanted).sum())
        return f"{differing} of {got.numel()} elements differ" if differing else None
    relative, of_largest = tolerances.get(str(wanted.dtype).partition(".")[2], (0.0, 0.0))
    finite = wanted[wanted.isfinite()].double()
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    close = torch.isclose(got.double(), wanted.double(), rtol=relative, atol=of_largest * largest, equal_nan=True)
    if bool(close.all()):
        return None
    worst = float((got.double() - wanted.double())[~close].abs().max())
    count = f"{int((~close).sum())} of {got.numel()} elements"
    return f"{count} differ, by up to {worst:.3g} where the largest is {largest:.3g}"


def _describe(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)} strides {tensor.stride()}"
