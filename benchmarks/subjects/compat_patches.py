"""What patches of the mx_driving.patcher API cost to apply, against a stand-in that only finds and sets attributes."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

from benchmarks.generated import function_name, module_names, write_package
from benchmarks.measure import Timing, interleave, wall
from benchmarks.rows import Budget, RatioLimit, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "compat-patches"
PATCHES = 1_000
PACKAGE = "benchmarked_library"
STAND_IN = "getattr and setattr by dotted name"
LIMIT = RatioLimit(1)


def rows(budget: Budget) -> list[Row]:
    """Time ``Patcher.apply()`` with AtomicPatches of a loaded module, and of a library that is not installed."""
    count = budget.size(PATCHES)
    cases = [(f"{count:,} patches, module loaded", count, PACKAGE), ("1 patch, module loaded", 1, PACKAGE)]
    cases += [(f"{count:,} patches, library absent", count, "no_such_library")]
    why = missing("mx_driving_compat")
    if why is not None:
        return [skipped(SUBJECT, what, STAND_IN, why) for what, _, _ in cases]
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as folder:
        write_package(Path(folder), PACKAGE, modules=1, functions=count)
        sys.path.insert(0, folder)
        try:
            (module,) = module_names(PACKAGE, 1)
            importlib.import_module(module)
            timings: dict[str, Timing] = {}
            for what, size, package in cases:
                inside = module.replace(PACKAGE, package, 1)
                targets = [f"{inside}.{function_name(i)}" for i in range(size)]
                timings[what] = _ours(targets)
                timings[f"{what}, stand-in"] = _theirs(targets)
            samples = interleave(timings, budget.rounds(7))
        finally:
            sys.path.remove(folder)
    return [
        compare(SUBJECT, what, STAND_IN, samples[what], samples[f"{what}, stand-in"], budget=budget, limit=LIMIT)
        for what, _, _ in cases
    ]


def _ours(targets: Sequence[str]) -> Timing:
    from mx_driving_compat.patcher.patch import AtomicPatch
    from mx_driving_compat.patcher.patcher import Patcher

    def timing() -> float:
        patcher = Patcher()
        for target in targets:
            patcher.add(AtomicPatch(target, _replacement))
        try:
            return wall(lambda: patcher.put_in_force(tell=False))
        finally:
            patcher.revert()

    return timing


def _theirs(targets: Sequence[str]) -> Timing:
    def timing() -> float:
        undo: list[Callable[[], None]] = []
        seconds = wall(lambda: [_set(target, undo) for target in targets])
        for step in undo:
            step()
        return seconds

    return timing


def _set(target: str, undo: list[Callable[[], None]]) -> None:
    """Replace ``target`` as a patcher without records would: import the module, look the name up, set it."""
    name, _, attribute = target.rpartition(".")
    try:
        module: Any = importlib.import_module(name)
    except ImportError:
        return
    original = getattr(module, attribute)
    undo.append(lambda: setattr(module, attribute, original))
    setattr(module, attribute, _replacement)


def _replacement(x: Any, y: int = 0) -> Any:
    return x
