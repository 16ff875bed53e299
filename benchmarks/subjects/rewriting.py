"""What editing source in memory costs: the import of a library with lines that compare with ``"cuda"``, and a call.

Python informs audit hooks of that call; one of them looks for comparisons that could not be edited.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

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
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for library, statement in _STATEMENTS.items():
            found += _imports(budget, library, statement, folder)
    return [*found, _getframe(budget)]


def _imports(budget: Budget, library: str, statement: str, folder: str) -> list[Row]:
    """Compare the import of a library with the plain one: where nothing is kept from earlier processes, and later.

    Args:
        budget: of the run.
        library, statement: what is imported, and how.
        folder: for what processes keep; it is the cache of the user there.
    """
    what = f"import of {library}, compared lines edited"
    first = f"{what}, with nothing kept"
    why = missing("torch", "torch_npu_patches", library)
    if why is not None:
        return [skipped(SUBJECT, what, PLAIN, why), skipped(SUBJECT, first, PLAIN, why)]
    later = {**environment(), "XDG_CACHE_HOME": str(Path(folder, "later"))}
    later.pop("PYTHONDONTWRITEBYTECODE", None)
    never = {**later, "XDG_CACHE_HOME": str(Path(folder, "never")), "PYTHONDONTWRITEBYTECODE": "1"}
    end = _IMPORT.format(statement=statement)
    edited = _START + _APPLY + end
    timings = {
        "edited": reported(edited, later),
        "first": reported(edited, never),
        "plain": reported(_START + end, later),
    }
    timings["edited"]()  # writes the bytecode of the library, and what is kept
    samples = interleave(timings, budget.rounds(11))
    return [
        compare(SUBJECT, what, PLAIN, samples["edited"], samples["plain"], budget=budget, limit=LIMIT),
        compare(SUBJECT, first, PLAIN, samples["first"], samples["plain"], budget=budget),
    ]


def _getframe(budget: Budget) -> Row:
    why = missing("torch_npu_patches")
    if why is not None:
        return skipped(SUBJECT, HOOKED, EMPTY, why)
    number, env = budget.size(CALLS), environment()
    timings = {name: reported(_GETFRAME.format(hook=hook, number=number), env) for name, hook in _HOOKS.items()}
    samples = interleave(timings, budget.rounds(11))
    return compare(SUBJECT, HOOKED, EMPTY, samples["ours"], samples["empty"], budget=budget, limit=EMPTY_LIMIT)
