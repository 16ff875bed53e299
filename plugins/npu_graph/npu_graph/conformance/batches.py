"""Cases by the hundred in one graph, and the outcome of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional

import torch
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx

from npu_graph.conformance.cases import Case, Inputs
from npu_graph.conformance.comparison import Tolerances, compare, describe
from npu_graph.pipeline import compile_graph
from npu_graph.recording import EAGER, GraphRecord, records
from npu_graph.vendor import Vendor
from patchcore.plugin import describe_error

__all__ = ["Batch", "Finding"]

#: Rows and columns of :class:`Inputs`, unlike every other size there: dynamo takes equal ones for the same. With
#: dynamic sizes the graph that is traced with the first is run with all.
SIZES = ((7, 9), (8, 11), (5, 13))


@dataclass(frozen=True)
class Finding:
    """The outcome of one case.

    Args:
        case: it.
        reason: why it was not converted; empty when it was.
        problem: why it failed; empty if its result equals eager.
        absent: eager has no kernel for it, so that there is nothing to compare with.
    """

    case: Case
    reason: str = ""
    problem: str = ""
    absent: bool = False


class Batch:
    """The cases of one dtype, static or dynamic, as one graph.

    A graph that cannot be compiled or run is halved until the failing cases are alone. A case that deviates is tried
    again alone, so that a kernel that is wrong by itself can be told from one that is wrong in company.

    Args:
        vendor: prepared.
        options: of ``torch.compile``.
        dtype: of the inputs.
        dynamic: whether sizes are known only when the graph runs.
        tolerances: the allowed differences.
    """

    def __init__(
        self, vendor: Vendor, options: Mapping[str, Any], dtype: str, dynamic: bool, tolerances: Tolerances
    ) -> None:
        self._vendor = vendor
        self._options = options
        self._dynamic = dynamic
        self._tolerances = tolerances
        sizes = SIZES if dynamic else SIZES[:1]
        self._inputs = [Inputs(getattr(torch, dtype), *size, vendor.device_type, seed=1) for size in sizes]

    def run(self, cases: Iterable[Case]) -> list[Finding]:
        """Return the outcome of each case."""
        absent: list[Finding] = []
        present: list[Case] = []
        for case in cases:
            reason = self._eager_lacks(case)
            if reason is None:
                present.append(case)
            else:
                absent.append(Finding(case, problem=reason, absent=_is_missing(reason)))
        found = self._halve(present) if present else []
        if len(present) > 1:
            found = [self._again(each) if each.problem else each for each in found]
        return [*absent, *found]

    def _eager_lacks(self, case: Case) -> Optional[str]:
        try:
            case.run(self._inputs[0].tensors)
        except Exception as error:
            return f"eager itself fails: {describe_error(error)}"
        return None

    def _halve(self, cases: Sequence[Case]) -> list[Finding]:
        try:
            return self._together(cases)
        except Exception as error:
            if len(cases) == 1:
                return [
                    Finding(cases[0], problem=f"{self._shapes(cases[0])}{describe_error(error.__cause__ or error)}")
                ]
        middle = len(cases) // 2
        return [*self._halve(cases[:middle]), *self._halve(cases[middle:])]

    def _again(self, finding: Finding) -> Finding:
        (alone,) = self._halve([finding.case])
        told = "compiled alone, it does so too" if alone.problem else "compiled alone, it agrees with eager"
        return replace(finding, problem=f"{finding.problem}\n  {told}")

    def _together(self, cases: Sequence[Case]) -> list[Finding]:
        graph, examples = self._trace(cases)
        compiled = compile_graph(self._vendor, graph, examples, self._options)
        reasons = _refusals(cases, records()[-1])
        problems: dict[int, str] = {}
        for inputs in self._inputs:
            got = iter(compiled(*inputs.tensors.values()))
            for number, case in enumerate(cases):
                for position, wanted in enumerate(case.run(inputs.tensors)):
                    found = compare(next(got), wanted, self._tolerances)
                    if found is not None:
                        problems.setdefault(
                            number, f"{self._shapes(case, inputs)}result {position}, {describe(wanted)}: {found}"
                        )
        return [Finding(case, reasons[number], problems.get(number, "")) for number, case in enumerate(cases)]

    def _trace(self, cases: Sequence[Case]) -> tuple[torch.fx.GraphModule, list[Any]]:
        """One graph that calls all cases, and its inputs as fakes: as dynamo has them, much sooner."""
        names = list(self._inputs[0].tensors)

        def calls(*inputs: torch.Tensor) -> list[torch.Tensor]:
            results = []
            for number, case in enumerate(cases):
                traceback.set_stack_trace([_tag(number)])
                results += case.run(dict(zip(names, inputs)))
            return results

        with traceback.preserve_node_meta():
            tracer: Callable[..., torch.fx.GraphModule] = make_fx(
                calls, tracing_mode="symbolic" if self._dynamic else "fake"
            )
            graph = tracer(*self._inputs[0].tensors.values())
        return graph, [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]

    def _shapes(self, case: Case, inputs: Optional[Inputs] = None) -> str:
        tensors = (inputs or self._inputs[0]).tensors
        used = ", ".join(f"{name} {describe(tensors[name])}" for name in case.uses(tensors))
        return f"of {used}: " if used else ""


def _tag(number: int) -> str:
    """The frame that nodes of a case have for the place in the model they come from; see ``NodeRecord.line``."""
    return f'  File "case", line {number}, in call\n'


def _refusals(cases: Sequence[Case], record: GraphRecord) -> list[str]:
    """Return for each case why its operator was not converted, or the operators that it was decomposed into."""
    nodes: dict[str, list[Any]] = {}
    for node in record.nodes:
        nodes.setdefault(node.line, []).append(node)
    reasons = []
    for number, case in enumerate(cases):
        # nodes that are created for symbolic numbers have no line
        own = nodes.get(f"case:{number}") or [node for node in nodes.get("", ()) if node.operator == case.operator]
        relevant = [node for node in own if node.operator == case.operator] or own
        refused = [f"{node.operator}: {node.reason}" for node in relevant if node.where == EAGER]
        reasons.append("; ".join(dict.fromkeys(refused)) if relevant else "nothing of it is in the graph")
    return reasons


def _is_missing(problem: str) -> bool:
    """Return whether eager has no kernel for a dtype, in the words of torch."""
    return "not implemented for '" in problem or "not support" in problem
