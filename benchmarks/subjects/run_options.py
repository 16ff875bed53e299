"""What the options ``--report-dir`` and ``--count`` of ``patchcore run`` cost a program that runs for seconds."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.generated import function_name, module_names, write_package
from benchmarks.measure import Timing, interleave
from benchmarks.processes import environment, run
from benchmarks.rows import Budget, RatioLimit, Row, compare

SUBJECT = "run-options"
LIBRARY = "benchmarked_library"
PATCHES = "benchmarked_patches"
MODULES = 200
#: Functions, each with a patch of its own: every other one is replaced, the rest is wrapped.
PATCHED_PER_MODULE = 5
CALLS = 150_000
LIMIT = RatioLimit(1.03)
PLAIN, AGAIN = "the same run without", "the same run without, again"
REPORTS, COUNT = "--report-dir", "--count"

_PATCHES = """\
import json
import pathlib

import patchcore as pc


def replacement(x, y=0):
    return x


def wrapper(original, *args, **kwargs):
    return original(*args, **kwargs)


def change(index, target):
    return pc.Wrap(target, wrapper) if index % 2 else pc.Replace(target, replacement)


TARGETS = json.loads(pathlib.Path(__file__).with_name("targets.json").read_text())


@pc.hookimpl
def register_patches():
    return [pc.Patch(target.replace(":", "."), [change(i, target)]) for i, target in enumerate(TARGETS)]
"""
_PROGRAM = """\
import importlib
import itertools
import json
import pathlib

targets = json.loads(pathlib.Path(__file__).with_name("targets.json").read_text())
modules = {name: importlib.import_module(name) for name in dict.fromkeys(t.partition(":")[0] for t in targets)}
functions = [getattr(modules[t.partition(":")[0]], t.partition(":")[2]) for t in targets]
total = 0
for call in itertools.islice(itertools.cycle(functions), CALLS):
    total += call(sum(range(1000)))
print(total)
"""


def rows(budget: Budget) -> list[Row]:
    """Time a program that imports many patched modules and then works, calling patched functions in between."""
    calls = budget.size(CALLS)
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as name:
        folder = Path(name)
        patches = _write(folder, modules=budget.size(MODULES), calls=calls)
        env = environment(folder)
        options = {PLAIN: (), AGAIN: (), REPORTS: (REPORTS, str(folder / "reports")), COUNT: (COUNT,)}
        timings = {variant: _running(folder, given, env) for variant, given in options.items()}
        samples = interleave(timings, budget.rounds(5))
    return [
        *(
            compare(
                SUBJECT,
                f"{option}, {patches:,} patches, {calls:,} calls",
                PLAIN,
                samples[option],
                samples[PLAIN],
                budget=budget,
                limit=LIMIT,
            )
            for option in (REPORTS, COUNT)
        ),
        compare(SUBJECT, AGAIN, PLAIN, samples[AGAIN], samples[PLAIN], budget=budget),
    ]


def _write(folder: Path, *, modules: int, calls: int) -> int:
    """Write the library, its patches and the program; return how many patches there are."""
    write_package(folder, LIBRARY, modules=modules, functions=PATCHED_PER_MODULE)
    names = module_names(LIBRARY, modules)
    targets = [f"{module}:{function_name(index)}" for module in names for index in range(PATCHED_PER_MODULE)]
    (folder / "targets.json").write_text(json.dumps(targets))
    (folder / f"{PATCHES}.py").write_text(_PATCHES)
    (folder / "program.py").write_text(_PROGRAM.replace("CALLS", str(calls)))
    return len(targets)


def _running(folder: Path, options: Sequence[str], env: Mapping[str, str]) -> Timing:
    """Return a timing of ``patchcore run`` and the program: processor time, which other programs change least."""
    command = ["-m", "patchcore", "run", "-p", PATCHES, *options, str(folder / "program.py")]

    def timing() -> float:
        before = os.times()
        run(command, env)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return timing
