"""How long compiling takes: the first step of a fresh process, with no kernel in the cache and with all of them.

The time is that of the first step from its call to its end. Importing torch and making the model are not in it; what a
backend imports when the first graph comes is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from benchmarks.measure import Samples, Timing, interleave, wall
from benchmarks.processes import environment, run
from benchmarks.rows import Budget, RatioLimit, Row, compare, skipped
from benchmarks.subjects import missing

if TYPE_CHECKING:
    from benchmarks.graph_workloads import Workload

SUBJECT = "graph-compile"
OURS, INDUCTOR, TRACED = "c", "inductor", "aot_eager"
COLD, HIT = "nothing cached", "all cached"
INDUCTOR_ROW = {COLD: f"inductor, {COLD}", HIT: f"inductor, {HIT}"}
TRACED_ROW = "aot_eager, which only traces"
#: Where the first step of ``c`` goes; the first of them is what remains.
REST, PIPELINE, TOOLCHAIN = "dynamo, aot_autograd and the step itself", "the pipeline", "the C compiler"
PARTS = (REST, PIPELINE, TOOLCHAIN)
#: What the cache is there for.
CHEAPER = RatioLimit(1)


def rows(budget: Budget) -> list[Row]:
    """Time first steps, each in a process of its own, in turn."""
    why = missing("torch", "npu_graph")
    if why is not None:
        return [skipped(SUBJECT, f"first step, {state}", rival, why) for state, rival in INDUCTOR_ROW.items()]
    from benchmarks.graph_workloads import compiled_first, unusable

    with tempfile.TemporaryDirectory(prefix="patchcore-graph-") as folder:
        os.environ.update(_caches(folder))
        without_ours, without_inductor = unusable(OURS), unusable(INDUCTOR)
    found: list[Row] = []
    for workload in compiled_first(quick=budget.quick):
        if without_ours is not None:
            found += (
                skipped(SUBJECT, f"{workload.name}: first step, {state}", rival, without_ours)
                for state, rival in INDUCTOR_ROW.items()
            )
            continue
        found += _rows_of(workload, without_inductor, budget)
    return found


def _rows_of(workload: Workload, without_inductor: Optional[str], budget: Budget) -> list[Row]:
    rounds = 1 if budget.quick else 3
    parts: dict[str, list[dict[str, float]]] = {COLD: [], HIT: []}
    with tempfile.TemporaryDirectory(prefix="patchcore-graph-") as folder:
        backends = [OURS] if without_inductor else [OURS, INDUCTOR]
        timings = {
            f"{backend}, {state}": _timing(workload, backend, state, folder, budget, parts[state])
            for backend in backends
            for state in (COLD, HIT)
        }
        timings[TRACED_ROW] = _timing(workload, TRACED, COLD, folder, budget, [])
        samples = interleave(timings, rounds)

    def row(what: str, rival: str, ours: Samples, theirs: Samples, limit: Optional[RatioLimit] = None) -> Row:
        name = f"{workload.name}: {what}"
        return compare(SUBJECT, name, rival, ours, theirs, budget=budget, limit=limit)

    found = []
    for state in (COLD, HIT):
        ours, what = samples[f"{OURS}, {state}"], f"first step, {state}"
        if without_inductor:
            found.append(skipped(SUBJECT, f"{workload.name}: {what}", INDUCTOR_ROW[state], without_inductor))
        else:
            found.append(row(what, INDUCTOR_ROW[state], ours, samples[INDUCTOR_ROW[state]]))
        found.append(row(what, TRACED_ROW, ours, samples[TRACED_ROW]))
        for part in PARTS:
            taken = Samples(tuple(each[part] for each in parts[state][-rounds:]))  # without the round that warms up
            found.append(row(f"{state}, {part}", "all of that step", taken, ours))
    hit, cold = samples[f"{OURS}, {HIT}"], samples[f"{OURS}, {COLD}"]
    return [*found, row(f"first step, {HIT}", f"c, {COLD}", hit, cold, CHEAPER)]


def _timing(
    workload: Workload, backend: str, state: str, folder: str, budget: Budget, parts: list[dict[str, float]]
) -> Timing:
    """Return a timing of the first step; those with everything cached share a cache, which the first of them fills."""

    def timing() -> float:
        with tempfile.TemporaryDirectory(dir=folder) as empty:
            caches = _caches(empty if state == COLD else folder)
            arguments = ["-m", __name__, workload.name, backend, *(["--quick"] if budget.quick else [])]
            answer = json.loads(run(arguments, {**environment(threads=True), **caches}).splitlines()[-1])
        if backend == OURS:
            parts.append(answer["parts"])
        return float(answer["seconds"])

    return timing


def _caches(folder: str) -> dict[str, str]:
    names = {"PATCHCORE_GRAPH_CACHE_DIR": "patchcore", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    return {variable: str(Path(folder, name)) for variable, name in names.items()}


def main() -> None:
    """Take the first step in this process; print the seconds, and for ``c`` those of its parts, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("backend", choices=(OURS, INDUCTOR, TRACED))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    from benchmarks.graph_workloads import compiled_first, compiler

    (workload,) = (each for each in compiled_first(quick=options.quick) if each.name == options.workload)
    step = workload.make(compiler(options.backend))
    asking = _ask_compiler() if options.backend == OURS else 0.0
    with _TimedPrograms() as programs:
        seconds = wall(step)
    answer: dict[str, Any] = {"seconds": asking + seconds}
    if options.backend == OURS:
        from npu_graph import recording

        in_pipeline = sum(record.seconds for record in recording.records())
        parts = (seconds - in_pipeline, in_pipeline - programs.seconds, asking + programs.seconds)
        answer["parts"] = dict(zip(PARTS, parts))
    json.dump(answer, sys.stdout)


def _ask_compiler() -> float:
    """Return how long it takes to find out what the C compiler can do, which the first graph of a process waits for."""
    from npu_graph.c.toolchain import find_toolchain

    return wall(find_toolchain)


class _TimedPrograms:
    """Adds up what programs take that this process waits for: of ``c``, these are calls of the compiler."""

    def __enter__(self) -> _TimedPrograms:
        self.seconds = 0.0
        self._run = subprocess.run

        def timed(*arguments: Any, **keywords: Any) -> Any:
            done: list[Any] = []
            self.seconds += wall(lambda: done.append(self._run(*arguments, **keywords)))
            return done[0]

        subprocess.run = timed  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run = self._run  # type: ignore[assignment]


if __name__ == "__main__":
    main()
