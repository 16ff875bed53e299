"""What the search for names costs with torch and mmdet loaded.

The search stops when it has found all references to its objects. For many objects, and for an object that is held by
something other than a name, it goes through every module.
"""

from __future__ import annotations

import gc
import importlib
import operator
import random
import sys
from types import FunctionType
from typing import Any

from benchmarks.measure import Timing, interleave, wall
from benchmarks.rows import ABOUT_THE_SAME, Budget, RatioLimit, Row, TimeLimit, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "references"
OBJECTS = 1_000
LIMIT = TimeLimit(10e-3)
FLAT = RatioLimit(ABOUT_THE_SAME, "about 1x")
LIBRARIES = ("torch", "mmcv", "mmengine", "mmdet")
REFERRERS = "gc.get_referrers, the same"
MANY = f"{OBJECTS:,} objects"
#: One object each. Nothing but names holds the first three; torch.nn.functional.relu is a default of methods as well.
ONE = {
    "1 method": "mmdet.models.layers:DetrTransformerEncoder.forward",
    "1 class": "mmdet.models.layers:DetrTransformerEncoder",
    "1 function": "mmdet.models.utils:multi_apply",
    "1 function held elsewhere, too": "torch.nn.functional:relu",
}
#: The search for this function goes through every module, as the search for many objects does.
TO_THE_END = "1 function held elsewhere, too"


def rows(budget: Budget) -> list[Row]:
    """Time ``find_references`` for one object and for many, against the garbage collector's answer."""
    why = missing(*LIBRARIES)
    if why is not None:
        pairs = [*((name, REFERRERS) for name in (*ONE, MANY)), (MANY, TO_THE_END)]
        return [skipped(SUBJECT, f"find_references, {name}", alternative, why) for name, alternative in pairs]
    importlib.import_module("mmdet.models")
    import torch

    from patchcore.engine.references import find_references
    from patchcore.objects.modules import loaded_modules

    torch.set_num_threads(1)
    sets = {name: [_resolve(target)] for name, target in ONE.items()}
    sets[MANY] = _library_objects(OBJECTS)
    timings: dict[str, Timing] = {}
    whats = {}
    for name, objects in sets.items():
        timings[name] = lambda o=objects: wall(lambda: find_references(o, loaded_modules()))  # type: ignore[misc]
        timings[f"{name} gc"] = lambda o=objects: wall(lambda: gc.get_referrers(*o))  # type: ignore[misc]
        whats[name] = f"find_references, {name}, {len(find_references(objects, loaded_modules())):,} found"
    samples = interleave(timings, budget.rounds(20))
    found = [
        compare(SUBJECT, whats[name], REFERRERS, samples[name], samples[f"{name} gc"], budget=budget, limit=LIMIT)
        for name in sets
    ]
    of_one = compare(SUBJECT, whats[MANY], TO_THE_END, samples[MANY], samples[TO_THE_END], budget=budget, limit=FLAT)
    return [*found, of_one]


def _resolve(target: str) -> Any:
    module, _, path = target.partition(":")
    return operator.attrgetter(path)(importlib.import_module(module))


def _library_objects(count: int) -> list[Any]:
    """Return functions and classes from all over the libraries, the same ones in every run."""
    found: dict[int, Any] = {}
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] in LIBRARIES:
            for value in list(vars(module).values()):
                # by type(): isinstance() asks torch.distributed.reduce_op for its __class__, which warns
                if issubclass(type(value), (FunctionType, type)) and value.__module__ == name:
                    found.setdefault(id(value), value)
    return random.Random(0).sample(list(found.values()), count)
