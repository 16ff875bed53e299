"""What the interface of mx_driving.patcher costs a program that has patchcore and its Patcher already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from benchmarks.measure import interleave
from benchmarks.processes import environment, reported
from benchmarks.rows import Budget, Row, TimeLimit, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "compat-import"
LIMIT = TimeLimit(5e-3)
INSTALL = "install mx_driving_compat, patchcore imported"
NAMES = "import names of both APIs from mx_driving.patcher, installed"
DEFAULTS = "default_patcher.apply(), torch imported"
CORE = "import patchcore and its Patcher"

_CODE = {
    CORE: ("import pluggy", "import patchcore; patchcore.Patcher"),
    INSTALL: (
        "import patchcore; patchcore.Patcher",
        "import mx_driving_compat, mx_driving_compat.patcher; mx_driving_compat.install()",
    ),
    NAMES: (
        "import patchcore; patchcore.Patcher; import mx_driving_compat; mx_driving_compat.install()",
        "from mx_driving.patcher import AtomicPatch, Patch, PatcherBuilder, default_patcher, msda",
    ),
    DEFAULTS: (
        "import torch, patchcore; patchcore.Patcher; import mx_driving_compat; mx_driving_compat.install(); "
        "from mx_driving.patcher import default_patcher",
        "default_patcher.apply()",
    ),
}


def rows(budget: Budget) -> list[Row]:
    """Time the statements inside fresh interpreters."""
    why = missing("torch")
    last = [skipped(SUBJECT, DEFAULTS, CORE, why)] if why is not None else _compared(budget, 10, {DEFAULTS: None})
    return [*_compared(budget, 40, {INSTALL: LIMIT, NAMES: None}), *last]


def _compared(budget: Budget, rounds: int, limits: Mapping[str, Optional[TimeLimit]]) -> list[Row]:
    env = environment()
    timings = {}
    for name in (CORE, *limits):
        before, code = _CODE[name]
        probe = f"import time; {before}; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
        timings[name] = reported(probe, env)
    samples = interleave(timings, budget.rounds(rounds))
    return [
        compare(SUBJECT, what, CORE, samples[what], samples[CORE], budget=budget, limit=limit)
        for what, limit in limits.items()
    ]
