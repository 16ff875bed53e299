"""What the reference pass costs with torch and mmdet loaded: one look through every module for all objects together."""

from __future__ import annotations

import gc
import importlib
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
#: What one object a pass looks for: one of mmdet's own, and one of torch's, which more modules can reach by name.
ONE = {
    "1 object of mmdet": "mmdet.models.layers:DetrTransformerEncoder",
    "1 object of torch": "torch.nn.functional:relu",
}


def rows(budget: Budget) -> list[Row]:
    """Time ``find_references`` for one object and for many, against the garbage collector's answer."""
    why = missing(*LIBRARIES)
    if why is not None:
        pairs = [*((name, REFERRERS) for name in (*ONE, MANY)), *((MANY, name) for name in ONE)]
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
    return found + [
        compare(SUBJECT, whats[MANY], name, samples[MANY], samples[name], budget=budget, limit=FLAT) for name in ONE
    ]


def _resolve(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


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
