"""What ``import patchcore`` costs a program that has pluggy already, as every plugin's import does."""

from __future__ import annotations

from benchmarks.measure import interleave
from benchmarks.processes import environment, reported
from benchmarks.rows import Budget, Row, TimeLimit, compare

SUBJECT = "import"
LIMIT = TimeLimit(5e-3)
PATCHER_LIMIT = TimeLimit(15e-3)
WHAT = "import patchcore, pluggy already imported"
WITH_PATCHER = "import patchcore and its Patcher, pluggy already imported"
PLUGGY = "import pluggy"


def rows(budget: Budget) -> list[Row]:
    """Time the import statements inside fresh interpreters."""
    env = environment()
    statements = {
        PLUGGY: "import pluggy",
        WHAT: "import patchcore",
        WITH_PATCHER: "import patchcore; patchcore.Patcher",
    }
    timings = {}
    for name, code in statements.items():
        before = "" if name == PLUGGY else "import pluggy; "
        probe = f"import time; {before}start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
        timings[name] = reported(probe, env)
    samples = interleave(timings, budget.rounds(40))
    return [
        compare(SUBJECT, what, PLUGGY, samples[what], samples[PLUGGY], budget=budget, limit=limit)
        for what, limit in ((WHAT, LIMIT), (WITH_PATCHER, PATCHER_LIMIT))
    ]
