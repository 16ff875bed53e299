"""What planning and applying many patches costs, and whether it stays linear."""

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
from benchmarks.measure import Timing, interleave, wall
from benchmarks.rows import ABOUT_THE_SAME, Budget, RatioLimit, Row, TimeLimit, compare

SUBJECT = "apply"
SIZES = (10, 100, 1_000, 10_000)
#: Costs per patch are compared with those at this size.
BASE = 1_000
PER_PATCH = 20e-6
LINEAR = RatioLimit(ABOUT_THE_SAME, "linear")
FUNCTIONS_PER_MODULE = 100
LIBRARY = "benchmarked_library"
APPLY = "plan + apply"


class Place(NamedTuple):
    """A function of a module: what one patch replaces."""

    module: str
    name: str


def rows(budget: Budget) -> list[Row]:
    """Time a Patcher and ``unittest.mock.patch.object`` replacing the same module functions, all distinct."""
    sizes = [budget.size(size) for size in SIZES]
    few, many = budget.size(BASE), sizes[-1]
    with _package(modules=many // FUNCTIONS_PER_MODULE) as modules:
        places = [Place(module, function_name(i)) for module in modules for i in range(FUNCTIONS_PER_MODULE)]
        timings: dict[str, Timing] = {}
        for size in sizes:
            timings[f"{APPLY} {size}"] = _ours(places[:size])
            timings[f"mock {size}"] = _mock(places[:size])
        samples = interleave(timings, budget.rounds(5), collecting=True)
    found = []
    for size in sizes:
        limit = TimeLimit(PER_PATCH * size) if size >= few else None
        ours, theirs = samples[f"{APPLY} {size}"], samples[f"mock {size}"]
        what, alternative = f"{APPLY}, {size:,} patches", "mock.patch.object, start"
        found.append(compare(SUBJECT, what, alternative, ours, theirs, budget=budget, limit=limit))
    ours, theirs = (samples[f"{APPLY} {size}"].scaled(1 / size) for size in (many, few))
    what, alternative = f"{APPLY}, per patch of {many:,}", f"per patch of {few:,}"
    return [*found, compare(SUBJECT, what, alternative, ours, theirs, budget=budget, limit=LINEAR)]


def _ours(places: Sequence[Place]) -> Timing:
    patches = [
        pc.Patch(f"{p.module}.{p.name}", [pc.Replace(f"{p.module}:{p.name}", _replacement(p.name))]) for p in places
    ]

    def timing() -> float:
        patcher = pc.Patcher(patches, strict=True)
        try:
            return wall(patcher.apply)
        finally:
            patcher.revert()

    return timing


def _mock(places: Sequence[Place]) -> Timing:
    patchers = [mock.patch.object(sys.modules[p.module], p.name, _replacement(p.name)) for p in places]

    def start() -> None:
        for patcher in patchers:
            patcher.start()

    def timing() -> float:
        try:
            return wall(start)
        finally:
            mock.patch.stopall()

    return timing


def _replacement(name: str) -> Callable[..., Any]:
    def replacement(x: Any, y: int = 0) -> Any:
        return x

    replacement.__name__ = replacement.__qualname__ = name
    return replacement


@contextmanager
def _package(modules: int) -> Iterator[list[str]]:
    """Write a package and import its modules; yield their names."""
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as folder:
        sys.path.insert(0, folder)
        try:
            write_package(Path(folder), LIBRARY, modules=modules, functions=FUNCTIONS_PER_MODULE)
            names = module_names(LIBRARY, modules)
            for name in names:
                importlib.import_module(name)
            yield names
        finally:
            sys.path.remove(folder)
