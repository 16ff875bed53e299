"""What the interface of mx_driving.patcher costs a program that has patchcore and its Patcher already."""

from __future__ import annotations

from benchmarks.measure import interleave
from benchmarks.processes import environment, reported
from benchmarks.rows import Budget, Row, TimeLimit, compare

SUBJECT = "compat-import"
LIMIT = TimeLimit(5e-3)
INSTALL = "install mx_driving_compat, patchcore imported"
NAMES = "import names of both APIs from mx_driving.patcher, installed"
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
}


def rows(budget: Budget) -> list[Row]:
    """Time the statements inside fresh interpreters."""
    env = environment()
    timings = {}
    for name, (before, code) in _CODE.items():
        probe = f"import time; {before}; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
        timings[name] = reported(probe, env)
    samples = interleave(timings, budget.rounds(40))
    return [
        compare(SUBJECT, what, CORE, samples[what], samples[CORE], budget=budget, limit=limit)
        for what, limit in ((INSTALL, LIMIT), (NAMES, None))
    ]
