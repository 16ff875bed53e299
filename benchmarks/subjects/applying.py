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
SIZES = (10, 100, 1_000)
#: Costs per patch are compared with those at this size.
BASE = 100
#: In seconds.
PER_PATCH, REVERT_PER_PATCH = 60e-6, 25e-6
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
            timings[f"{APPLY} {size}"] = _applying(_replacements(places[:size]))
            timings[f"mock {size}"] = _mock(places[:size])
        timings["wrap"] = _applying(_wraps(places))
        timings["revert"] = _reverting(_wraps(places))
        timings["mock revert"] = _unmock(places)
        samples = interleave(timings, budget.rounds(5), collecting=True)
    found = []
    for size in sizes:
        limit = TimeLimit(PER_PATCH * size) if size == many else None
        ours, theirs = samples[f"{APPLY} {size}"], samples[f"mock {size}"]
        what, alternative = f"{APPLY}, {size:,} patches", "mock.patch.object, start"
        found.append(compare(SUBJECT, what, alternative, ours, theirs, budget=budget, limit=limit))
    ours, theirs = (samples[f"{APPLY} {size}"].scaled(1 / size) for size in (many, few))
    what, alternative = f"{APPLY}, per patch of {many:,}", f"per patch of {few:,}"
    return [
        *found,
        compare(SUBJECT, what, alternative, ours, theirs, budget=budget, limit=LINEAR),
        compare(
            SUBJECT,
            f"{APPLY}, {many:,} Wraps",
            "mock.patch.object, start",
            samples["wrap"],
            samples[f"mock {many}"],
            budget=budget,
            limit=TimeLimit(PER_PATCH * many),
        ),
        compare(
            SUBJECT,
            f"revert, {many:,} Wraps",
            "mock.patch.object, stop",
            samples["revert"],
            samples["mock revert"],
            budget=budget,
            limit=TimeLimit(REVERT_PER_PATCH * many),
        ),
    ]


def _replacements(places: Sequence[Place]) -> list[pc.Patch]:
    return [_patch(p, pc.Replace(f"{p.module}:{p.name}", _replacement(p.name))) for p in places]


def _wraps(places: Sequence[Place]) -> list[pc.Patch]:
    def wrapper(original: Callable[..., Any], x: Any, y: int = 0) -> Any:
        return original(x, y)

    return [_patch(p, pc.Wrap(f"{p.module}:{p.name}", wrapper)) for p in places]


def _patch(place: Place, change: pc.Change) -> pc.Patch:
    return pc.Patch(f"{place.module}.{place.name}", [change])


def _applying(patches: Sequence[pc.Patch]) -> Timing:
    def timing() -> float:
        patcher = pc.Patcher(patches, strict=True)
        try:
            return wall(patcher.apply)
        finally:
            patcher.revert()

    return timing


def _reverting(patches: Sequence[pc.Patch]) -> Timing:
    def timing() -> float:
        patcher = pc.Patcher(patches, strict=True)
        patcher.apply()
        return wall(patcher.revert)

    return timing


def _mock(places: Sequence[Place]) -> Timing:
    start = _starting(places)

    def timing() -> float:
        try:
            return wall(start)
        finally:
            mock.patch.stopall()

    return timing


def _unmock(places: Sequence[Place]) -> Timing:
    start = _starting(places)

    def timing() -> float:
        start()
        return wall(mock.patch.stopall)

    return timing


def _starting(places: Sequence[Place]) -> Callable[[], None]:
    patchers = [mock.patch.object(sys.modules[p.module], p.name, _replacement(p.name)) for p in places]

    def start() -> None:
        for patcher in patchers:
            patcher.start()

    return start


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
