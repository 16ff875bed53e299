"""What a run costs the Python processes that take part in it, from their start to their end."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.generated import write_package, write_plugins
from benchmarks.measure import interleave
from benchmarks.processes import environment, process, run
from benchmarks.rows import Budget, RatioLimit, Row, TimeLimit, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "child-process"
LIBRARY = "benchmarked_library"
PLUGINS = 10
IDLE_LIMIT = TimeLimit(5e-3)
#: "Not measurably slower" for a single process: the row below it shows by how much equal processes differ.
TORCH_LIMIT = RatioLimit(1.03)
PRINT_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"
STANDARD_LIBRARY = "import argparse, asyncio, json, logging, multiprocessing, subprocess"


def rows(budget: Budget) -> list[Row]:
    """Time interpreters with the environment that children of ``patchcore run`` have, and with their parent's."""
    plugins = budget.size(PLUGINS)
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as folder:
        write_package(Path(folder), LIBRARY, modules=plugins)
        write_plugins(Path(folder), LIBRARY, plugins=plugins)
        bare = environment(Path(folder))
        inherited = _inherited(bare)
        return [
            _added("a child that imports nothing", "pass", inherited, bare, budget),
            _added("a child that imports parts of the standard library", STANDARD_LIBRARY, inherited, bare, budget),
            *_torch(
                f"a child that imports torch, {plugins} plugins beside this environment's", inherited, bare, budget
            ),
        ]


def _inherited(bare: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child: the program that is run, which does not sleep, is told by its process id."""
    command = ["-m", "patchcore", "run", "--", sys.executable, "-c", PRINT_ENVIRONMENT]
    inherited: dict[str, str] = json.loads(run(command, bare))
    assert "PATCHCORE_SESSION" in inherited
    return inherited


def _added(what: str, code: str, inherited: Mapping[str, str], bare: Mapping[str, str], budget: Budget) -> Row:
    timings = {"ours": process(["-c", code], inherited), "bare": process(["-c", code], bare)}
    samples = interleave(timings, budget.rounds(100))
    added = samples["ours"].minus(samples["bare"])
    alternative = "the child on its own"
    return compare(SUBJECT, f"added to {what}", alternative, added, samples["bare"], budget=budget, limit=IDLE_LIMIT)


def _torch(what: str, inherited: Mapping[str, str], bare: Mapping[str, str], budget: Budget) -> list[Row]:
    alternative, again = "the child on its own", "the child on its own, again"
    absent = missing("torch")
    if absent is not None:
        return [skipped(SUBJECT, what, alternative, absent)]
    command = ["-c", "import torch"]
    timings = {what: process(command, inherited), alternative: process(command, bare), again: process(command, bare)}
    samples = interleave(timings, budget.rounds(20))
    ours, theirs = samples[what], samples[alternative]
    return [
        compare(SUBJECT, what, alternative, ours, theirs, budget=budget, limit=TORCH_LIMIT),
        compare(SUBJECT, again, alternative, samples[again], theirs, budget=budget),
    ]
