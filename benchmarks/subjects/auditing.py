"""What an audit costs: an import of torch that is recorded, and the audit itself at the end."""

from __future__ import annotations

from benchmarks.measure import interleave
from benchmarks.processes import environment, reported
from benchmarks.rows import Budget, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "audit"
RECORDED = "import torch, recorded for an audit"
AUDITED = "import torch, recorded and audited"
ALONE = "import torch"

_PROBE = (
    "import time, patchcore; {before}start = time.perf_counter(); import torch; {after}"
    "print(time.perf_counter() - start)"
)


def rows(budget: Budget) -> list[Row]:
    """Time the import inside fresh interpreters."""
    why = missing("torch")
    if why:
        return [skipped(SUBJECT, what, ALONE, why) for what in (RECORDED, AUDITED)]
    start, audit = "patchcore.audit(); ", "patchcore.audit(); "
    probes = {
        ALONE: _PROBE.format(before="", after=""),
        RECORDED: _PROBE.format(before=start, after=""),
        AUDITED: _PROBE.format(before=start, after=audit),
    }
    env = environment()
    timings = {name: reported(code, env) for name, code in probes.items()}
    samples = interleave(timings, budget.rounds(12))
    return [compare(SUBJECT, what, ALONE, samples[what], samples[ALONE], budget=budget) for what in (RECORDED, AUDITED)]
