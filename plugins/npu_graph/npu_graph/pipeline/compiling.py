"""The steps in their order: decompose, rewrite, promote, judge, partition, generate, compile, launch."""

from __future__ import annotations

import functools
import itertools
import operator
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, Optional

import sympy
import torch
from torch.fx import GraphModule

from npu_graph import recording
from npu_graph.cache import HIT, Cache, Entry, key_of
from npu_graph.errors import CompileError, ConversionError
from npu_graph.housekeeping import limit_size
from npu_graph.operations.subgraph import Subgraph
from npu_graph.operations.values import describe_symbols, free_symbols, line_of, value_of
from npu_graph.options import CACHE_DIR, Options
from npu_graph.pipeline.checking import Check
from npu_graph.pipeline.decompositions import decompositions_for
from npu_graph.pipeline.launching import Launch, boxed
from npu_graph.pipeline.numbers import settle_numbers
from npu_graph.pipeline.partitioning import Part, partition
from npu_graph.pipeline.promotion import promote
from npu_graph.pipeline.rewriting import rewrite
from npu_graph.pipeline.support import NUMBER, judge
from npu_graph.pipeline.views import VIEW, give_views
from npu_graph.private_torch import aot_autograd
from npu_graph.recording import EAGER, HOST, GraphRecord, NodeRecord, SubgraphRecord
from npu_graph.vendor import Conversion, Vendor
from npu_graph.version import VERSION

__all__ = ["compile_graph", "compile_subgraph"]

_INFERENCE = "inference"
_NUMBERS = itertools.count(1)


def compile_graph(
    vendor: Vendor,
    graph: GraphModule,
    example_inputs: Sequence[Any],
    given: Mapping[str, Any] = {},
    *,
    stands_in_for: str = "",
) -> Callable[..., Any]:
    """Compile a graph of dynamo for a vendor: its forward, and its backward if gradients are wanted.

    Args:
        vendor: prepared, with all that is declared for it.
        graph: as dynamo hands it to a backend.
        example_inputs: of the graph, fake or not.
        given: see :class:`npu_graph.options.Options`.
        stands_in_for: see :class:`npu_graph.registry.Choice`; for the record.
    """
    options = Options.load(vendor, given)

    def compiler(kind: str) -> Callable[..., Any]:
        return functools.partial(_compile, vendor, options, kind, stands_in_for)

    compile_all = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler(_INFERENCE),
        decompositions=decompositions_for(vendor, options),
    )
    return compile_all(graph, example_inputs)


def compile_subgraph(
    vendor: Vendor, options: Options, graph: GraphModule, symbols: Iterable[sympy.Symbol], where: str
) -> tuple[Subgraph, Entry]:
    """Generate the source of one subgraph and have it compiled, unless the cache has it.

    Args:
        vendor, options: prepared.
        graph: the subgraph.
        symbols: that sizes in it depend on.
        where: of which graph it is, for people who look into the cache.

    Raises:
        ConversionError: the source cannot be generated.
        CompileError: it cannot be compiled, or loaded.
    """
    subgraph = Subgraph(graph, tuple(symbols), vendor.find)
    try:
        source = vendor.generate(subgraph)
        if not isinstance(source, str):
            raise TypeError(f"generate returned {type(source).__name__}, expected text")
    except Exception as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(
            f"vendor {vendor.name}: generating source failed: {type(error).__name__}: {error}"
        ) from error
    facts = {"vendor": vendor.name, "version": vendor.version}
    facts |= {"torch": str(torch.__version__), "npu_graph": VERSION}
    about = {**facts, "graph": where, "operators": _operators_of(subgraph), "lines": _lines_of(subgraph)}
    cache = Cache(options.cache_dir / vendor.name)
    load = functools.partial(_load, vendor)
    try:
        entry = cache.get(key_of(source, facts), vendor.source_name, source, vendor.compile, load, about)
        if entry.outcome != HIT:
            limit_size(options.cache_dir, options.cache_limit, entry.source.parent)
        return subgraph, entry
    except OSError as error:
        raise CompileError(
            f"vendor {vendor.name}: the cache in {cache.folder} cannot be used: {error}; "
            f"name another folder: {CACHE_DIR}=~/kernels"
        ) from error
    except Exception as error:
        operators = ", ".join(_operators_of(subgraph))
        raise CompileError(
            f"vendor {vendor.name}: compiling a subgraph of {operators} failed: {type(error).__name__}: {error}"
        ) from error


def _load(vendor: Vendor, source: Path) -> Callable[..., Any]:
    kernel = vendor.load(source)
    if not callable(kernel):
        raise TypeError(f"load returned {type(kernel).__name__}, expected the kernel, to be called")
    return kernel


def _compile(
    vendor: Vendor, options: Options, kind: str, stands_in_for: str, graph: GraphModule, inputs: Sequence[Any]
) -> Any:
    started = time.perf_counter()
    dynamic = any(free_symbols(value_of(node)) for node in graph.graph.nodes if node.op == "placeholder")
    rewrite(graph, vendor)
    symbols = settle_numbers(graph)
    promote(graph, vendor)
    verdicts = judge(graph, vendor, options, symbols)
    if vendor.gives_views and kind != _INFERENCE:
        give_views(graph, verdicts)
    calls = [
        (node, (node.name, str(node.target), line_of(node), vendor.find(node.target) if refusal is None else None))
        for node, refusal in verdicts.items()
        if node.target is not operator.getitem
    ]
    sizes = describe_symbols(symbols)
    number = next(_NUMBERS)
    parts = partition(graph, verdicts, symbols)
    subgraphs = [_place(vendor, options, f"graph {number} ({kind})", graph, part) for part in parts]
    graph.graph.eliminate_dead_code()
    places = {name: part.name for part in parts for name in part.nodes}
    nodes = tuple(_record(verdicts[node], *told, places) for node, told in calls)
    seconds = time.perf_counter() - started
    recording.add(
        GraphRecord(number, vendor.name, kind, dynamic, nodes, tuple(subgraphs), seconds, sizes, stands_in_for)
    )
    return boxed(graph)


def _place(vendor: Vendor, options: Options, where: str, graph: GraphModule, part: Part) -> SubgraphRecord:
    """Put a kernel in the place of a subgraph."""
    name = f"{part.name} of {where}"
    subgraph, entry = compile_subgraph(vendor, options, part.module, part.symbols, name)
    check = Check(vendor, options, subgraph, name, compile_subgraph) if options.check != "off" else None
    Launch(vendor, subgraph, entry, name, check).replace(part.call)
    graph.delete_submodule(part.name)
    operators = sum(not operation.is_item for operation in subgraph.operations)
    return SubgraphRecord(part.name, operators, entry.outcome, entry.remark, str(entry.source))


def _operators_of(subgraph: Subgraph) -> list[str]:
    return sorted({str(each) for each in subgraph.operations if not each.is_item})


def _lines_of(subgraph: Subgraph) -> list[str]:
    """The lines of the model that a subgraph comes from, in order, each once."""
    return list(dict.fromkeys(each.line for each in subgraph.operations if each.line))


def _record(
    refusal: Any, name: str, target: str, line: str, conversion: Optional[Conversion], places: Mapping[str, str]
) -> NodeRecord:
    if conversion is not None:
        return NodeRecord(name, target, places[name], "", line, conversion.provider)
    return NodeRecord(name, target, HOST if refusal in (NUMBER, VIEW) else EAGER, refusal, line)
