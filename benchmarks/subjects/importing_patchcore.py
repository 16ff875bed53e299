"""What ``import patchcore`` costs a program that has pluggy already, as every plugin's import does."""

from __future__ import annotations

from benchmarks.measure import interleave
from benchmarks.processes import environment, reported
from benchmarks.rows import Budget, Row, TimeLimit, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "import"
LIMIT = TimeLimit(5e-3)
PATCHER_LIMIT = TimeLimit(15e-3)
WHAT = "import patchcore, pluggy already imported"
WITH_PATCHER = "import patchcore and its Patcher, pluggy already imported"
PLUGGY = "import pluggy"
WRAPT = "import wrapt, pluggy already imported"


def rows(budget: Budget) -> list[Row]:
    """Time the import statements inside fresh interpreters."""
    env = environment()
    without_wrapt = missing("wrapt")
    statements = {
        PLUGGY: "import pluggy",
        WHAT: "import patchcore",
        WITH_PATCHER: "import patchcore; patchcore.Patcher",
    }
    if without_wrapt is None:
        statements[WRAPT] = "import wrapt"
    timings = {}
    for name, code in statements.items():
        before = "" if name == PLUGGY else "import pluggy; "
        probe = f"import time; {before}start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
        timings[name] = reported(probe, env)
    samples = interleave(timings, budget.rounds(40))
    found = []
    for what, limit in ((WHAT, LIMIT), (WITH_PATCHER, PATCHER_LIMIT)):
        found.append(compare(SUBJECT, what, PLUGGY, samples[what], samples[PLUGGY], budget=budget, limit=limit))
        if without_wrapt is None:
            found.append(compare(SUBJECT, what, WRAPT, samples[what], samples[WRAPT], budget=budget))
        else:
            found.append(skipped(SUBJECT, what, WRAPT, without_wrapt))
    return found
