"""How fast what the graph backend compiles runs: vendor ``c`` beside eager, inductor and, for functions, ``reference``.

Every variant has run before it is timed, so that compiling is not in it.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Callable, Optional

from benchmarks.measure import Timing, interleave, wall
from benchmarks.rows import Budget, Row, compare, skipped
from benchmarks.subjects import missing

if TYPE_CHECKING:
    from benchmarks.graph_workloads import Workload

SUBJECT = "graph"
OURS = "c"
ALTERNATIVES = ("eager", "inductor", "reference")


def rows(budget: Budget) -> list[Row]:
    """Time functions and models, compiled by each backend, in turn."""
    why = missing("torch", "npu_graph")
    if why is not None:
        return [skipped(SUBJECT, "compiled by c", rival, why) for rival in ALTERNATIVES]
    with tempfile.TemporaryDirectory(prefix="patchcore-graph-") as folder:
        os.environ["PATCHCORE_GRAPH_CACHE_DIR"] = os.path.join(folder, "patchcore")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
        from benchmarks.graph_workloads import functions, models, unusable

        reasons = {backend: unusable(backend) for backend in (OURS, "inductor", "reference")}
        found: list[Row] = []
        for workload in [*functions(quick=budget.quick), *models(quick=budget.quick)]:
            found += _rows_of(workload, reasons, budget)
        return found


def _rows_of(workload: Workload, reasons: dict[str, Optional[str]], budget: Budget) -> list[Row]:
    import torch

    from benchmarks.graph_workloads import compiler

    rivals = [rival for rival in ALTERNATIVES if rival != "reference" or not workload.is_model]
    why = {rival: reasons[OURS] or reasons.get(rival) for rival in rivals}
    usable = [rival for rival in rivals if why[rival] is None]
    samples = {}
    if usable:
        torch._dynamo.reset()
        seconds = 0.0 if budget.quick else 0.05
        timings = {name: _timing(workload.make(compiler(name)), seconds) for name in (OURS, *usable)}
        samples = interleave(timings, budget.rounds(8 if workload.is_model else 20))
    return [
        compare(SUBJECT, workload.name, rival, samples[OURS], samples[rival], budget=budget)
        if why[rival] is None
        else skipped(SUBJECT, workload.name, rival, str(why[rival]))
        for rival in rivals
    ]


def _timing(step: Callable[[], object], seconds: float) -> Timing:
    """Return a timing of a step that has been compiled, repeated for about so many seconds a round."""
    for _ in range(2):  # memory that the first step gets, the second has
        step()
    number = max(1, round(seconds / wall(step)))

    def repeat() -> None:
        for _ in range(number):
            step()

    return lambda: wall(repeat) / number
