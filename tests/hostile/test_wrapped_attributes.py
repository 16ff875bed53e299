"""What others ask a function for is answered by its wrapper, its dispatcher and its counter in the same way."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from typing import Any, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patchcore as pc

LIBRARY = """
import functools, types

def plain(x, y=2): return "plain", x, y

async def coroutine(x, y=2):
    return "coroutine", x, y

def generator(x, y=2):
    got = yield x
    try:
        got = yield y, got
    except KeyError as error:
        got = yield repr(error)
    return "generator", x, y, got

async def async_generator(x, y=2):
    got = yield x
    try:
        got = yield y, got
    except KeyError as error:
        got = yield repr(error)
    finally:
        closed.append((x, y))
    if got == "fail":
        raise ZeroDivisionError

closed = []

@types.coroutine
def old_coroutine(x, y=2):
    yield
    return "old_coroutine", x, y

partial_coroutine = functools.partial(coroutine, y=3)
partial_generator = functools.partial(generator, y=3)

@functools.lru_cache(maxsize=7)
def cached(x): return "cached", x

@functools.singledispatch
def single(x): return "object", x

class Task:
    '''A callable object with methods, and attributes of its own.'''
    retries = property(lambda self: 1 / 0)
    def __init__(self, label): self.label = label
    def __call__(self, x): return self.label, x
    def delay(self, x): return "delayed", x
    @classmethod
    def named(cls): return cls.__name__

task = Task("task")

class Owner:
    async def coroutine(self, x): return type(self), x
    @classmethod
    async def of_class(cls, x): return cls, x
    @staticmethod
    async def static(x): return x
    def generator(self, x): yield x
    async def async_generator(self, x): yield x
    cached = functools.lru_cache(lambda self, x: x)
    partial = functools.partialmethod(coroutine, 1)
