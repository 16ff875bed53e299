"""What watching imports costs the imports: of modules nobody watches, of watched ones, of patched ones."""

from __future__ import annotations

import contextlib
import importlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Callable

import patchcore as pc
from benchmarks.generated import function_name, module_names, write_package
from benchmarks.measure import Timing, interleave, wall
from benchmarks.rows import Budget, Row, compare, skipped
from benchmarks.subjects import missing
from patchcore.engine.importing import ImportWatch

SUBJECT = "import-watch"
MODULES = 300
WATCHED = 10
PACKAGE = "benchmarked_library"
PLAIN = "nobody watching"

#: Enters what is measured, for the time of the imports.
Setting = Callable[[], contextlib.AbstractContextManager[Any]]


def rows(budget: Budget) -> list[Row]:
    """Time the import of all modules of a package, again and again in one process, under each kind of watch."""
    modules, watched = budget.size(MODULES), budget.size(WATCHED)
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as folder:
        write_package(Path(folder), PACKAGE, modules=modules)
        names = module_names(PACKAGE, modules)
        chosen = names[:: modules // watched][:watched]
        other = ["benchmarked_elsewhere"]
        settings: dict[str, Setting] = {
            PLAIN: contextlib.nullcontext,
            "watch nothing": lambda: _watching(other),
            "watch some": lambda: _watching(chosen),
            "patch some": lambda: _patching(chosen),
        }
        without_wrapt = missing("wrapt")
        if without_wrapt is None:
            settings.update(
                {
                    "wrapt nothing": lambda: _wrapt_hooks(other, _ignore),
                    "wrapt some": lambda: _wrapt_hooks(chosen, _ignore),
                    "wrapt patch": lambda: _wrapt_hooks(chosen, _assign),
                }
            )
        sys.path.insert(0, folder)
        try:
            timings = {name: _importing(names, setting) for name, setting in settings.items()}
            samples = interleave(timings, budget.rounds(30))
        finally:
            sys.path.remove(folder)
            _forget()
    found = []
    package = f"import of {modules} modules"
    for name, doing, rival, alternative in (
        ("watch nothing", f"{package}, none watched", "wrapt nothing", "wrapt post-import hooks, none there"),
        ("watch some", f"{package}, {watched} watched", "wrapt some", "wrapt post-import hooks"),
        ("patch some", f"{package}, {watched} patched", "wrapt patch", "wrapt post-import hooks that assign"),
    ):
        found.append(compare(SUBJECT, doing, PLAIN, samples[name], samples[PLAIN], budget=budget))
        if without_wrapt is None:
            found.append(compare(SUBJECT, doing, alternative, samples[name], samples[rival], budget=budget))
        else:
            found.append(skipped(SUBJECT, doing, alternative, without_wrapt))
    return found


def _importing(names: Sequence[str], setting: Setting) -> Timing:
    def import_all() -> None:
        for name in names:
            importlib.import_module(name)

    def timing() -> float:
        _forget()
        with setting():
            return wall(import_all)

    return timing


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@contextlib.contextmanager
def _watching(names: Sequence[str]) -> Iterator[None]:
    told: list[str] = []
    watch = ImportWatch(lambda name, module, loaded: told.append(name))
    for name in names:
        watch.watch(name, told)
    try:
        yield
    finally:
        for name in names:
            watch.unwatch(name, told)
    assert told == [name for name in names if name in sys.modules]


@contextlib.contextmanager
def _patching(names: Sequence[str]) -> Iterator[None]:
    patches = [
        pc.Patch(f"benchmark.{name}", [pc.Replace(f"{name}:{function_name(0)}", _replacement)]) for name in names
    ]
    with pc.Patcher(patches, strict=True) as patcher:
        yield
        assert len(patcher.report().with_status("applied")) == len(names)


@contextlib.contextmanager
def _wrapt_hooks(names: Sequence[str], hook: Callable[[Any], None]) -> Iterator[None]:
    """Let wrapt watch; its finder stays on ``sys.meta_path`` for good, so it is put aside for the other variants."""
    import wrapt
    from wrapt.importer import ImportHookFinder

    told: list[str] = []

    def called(module: Any) -> None:
        told.append(module.__name__)
        hook(module)

    for name in names:
        wrapt.register_post_import_hook(called, name)
    finder = next((f for f in sys.meta_path if isinstance(f, ImportHookFinder)), None) or _put_aside[0]
    _put_aside[:] = [finder]
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
    assert told == [name for name in names if name in sys.modules]


_put_aside: list[Any] = []


def _ignore(module: Any) -> None:
    pass


def _assign(module: Any) -> None:
    setattr(module, function_name(0), _replacement)


def _replacement(x: Any, y: int = 0) -> Any:
    return x
