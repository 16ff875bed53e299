"""What patches by formula cost: the import of a modeling module of transformers whose source is read and patched."""

from __future__ import annotations

from benchmarks.measure import interleave
from benchmarks.processes import environment, reported
from benchmarks.rows import Budget, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "modeling"
PATCHED = "import of modeling_llama, norms and rotary patched"
ALONE = "the same import"

#: torch_npu is not needed: no kernel is called. Configuration and the base classes are imported before.
_PROBE = (
    "import sys, time; sys.modules['torch_npu'] = None\n"
    "import transformers, transformers.modeling_utils, transformers.models.{model}.configuration_{model}\n"
    "{before}"
    "start = time.perf_counter()\n"
    "import transformers.models.{model}.modeling_{model}\n"
    "print(time.perf_counter() - start)\n"
)
_APPLY = (
    "import patchcore\n"
    "from transformers_npu.families.patches import PATCHES\n"
    "patchcore.Patcher([patch.evolve(needs=()) for patch in PATCHES], strict=True).apply()\n"
)


def rows(budget: Budget) -> list[Row]:
    """Time the import of Llama inside fresh interpreters."""
    why = missing("torch") or missing("transformers") or missing("transformers_npu")
    if why:
        return [skipped(SUBJECT, PATCHED, ALONE, why)]
    env = {**environment(), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    timings = {
        PATCHED: reported(_PROBE.format(model="llama", before=_APPLY), env),
        ALONE: reported(_PROBE.format(model="llama", before=""), env),
    }
    samples = interleave(timings, budget.rounds(7))
    return [compare(SUBJECT, PATCHED, ALONE, samples[PATCHED], samples[ALONE], budget=budget)]
