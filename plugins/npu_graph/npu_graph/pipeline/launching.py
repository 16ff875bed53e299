"""Runs a kernel in the place of its subgraph, and checks that its results are those that the graph declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

from torch.fx import GraphModule, Node

from npu_graph.cache import Entry
from npu_graph.errors import LaunchError
from npu_graph.operations.subgraph import Subgraph
from npu_graph.pipeline.checking import Check, run_kernel
from npu_graph.private_torch import BoxedCodeGen as _BoxedCodeGen
from npu_graph.vendor import Vendor

__all__ = ["Launch", "boxed"]


class Launch:
    """Calls the kernel of a subgraph. A graph calls it as a function: modules have hooks to ask for in every call.

    Args:
        vendor: whose kernel it is.
        subgraph: the compiled subgraph.
        entry: the kernel.
        name: for messages.
        check: compares the results of the kernel with eager; ``None`` for no comparison.
    """

    def __init__(self, vendor: Vendor, subgraph: Subgraph, entry: Entry, name: str, check: Optional[Check]) -> None:
        self.__name__ = name.partition(" ")[0]  # in the source of the graph
        self._vendor = vendor
        self._subgraph = subgraph
        self._entry = entry
        self._name = name
        self._check = check

    def replace(self, call: Node) -> None:
        """Take the place of the module of the subgraph in the whole graph.

        Args:
            call: calls that module.
        """
        with call.graph.inserting_before(call):
            made = call.graph.call_function(self, call.args)
        made.meta = call.meta
        call.replace_all_uses_with(made)
        call.graph.erase_node(call)

    def __call__(self, *inputs: Any) -> Any:
        """Run the kernel on inputs and values of symbols; return the results of the subgraph.

        Raises:
            LaunchError: the kernel raises, or its results differ from the graph's.
            DeviationError: the results deviate from eager, and a check is to raise.
        """
        try:
            outputs = run_kernel(self._vendor, self._subgraph, self._entry, inputs)
        except Exception as error:
            raise LaunchError(f"vendor {self._vendor.name}: {self._name}: {error} ({self._entry.source})") from error
        if self._check is not None:
            outputs = self._check(inputs, outputs)
        return outputs[0] if self._subgraph.single else tuple(outputs)


def boxed(graph: GraphModule) -> Callable[[list[Any]], Any]:
    """Return a function that runs a graph on a list of its inputs and empties that list, as aot_autograd wants it.

    So every tensor is freed when the last operator has read it, also tensors that were saved for the backward.
    """
    graph.graph.set_codegen(_BoxedCodeGen())
    graph.recompile()
    _ = graph.code  # dynamo's modules put recompiling off until somebody reads the code or calls the module
    forward = graph.forward  # without the hooks of a module's call

    def run(inputs: list[Any]) -> Any:
        return forward(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