"""
KINDS = [
    "plain",
    "coroutine",
    "generator",
    "async_generator",
    "old_coroutine",
    "partial_coroutine",
    "partial_generator",
]
QUESTIONS: list[Callable[[Any], bool]] = [
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
    asyncio.iscoroutinefunction,
]


@pytest.fixture
def lib(make_package: Any) -> Any:
    make_package({"asked": LIBRARY})
    import asked

    return asked


def through(original: Any, *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs)


def factory(original: Any) -> Any:
    return functools.wraps(original)(lambda *args, **kwargs: original(*args, **kwargs))


def changes_of(target: str, original: Any) -> dict[str, pc.Change]:
    return {
        "wrapped": pc.Wrap(target, through),
        "chosen": pc.Replace(target, original, when_call=lambda *args, **kwargs: True),
        "not chosen": pc.Replace(target, original, when_call=lambda *args, **kwargs: False),
        "replaced": pc.Replace(target, factory=lambda found: found if inspect.isfunction(found) else factory(found)),
    }


def answers(function: Any) -> list[bool]:
    return [question(function) for question in QUESTIONS]


def run(function: Any, *args: Any) -> Any:
    """What a function of any kind does, step by step."""
    made = function(*args)
    if inspect.isasyncgen(made):
        return asyncio.run(_drain(made))
    if inspect.isgenerator(made) and not inspect.isawaitable(made):
        found = [next(made), made.send("sent"), made.throw(KeyError("thrown"))]
        with pytest.raises(StopIteration) as stopped:
            made.send("last")
        return [*found, stopped.value.value]
    return asyncio.run(_awaited(made)) if inspect.isawaitable(made) else made


async def _awaited(made: Any) -> Any:
    return await made


async def _drain(made: Any) -> Any:
    found = [await made.__anext__(), await made.asend("sent"), await made.athrow(KeyError("thrown"))]
    with pytest.raises(ZeroDivisionError):
        await made.asend("fail")
    return found


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_a_function_of_any_kind_is_of_that_kind_when_patched(lib: Any, name: str, count: bool) -> None:
    original = getattr(lib, name)
    before, signature, gives = answers(original), inspect.signature(original), run(original, 1)
    for what, change in changes_of(f"asked:{name}", original).items():
        if what == "replaced" and isinstance(original, functools.partial):
            continue  # what a factory makes is what its author makes of it
        with pc.Patcher([pc.Patch("p", change)], strict=True, count=count) as patcher:
            made = getattr(lib, name)
            assert answers(made) == before, what
            assert inspect.signature(made) == signature
            assert run(made, 1) == gives
            if not isinstance(original, functools.partial):
                with pytest.raises(TypeError):  # at the call, as of the original
                    made(nonsense=1)
                # a plain wrapper has been called by then
                calls = 2 if (name, what) == ("plain", "wrapped") else 1
                assert patcher.report().patches[0].calls == (calls if count else None)
    assert getattr(lib, name) is original


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("name", ["coroutine", "of_class", "static", "generator", "async_generator", "partial"])
def test_a_method_of_any_kind_is_of_that_kind_when_patched(lib: Any, name: str, count: bool) -> None:
    def ask() -> list[Any]:
        return [answers(getattr(owner, name)) for owner in (lib.Owner, lib.Owner())]

    before = ask()
    for change in list(changes_of(f"asked:Owner.{name}", lib.plain).values())[:3]:
        with pc.Patcher([pc.Patch("p", change)], strict=True, count=count):
            assert ask() == before
            assert inspect.signature(getattr(lib.Owner(), name))
    assert ask() == before


def test_nothing_of_a_wrapper_runs_before_the_original_would(lib: Any) -> None:
    ran: list[str] = []

    def around(original: Any, *args: Any, **kwargs: Any) -> Any:
        ran.append("wrapper")
        return original(*args, **kwargs)

    for name in ("coroutine", "generator", "async_generator"):
        ran.clear()
        with pc.Patcher([pc.Patch("p", pc.Wrap(f"asked:{name}", around))], strict=True):
            made = getattr(lib, name)(1)
            assert not ran
            if inspect.iscoroutine(made):
                made.close()
            else:
                run(lambda made=made: made)
                assert ran == ["wrapper"]


def test_a_closed_asynchronous_generator_closes_the_original(lib: Any) -> None:
    async def use() -> None:
        made = lib.async_generator(1)
        assert await made.__anext__() == 1
        await made.aclose()
        assert lib.closed == []  # it was not inside the try
        made = lib.async_generator(1)
        await made.__anext__()
        await made.asend(None)
        await made.aclose()
        assert lib.closed == [(1, 2)]
        await lib.async_generator(1).aclose()

    with pc.Patcher([pc.Patch("p", pc.Wrap("asked:async_generator", through))], strict=True):
        asyncio.run(use())


@given(st.lists(st.sampled_from(["next", "send", "throw", "close", "unknown"]), max_size=5))
def test_an_asynchronous_generator_is_driven_as_the_original_is(steps: list[str]) -> None:
    from patchcore.objects.generated import of_kind

    async def original(x: int) -> Any:
        while True:
            try:
                got = yield x
                x = x + 1 if got is None else got
            except KeyError:
                x = -1

    async def drive(made: Any) -> list[Any]:
        found: list[Any] = []
        for step in steps:
            try:
                if step == "next":
                    found.append(await made.__anext__())
                elif step == "send":
                    found.append(await made.asend(7))
                elif step == "close":
                    found.append(await made.aclose())
                else:
                    found.append(await made.athrow(KeyError() if step == "throw" else ValueError()))
            except (StopAsyncIteration, KeyError, ValueError, TypeError) as error:
                found.append(type(error))
        return found

    expected = asyncio.run(drive(original(1)))
    assert asyncio.run(drive(of_kind(lambda x: original(x), original)(1))) == expected


def test_the_wrapper_may_be_of_that_kind_itself(lib: Any) -> None:
    async def coroutine(original: Any, *args: Any, **kwargs: Any) -> Any:
        return ("new", *await original(*args))

    def generator(original: Any, *args: Any, **kwargs: Any) -> Any:
        yield "new"
        yield from original(*args)

    async def async_generator(original: Any, *args: Any, **kwargs: Any) -> Any:
        yield "new"
        async for item in original(*args):
            yield item

    wraps = [pc.Wrap(f"asked:{f.__name__}", f) for f in (coroutine, generator, async_generator)]
    with pc.Patcher([pc.Patch("p", wraps)], strict=True):

        async def items() -> list[Any]:
            return [item async for item in lib.async_generator(1)]

        assert asyncio.run(lib.coroutine(1)) == ("new", "coroutine", 1, 2)
        assert list(lib.generator(1)) == ["new", 1, (2, None)]
        assert asyncio.run(items()) == ["new", 1, (2, None)]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="inspect.markcoroutinefunction")
def test_a_function_marked_as_a_coroutine_function_stays_marked(lib: Any) -> None:
    lib.marked = inspect.markcoroutinefunction(lambda x: lib.coroutine(x))
    with pc.Patcher([pc.Patch("p", pc.Wrap("asked:marked", through))], strict=True):
        assert inspect.iscoroutinefunction(lib.marked)
        assert not inspect.isgeneratorfunction(lib.marked)
        assert asyncio.run(lib.marked(1)) == ("coroutine", 1, 2)


@pytest.mark.parametrize("what", ["wrapped", "chosen", "not chosen"])
def test_a_cache_can_be_asked_and_cleared(lib: Any, what: str) -> None:
    original = lib.cached
    with pc.Patcher([pc.Patch("p", changes_of("asked:cached", original)[what])], strict=True):
        assert (lib.cached(1), lib.cached(1)) == (("cached", 1),) * 2
        assert lib.cached.cache_info() == (1, 1, 7, 1) == original.cache_info()
        lib.cached.cache_clear()
        assert original.cache_info().currsize == 0
        assert lib.cached.cache_parameters()["maxsize"] == 7
    with pc.Patcher([pc.Patch("p", changes_of("asked:Owner.cached", original)[what])], strict=True):
        lib.Owner.cached.cache_clear()
        lib.Owner().cached.cache_clear()


@pytest.mark.parametrize("what", ["wrapped", "not chosen"])
@pytest.mark.parametrize("count", [False, True])
def test_a_generic_function_takes_more_types_while_patched(lib: Any, what: str, count: bool) -> None:
    with pc.Patcher([pc.Patch("p", changes_of("asked:single", lib.single)[what])], strict=True, count=count):

        @lib.single.register
        def _(x: int) -> Any:
            return "int", x

        assert lib.single(1) == ("int", 1)
        assert lib.single.dispatch(int) is lib.single.registry[int]
    assert lib.single(1) == ("int", 1)


def test_a_callable_object_is_asked_for_its_methods_and_attributes(lib: Any) -> None:
    with pc.Patcher([pc.Patch("p", pc.Wrap("asked:task", through))], strict=True):
        assert lib.task(1) == ("task", 1)
        assert (lib.task.delay(2), lib.task.named(), lib.task.label) == (("delayed", 2), "Task", "task")
    for name in ("func", "args", "keywords"):
        with pc.Patcher([pc.Patch("p", pc.Wrap("asked:partial_coroutine", through))], strict=True):
            assert getattr(lib.partial_coroutine, name) == getattr(lib.partial_coroutine.__wrapped__, name)
