"""What a call costs through what patchcore puts in a slot: nothing, a wrapper, or a dispatcher.

Every variant patches a module of its own with the same functions, so that none warms up or slows down another's.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Callable, NamedTuple, Optional
from unittest import mock

import patchcore as pc
from benchmarks.measure import Samples, interleave, statement
from benchmarks.rows import Budget, Identity, Limit, RatioLimit, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "calls"
#: Added cost of a Wrap over that of a closure, and of when_call over that of a generic try/except dispatcher.
WRAP_LIMIT, DISPATCH_LIMIT = RatioLimit(1.5), RatioLimit(0.4)
DIRECT, OURS = "direct call", "patchcore"
CLOSURE = "hand-written closure"

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
    found = [_replace_row(shape, budget) for shape in (FUNCTION, METHOD)]
    for shape in (FUNCTION, METHOD):
        found += _wrap_rows(shape, budget)
    for shape in SHAPES:
        found += _declared_wrap_rows(shape, budget)
    for shape in SHAPES:
        found += _dispatch_rows(shape, budget)
    for shape in (FUNCTION, METHOD):
        found += _count_rows(shape, budget)
    return found


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


def _wrap_rows(shape: Shape, budget: Budget) -> list[Row]:
    installs: dict[str, Install] = {
        OURS: lambda module, path: _patch(pc.Wrap(f"{module.__name__}:{path}", _wrapper)),
        CLOSURE: lambda module, path: _put(module, path, _closure(_raw(module, path))),
        "mock.patch.object, autospec": _mock,
    }
    wrapt_name = "wrapt.FunctionWrapper" if shape is FUNCTION else "wrapt.wrap_function_wrapper"
    without_wrapt = missing("wrapt")
    if without_wrapt is None:
        installs[wrapt_name] = _wrapt_function if shape is FUNCTION else _wrapt_path
    what = f"Wrap, wrapper of any arguments, {shape.name}: added per call"
    found = _added_rows(what, shape, installs, budget, limits={CLOSURE: WRAP_LIMIT})
    return found if without_wrapt is None else [*found, skipped(SUBJECT, what, wrapt_name, without_wrapt)]


def _declared_wrap_rows(shape: Shape, budget: Budget) -> list[Row]:
    installs: dict[str, Install] = {
        OURS: lambda module, path: _patch(pc.Wrap(f"{module.__name__}:{path}", shape.wrapper)),
        CLOSURE: lambda module, path: _put(module, path, _closure(_raw(module, path))),
    }
    what = f"Wrap, wrapper with the original's own parameters, {shape.name}: added per call"
    return _added_rows(what, shape, installs, budget, limits={CLOSURE: WRAP_LIMIT})


def _dispatch_rows(shape: Shape, budget: Budget) -> list[Row]:
    found: list[Row] = []
    for answer, predicate in (("true", shape.yes), ("false", shape.no)):
        replacement = _raw(_namesake_module("kernels"), shape.path)
        # a dispatcher that asks nobody can only find out by an exception that the replacement does not fit
        fitting = replacement if answer == "true" else _refuse
        by_exception, by_predicate = "generic try/except dispatcher", "generic dispatcher with the same predicate"
        installs: dict[str, Install] = {
            OURS: lambda module, path, r=replacement, p=predicate: _patch(  # type: ignore[misc]
                pc.Replace(f"{module.__name__}:{path}", r, when_call=p)
            ),
            by_exception: lambda module, path, r=fitting: _put(  # type: ignore[misc]
                module, path, _try_except(_raw(module, path), r)
            ),
            by_predicate: lambda module, path, r=replacement, p=predicate: _put(  # type: ignore[misc]
                module, path, _ask_first(_raw(module, path), r, p)
            ),
        }
        what = f"when_call {answer}, {shape.name}: added per call"
        found += _added_rows(what, shape, installs, budget, limits={by_exception: DISPATCH_LIMIT})
    return found


def _count_rows(shape: Shape, budget: Budget) -> list[Row]:
    """Compare what counting adds to a direct call with a closure that counts, and to a dispatcher with nothing."""
    replacement = _raw(_namesake_module("counted kernels"), shape.path)
    installs: dict[str, Install] = {
        OURS: lambda module, path: _patch(pc.Replace(f"{module.__name__}:{path}", replacement), count=True),
        "hand-written closure that counts": lambda module, path: _put(module, path, _counting_closure(replacement)),
    }
    found = _added_rows(f"Replace counted, {shape.name}: added per call", shape, installs, budget)
    modules = {name: _namesake_module(name) for name in ("counted", "uncounted")}
    for name, module in modules.items():
        _patch(pc.Replace(_target(module, shape), replacement, when_call=shape.yes), count=name == "counted")
    samples = interleave({name: _calling(m, shape, budget) for name, m in modules.items()}, budget.rounds(40))
    what = f"when_call true counted, {shape.name}"
    return [*found, compare(SUBJECT, what, "uncounted", samples["counted"], samples["uncounted"], budget=budget)]


def _added_rows(
    what: str,
    shape: Shape,
    installs: Mapping[str, Install],
    budget: Budget,
    limits: Optional[Mapping[str, Limit]] = None,
) -> list[Row]:
    """Compare what patchcore adds to a direct call with what each of the others adds."""
    modules = {name: _namesake_module(name) for name in (DIRECT, *installs)}
    for name, install in installs.items():
        install(modules[name], shape.path)
    timings = {name: _calling(module, shape, budget) for name, module in modules.items()}
    samples = interleave(timings, budget.rounds(40))
    added: dict[str, Samples] = {name: samples[name].minus(samples[DIRECT]) for name in installs}
    return [
        compare(SUBJECT, what, name, added[OURS], added[name], budget=budget, limit=(limits or {}).get(name))
        for name in installs
        if name != OURS
    ]


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


def _patch(change: pc.Replace | pc.Wrap, *, count: bool = False) -> None:
    patch = pc.Patch(f"benchmark.calls_{change.target.module}", [change])
    report = pc.Patcher([patch], strict=True, count=count).apply()
    assert report[patch.name].status == "applied", report


def _wrapper(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs)


def _closure(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def closure(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return closure


def _counting_closure(function: Callable[..., Any]) -> Callable[..., Any]:
    calls = 0

    @functools.wraps(function)
    def closure(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        return function(*args, **kwargs)

    return closure


def _mock(module: ModuleType, path: str) -> None:
    # with autospec a method's mock gets self, without it there is nothing to hand to the original
    original = _raw(module, path)
    mock.patch.object(_owner(module, path), path.rpartition(".")[2], autospec=True, side_effect=original).start()


def _wrapt_wrapper(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _wrapt_function(module: ModuleType, path: str) -> None:
    import wrapt

    _put(module, path, wrapt.FunctionWrapper(_raw(module, path), _wrapt_wrapper))


def _wrapt_path(module: ModuleType, path: str) -> None:
    import wrapt

    wrapt.wrap_function_wrapper(module, path, _wrapt_wrapper)


def _try_except(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def dispatcher(*args: Any, **kwargs: Any) -> Any:
        try:
            return replacement(*args, **kwargs)
        except Exception:
            return original(*args, **kwargs)

    return dispatcher


def _ask_first(
    original: Callable[..., Any], replacement: Callable[..., Any], predicate: Callable[..., bool]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def dispatcher(*args: Any, **kwargs: Any) -> Any:
        if predicate(*args, **kwargs):
            return replacement(*args, **kwargs)
        return original(*args, **kwargs)

    return dispatcher


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError
