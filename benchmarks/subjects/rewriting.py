"""What editing source in memory costs an import: of a library with some lines that compare with ``"cuda"``."""

from __future__ import annotations

from benchmarks.measure import interleave
from benchmarks.processes import environment, reported
from benchmarks.rows import Budget, RatioLimit, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "rewriting"
LIMIT = RatioLimit(1.03)
PLAIN = "the import without the patch"

_START = """\
import gc, time, torch, patchcore
torch.set_num_threads(1)
"""
_APPLY = """\
patch = patchcore.Patch("names", [patchcore.Rewrite("*", "torch_npu_patches.cuda_names:LIBRARIES")])
patchcore.Patcher([patch]).apply()
"""
# What is added is a small part of the whole: processor time varies less than wall time.
_IMPORT = """\
gc.collect()
gc.disable()
start = time.process_time()
{statement}
print(time.process_time() - start)
"""
#: By library, an import of much of it.
_STATEMENTS = {
    "transformers": "from transformers import BertModel, LlamaForCausalLM, T5ForConditionalGeneration, Trainer",
    "mmdet": "import mmdet.models, mmdet.datasets",
}


def rows(budget: Budget) -> list[Row]:
    """Take the processor time of the imports in fresh interpreters, with the patch and without."""
    env, found = environment(), []
    for library, statement in _STATEMENTS.items():
        what = f"import of {library}, compared lines edited"
        why = missing("torch", "torch_npu_patches", library)
        if why is not None:
            found.append(skipped(SUBJECT, what, PLAIN, why))
            continue
        end = _IMPORT.format(statement=statement)
        timings = {"edited": reported(_START + _APPLY + end, env), "plain": reported(_START + end, env)}
        samples = interleave(timings, budget.rounds(11))
        found.append(compare(SUBJECT, what, PLAIN, samples["edited"], samples["plain"], budget=budget, limit=LIMIT))
    return found
