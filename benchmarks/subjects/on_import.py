"""What patches cost an import of the real libraries: a do-nothing wrapper on every function that it defines."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from benchmarks.measure import interleave
from benchmarks.processes import environment, reported, run
from benchmarks.rows import Budget, Row, TimeLimit, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "on-import"
LIBRARIES = ("torch", "mmcv", "mmengine", "mmdet")
PLAIN = "the import without patches"
LIMIT = TimeLimit(100e-6)

_LIST = """\
import json, sys, types
import mmdet.models, mmdet.datasets
found = []
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] in ("mmcv", "mmengine", "mmdet"):
        for key, value in vars(module).items():
            if type(value) is types.FunctionType and value.__module__ == name and value.__qualname__ == key:
                found.append(f"{name}:{key}")
print(json.dumps(found))
"""
_START = """\
import gc, json, sys, time, torch, patchcore
torch.set_num_threads(1)
"""
_APPLY = """\
def wrapper(original, *args, **kwargs):
    return original(*args, **kwargs)

targets = json.load(open({file!r}))
patcher = patchcore.Patcher([patchcore.Patch(t.replace(":", "."), patchcore.Wrap(t, wrapper)) for t in targets])
patcher.apply()
"""
# What is added is a small part of the whole: processor time varies less than wall time.
_IMPORT = """\
start = time.process_time()
import mmdet.models, mmdet.datasets
print(time.process_time() - start)
"""


# A pass of the collector over all objects takes 0.1 s and more here. The number of objects before the import decides
# whether the last pass comes before its end or after it.
_UNCOLLECTED = """\
gc.collect()
gc.disable()
"""


def rows(budget: Budget) -> list[Row]:
    """Take the processor time of the import in fresh interpreters, patched and not, and both without the collector."""
    what = "import of mmdet.models and mmdet.datasets"
    why = missing(*LIBRARIES)
    if why is not None:
        return [skipped(SUBJECT, what, PLAIN, why)]
    env = environment()
    targets = json.loads(run(["-c", _LIST], env).splitlines()[-1])
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as folder:
        file = Path(folder, "targets.json")
        file.write_text(json.dumps(targets))
        code = {"patched": _START + _APPLY.format(file=str(file)), "plain": _START}
        timings = {name: reported(start + _IMPORT, env) for name, start in code.items()}
        for name, start in code.items():
            timings[f"{name}, uncollected"] = reported(start + _UNCOLLECTED + _IMPORT, env)
        samples = interleave(timings, budget.rounds(11))
    patched, plain = (samples[f"{name}, uncollected"].scaled(1 / len(targets)) for name in code)
    whole = f"{what}, {len(targets):,} patches"
    return [
        compare(SUBJECT, whole, PLAIN, samples["patched"], samples["plain"], budget=budget),
        compare(
            SUBJECT,
            "added per patch",
            "the import itself, per patch, without garbage collection",
            patched.minus(plain),
            plain,
            budget=budget,
            limit=LIMIT,
        ),
    ]
