"""What planning, applying and reverting many patches costs, and whether it stays linear."""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, NamedTuple
from unittest import mock

import patchcore as pc
from benchmarks.generated import function_name, module_names, write_package
from benchmarks.measure import Samples, Timing, interleave, wall
from benchmarks.rows import ABOUT_THE_SAME, Budget, RatioLimit, Row, TimeLimit, compare

SUBJECT = "apply"
SIZES = (10, 100, 1_000, 10_000)
#: Costs per patch are compared with those at this size.
BASE = 1_000
PER_PATCH = 20e-6
LINEAR = RatioLimit(ABOUT_THE_SAME, "linear")
FUNCTIONS_PER_MODULE = 100
#: One stays loaded, the other is imported anew in each round.
LOADED, IMPORTED = "benchmarked_library", "benchmarked_late_library"
APPLY, REVERT, ON_IMPORT, CREATE = "plan + apply", "revert", "apply on import", "plan + apply with create=True"


class Place(NamedTuple):
    """A function of a module: what one patch replaces."""

    module: str
    name: str


class Taken(NamedTuple):
    """Seconds for putting patches in force, and for taking them back."""

    forth: float
    back: float


def rows(budget: Budget) -> list[Row]:
    """Time a Patcher and ``unittest.mock.patch.object`` replacing the same module functions, all distinct."""
    sizes = [budget.size(size) for size in SIZES]
    few, many = budget.size(BASE), sizes[-1]
    with _packages(modules=sizes[-1] // FUNCTIONS_PER_MODULE) as modules:
        places = {
            package: [Place(module, function_name(i)) for module in names for i in range(FUNCTIONS_PER_MODULE)]
            for package, names in modules.items()
        }
        runs: dict[str, Callable[[], Taken]] = {}
        for size in sizes:
            runs[f"{APPLY} {size}"] = _loaded_run(places[LOADED][:size])
            runs[f"mock {size}"] = _mock_run(places[LOADED][:size])
        for size in (few, many):
            runs[f"{ON_IMPORT} {size}"] = _import_run(places[IMPORTED][:size])
            new = [place._replace(name=f"new_{place.name}") for place in places[LOADED][:size]]
            runs[f"{CREATE} {size}"] = _loaded_run(new, create=True)
        runs[f"mock create {many}"] = _mock_run(new, create=True)
        samples = _measure(runs, budget)
    found = []
    for phase, mocked in ((APPLY, "start"), (REVERT, "stop")):
        for size in sizes:
            limit = TimeLimit(PER_PATCH * size) if phase == APPLY and size >= few else None
            ours, theirs = samples[f"{phase} {size}"], samples[f"{mocked} {size}"]
            what, alternative = f"{phase}, {size:,} patches", f"mock.patch.object, {mocked}"
            found.append(compare(SUBJECT, what, alternative, ours, theirs, budget=budget, limit=limit))
    ours, theirs = samples[f"{CREATE} {many}"], samples[f"mock create {many}"]
    what, alternative = f"{CREATE}, {many:,} patches", "mock.patch.object with create=True, start"
    limit = TimeLimit(PER_PATCH * many)
    found.append(compare(SUBJECT, what, alternative, ours, theirs, budget=budget, limit=limit))
    for phase in (APPLY, REVERT, ON_IMPORT, CREATE):
        ours, theirs = (samples[f"{phase} {size}"].scaled(1 / size) for size in (many, few))
        what, alternative = f"{phase}, per patch of {many:,}", f"per patch of {few:,}"
        found.append(compare(SUBJECT, what, alternative, ours, theirs, budget=budget, limit=LINEAR))
    return found


def _measure(runs: dict[str, Callable[[], Taken]], budget: Budget) -> dict[str, Samples]:
    """Return what every run took under its own name, and its way back under ``revert <size>`` or ``stop <size>``."""
    back: dict[str, list[float]] = {name: [] for name in runs}

    def noting(name: str, run: Callable[[], Taken]) -> Timing:
        def timing() -> float:
            taken = run()
            back[name].append(taken.back)
            return taken.forth

        return timing

    samples = interleave({name: noting(name, run) for name, run in runs.items()}, budget.rounds(5), collecting=True)
    for name, values in back.items():
        phase, _, size = name.rpartition(" ")
        counted = Samples(tuple(values[1:]))  # the first round warms up
        if phase == APPLY:
            samples[f"{REVERT} {size}"] = counted
        elif phase == "mock":
            samples[f"start {size}"], samples[f"stop {size}"] = samples[name], counted
    return samples


def _loaded_run(places: Sequence[Place], *, create: bool = False) -> Callable[[], Taken]:
    patches = _patches(places, create=create)

    def run() -> Taken:
        patcher = pc.Patcher(patches, strict=True)
        forth = wall(patcher.apply)
        return Taken(forth, wall(patcher.revert))

    return run


def _import_run(places: Sequence[Place]) -> Callable[[], Taken]:
    patches = _patches(places)
    modules = list(dict.fromkeys(place.module for place in places))

    def import_all() -> None:
        for name in modules:
            importlib.import_module(name)

    def run() -> Taken:
        for name in modules:
            sys.modules.pop(name, None)
        patcher = pc.Patcher(patches, strict=True)
        patcher.apply()
        forth = wall(import_all)
        assert len(patcher.report().with_status("applied")) == len(places)
        return Taken(forth, wall(patcher.revert))

    return run


def _mock_run(places: Sequence[Place], *, create: bool = False) -> Callable[[], Taken]:
    patchers = [mock.patch.object(sys.modules[p.module], p.name, _replacement(p.name), create=create) for p in places]

    def start() -> None:
        for patcher in patchers:
            patcher.start()

    return lambda: Taken(wall(start), wall(mock.patch.stopall))


def _patches(places: Sequence[Place], *, create: bool = False) -> list[pc.Patch]:
    changes = [pc.Replace(f"{p.module}:{p.name}", _replacement(p.name), create=create) for p in places]
    return [pc.Patch(f"{p.module}.{p.name}", [change]) for p, change in zip(places, changes)]


def _replacement(name: str) -> Callable[..., Any]:
    def replacement(x: Any, y: int = 0) -> Any:
        return x

    replacement.__name__ = replacement.__qualname__ = name
    return replacement


@contextmanager
def _packages(modules: int) -> Iterator[dict[str, list[str]]]:
    """Write both packages and import their modules; yield the modules' names by package."""
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as folder:
        sys.path.insert(0, folder)
        try:
            for package in (LOADED, IMPORTED):
                write_package(Path(folder), package, modules=modules, functions=FUNCTIONS_PER_MODULE)
                for name in module_names(package, modules):
                    importlib.import_module(name)
            yield {package: module_names(package, modules) for package in (LOADED, IMPORTED)}
        finally:
            sys.path.remove(folder)
