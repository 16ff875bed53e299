"""What a call costs through what patchcore puts in a slot: nothing, a wrapper, or a dispatcher.

Every variant patches a module of its own with the same functions, so that none warms up or slows down another's.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any, Callable, NamedTuple

import patchcore as pc
from benchmarks.measure import interleave, statement
from benchmarks.rows import Budget, Identity, Limit, RatioLimit, Row, compare

SUBJECT = "calls"
#: Added cost of a Wrap of any parameters, of the original's own, and of everywhere=True, over that of a closure; and of
#: when_call over that of a generic try/except dispatcher.
WRAP_LIMIT, OWN_LIMIT, EVERYWHERE_LIMIT, DISPATCH_LIMIT = map(RatioLimit, (1.6, 0.6, 0.6, 0.5))
DIRECT, OURS = "direct call", "patchcore"

_SOURCE = """
def combine(x, y):
    return x

def resize(*, size, mode="nearest"):
    return size

class Layer:
    def forward(self, x, scale=1.0, bias=None):
        return x
"""


class Shape(NamedTuple):
    """A kind of callable.

    Args:
        name: what the table calls it.
        path: where it lives in its module.
        call: the call that is timed, as source.
        yes, no: predicates with its parameters.
        wrapper: passes its arguments on, and declares the same parameters.
    """

    name: str
    path: str
    call: str
    yes: Callable[..., bool]
    no: Callable[..., bool]
    wrapper: Callable[..., Any]


SHAPES = (
    Shape(
        "function of 2",
        "combine",
        "combine(1, 2)",
        lambda x, y: True,
        lambda x, y: False,
        lambda original, x, y: original(x, y),
    ),
    Shape(
        "method with defaults",
        "Layer.forward",
        "layer.forward(1)",
        lambda self, x, scale=1.0, bias=None: True,
        lambda self, x, scale=1.0, bias=None: False,
        lambda original, self, x, scale=1.0, bias=None: original(self, x, scale, bias),
    ),
    Shape(
        "keyword-only function",
        "resize",
        "resize(size=1)",
        lambda *, size, mode="nearest": True,
        lambda *, size, mode="nearest": False,
        lambda original, *, size, mode="nearest": original(size=size, mode=mode),
    ),
)
FUNCTION, METHOD, _ = SHAPES

#: Puts something in the place of ``path`` in a module.
Install = Callable[[ModuleType, str], None]


def rows(budget: Budget) -> list[Row]:
    """Time calls of a patched function against the same call unpatched and patched by others."""
    declared = "wrapper with the original's own parameters"
    return [
        *(_replace_row(shape, budget) for shape in (FUNCTION, METHOD)),
        *(_everywhere_row(shape, budget) for shape in (FUNCTION, METHOD)),
        *(_wrap_row("wrapper of any arguments", _wrapper, shape, WRAP_LIMIT, budget) for shape in (FUNCTION, METHOD)),
        *(_wrap_row(declared, shape.wrapper, shape, OWN_LIMIT, budget) for shape in SHAPES),
        *(_dispatch_row(shape, answer, budget) for shape in SHAPES for answer in (True, False)),
    ]


def _replace_row(shape: Shape, budget: Budget) -> Row:
    """Compare a call through a slot with one of the replacement where it is defined."""
    replacement = _namesake_module("replacement")
    patched = _namesake_module("replaced")
    _patch(pc.Replace(_target(patched, shape), _raw(replacement, shape.path)))
    timings = {"slot": _calling(patched, shape, budget), "direct": _calling(replacement, shape, budget)}
    samples = interleave(timings, budget.rounds(40))
    identity = Identity(_raw(patched, shape.path) is _raw(replacement, shape.path))
    what, alternative = f"Replace, {shape.name}", "the replacement called where it is defined"
    return compare(SUBJECT, what, alternative, samples["slot"], samples["direct"], budget=budget, limit=identity)


def _everywhere_row(shape: Shape, budget: Budget) -> Row:
    replacement = _raw(_namesake_module("everywhere"), shape.path)

    def ours(module: ModuleType, path: str) -> None:
        _patch(pc.Replace(_target(module, shape), replacement, everywhere=True))

    def theirs(module: ModuleType, path: str) -> None:
        _put(module, path, _closure(replacement))

    what = f"Replace everywhere, {shape.name}"
    return _added_row(what, shape, ours, "hand-written closure", theirs, EVERYWHERE_LIMIT, budget)


def _wrap_row(what: str, wrapper: Callable[..., Any], shape: Shape, limit: Limit, budget: Budget) -> Row:
    def ours(module: ModuleType, path: str) -> None:
        _patch(pc.Wrap(_target(module, shape), wrapper))

    def theirs(module: ModuleType, path: str) -> None:
        _put(module, path, _closure(_raw(module, path)))

    return _added_row(f"Wrap, {what}, {shape.name}", shape, ours, "hand-written closure", theirs, limit, budget)


def _dispatch_row(shape: Shape, answer: bool, budget: Budget) -> Row:
    replacement = _raw(_namesake_module("kernels"), shape.path)
    # a dispatcher without a predicate can only find out by an exception that the replacement does not fit
    fitting = replacement if answer else _refuse

    def ours(module: ModuleType, path: str) -> None:
        _patch(pc.Replace(_target(module, shape), replacement, when_call=shape.yes if answer else shape.no))

    def theirs(module: ModuleType, path: str) -> None:
        _put(module, path, _try_except(_raw(module, path), fitting))

    what = f"when_call {str(answer).lower()}, {shape.name}"
    return _added_row(what, shape, ours, "generic try/except dispatcher", theirs, DISPATCH_LIMIT, budget)


def _added_row(
    what: str, shape: Shape, ours: Install, alternative: str, theirs: Install, limit: Limit, budget: Budget
) -> Row:
    """Compare what patchcore adds to a direct call with what the alternative adds."""
    modules = {name: _namesake_module(name) for name in (DIRECT, OURS, alternative)}
    for name, install in ((OURS, ours), (alternative, theirs)):
        install(modules[name], shape.path)
    samples = interleave({name: _calling(m, shape, budget) for name, m in modules.items()}, budget.rounds(40))
    added = [samples[name].minus(samples[DIRECT]) for name in (OURS, alternative)]
    return compare(SUBJECT, f"{what}: added per call", alternative, *added, budget=budget, limit=limit)


def _calling(module: ModuleType, shape: Shape, budget: Budget) -> Callable[[], float]:
    names = {"combine": module.combine, "resize": module.resize, "layer": module.Layer()}
    return statement(shape.call, names, seconds=1e-3 if budget.quick else 3e-3)


_made: list[ModuleType] = []


def _namesake_module(name: str) -> ModuleType:
    """Return a new importable module with the functions that are patched."""
    module = ModuleType(f"benchmarked_{len(_made)}", f"Functions for {name}.")
    exec(_SOURCE, module.__dict__)
    sys.modules[module.__name__] = module
    _made.append(module)
    return module


def _target(module: ModuleType, shape: Shape) -> str:
    return f"{module.__name__}:{shape.path}"


def _owner(module: ModuleType, path: str) -> Any:
    return module.Layer if "." in path else module


def _raw(module: ModuleType, path: str) -> Any:
    return vars(_owner(module, path))[path.rpartition(".")[2]]


def _put(module: ModuleType, path: str, value: Any) -> None:
    setattr(_owner(module, path), path.rpartition(".")[2], value)


def _patch(change: pc.Replace | pc.Wrap) -> None:
    patch = pc.Patch(f"benchmark.calls_{change.target.module}", [change])
    report = pc.Patcher([patch], strict=True).apply()
    assert report[patch.name].status == "applied", report


def _wrapper(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs)


def _closure(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def closure(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return closure


def _try_except(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def dispatcher(*args: Any, **kwargs: Any) -> Any:
        try:
            return replacement(*args, **kwargs)
        except Exception:
            return original(*args, **kwargs)

    return dispatcher


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError
