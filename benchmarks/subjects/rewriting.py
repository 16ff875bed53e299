"""What editing source in memory costs: the import of a library with lines that compare with ``"cuda"``, and a call.

Python informs audit hooks of that call; one of them looks for comparisons that could not be edited.
"""

from __future__ import annotations

from benchmarks.measure import interleave
from benchmarks.processes import environment, reported
from benchmarks.rows import Budget, RatioLimit, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "rewriting"
LIMIT = RatioLimit(1.03)
PLAIN = "the import without the patch"
HOOKED, EMPTY, EMPTY_LIMIT = "sys._getframe(), with the audit hook", "with an empty audit hook", RatioLimit(1.25)
CALLS = 100_000

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
#: A call costs far more with any audit hook than with none.
_GETFRAME = """\
import sys, timeit
{hook}
sys.addaudithook(hook)
print(min(timeit.repeat("f()", globals={{"f": sys._getframe}}, number={number}, repeat=5)) / {number})
"""
_HOOKS = {
    "ours": "from torch_npu_patches.cuda_names.unedited import _audit as hook",
    "empty": "def hook(event, arguments): pass",
}


def rows(budget: Budget) -> list[Row]:
    """Take the processor time of the imports in fresh interpreters, with the patch and without; then time a call."""
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
    return [*found, _getframe(budget)]


def _getframe(budget: Budget) -> Row:
    why = missing("torch_npu_patches")
    if why is not None:
        return skipped(SUBJECT, HOOKED, EMPTY, why)
    number, env = budget.size(CALLS), environment()
    timings = {name: reported(_GETFRAME.format(hook=hook, number=number), env) for name, hook in _HOOKS.items()}
    samples = interleave(timings, budget.rounds(11))
    return compare(SUBJECT, HOOKED, EMPTY, samples["ours"], samples["empty"], budget=budget, limit=EMPTY_LIMIT)
