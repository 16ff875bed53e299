"""``when_call``: dispatchers with the parameters of the original, in which only the predicate decides."""

from __future__ import annotations

import functools
import inspect
import traceback
import types
from typing import Any, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchcore.errors import DeclarationError
from patchcore.objects.binding import dispatched_body, make_dispatcher
from patchcore.objects.bodies import body_of

DEFAULT = object()


def plain(a, b):
    return "original", a, b


def defaults(a, b=DEFAULT, c=(1, 2)):
    return "original", a, b, c


def keyword_only(a, *, b, c=DEFAULT, d):
    return "original", a, b, c, d


def positional_only(a, b=1, /, c=DEFAULT):
    return "original", a, b, c


def only_positional_only(a, b=DEFAULT, /):
    return "original", a, b


def everything(a, b=1, /, c=2, *args, d, e=DEFAULT, **kwargs):
    return "original", a, b, c, args, d, e, kwargs


def star_args(*args, **kwargs):
    return "original", args, kwargs


def no_parameters():
    return ("original",)


def annotated(a: int, b: str = "x", *args: float, c: bool = True, **kwargs: bytes) -> dict:
    return {"original": (a, b, args, c, kwargs)}


def clashing(predicate, replacement, original, dispatcher=1, self=2, args=3, kwargs=4):
    return "original", predicate, replacement, original, dispatcher, self, args, kwargs


_a_lambda = lambda x, y=DEFAULT: ("original", x, y)  # noqa: E731

CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (plain, (1, 2), {}),
    (plain, (1,), {"b": 2}),
    (defaults, (1,), {}),
    (defaults, (1,), {"c": 3}),
    (keyword_only, (1,), {"b": 2, "d": 4}),
    (keyword_only, (), {"a": 1, "b": 2, "c": 3, "d": 4}),
    (positional_only, (1,), {}),
    (positional_only, (1, 2), {"c": 3}),
    (only_positional_only, (1,), {}),
    (everything, (1,), {"d": 4}),
    (everything, (1, 2, 3, 4, 5), {"d": 6, "e": 7, "f": 8}),
    (star_args, (1, 2), {"c": 3}),
    (no_parameters, (), {}),
    (annotated, (1,), {}),
    (annotated, (1, "y", 2.0), {"c": False, "d": b""}),
    (clashing, (1, 2, 3), {}),
    (_a_lambda, (1,), {}),
]


def taken(function: Any, result: Any) -> Callable[..., Any]:
    """A function with the parameters of ``function`` that returns ``result``."""

    @functools.wraps(function)
    def fake(*args: Any, **kwargs: Any) -> Any:
        inspect.signature(function).bind(*args, **kwargs)
        return result(args, kwargs) if callable(result) else result

    return fake


@pytest.mark.parametrize("original", list(dict.fromkeys(call[0] for call in CALLS)))
def test_a_dispatcher_has_the_parameters_and_the_very_defaults_of_the_original(original: Any) -> None:
    made = make_dispatcher(original, taken(original, "new"), taken(original, True), in_class=False)
    assert made.__code__.co_filename == f"<patchcore dispatcher for {original.__module__}:{original.__qualname__}>"
    del made.__wrapped__  # the signature of the dispatcher itself
    assert inspect.signature(made) == inspect.signature(original)
    assert all(a is b for a, b in zip(made.__defaults__ or (), original.__defaults__ or ()))
    assert all(made.__kwdefaults__[key] is value for key, value in (original.__kwdefaults__ or {}).items())
    assert len(made.__defaults__ or ()) == len(original.__defaults__ or ())
    assert made.__name__ == original.__name__
    assert made.__annotations__ == original.__annotations__


@pytest.mark.parametrize(("original", "args", "kwargs"), CALLS)
def test_only_the_predicate_decides(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    answer: list[Any] = [True]
    made = make_dispatcher(original, taken(original, "new"), taken(original, lambda a, k: answer[0]), in_class=False)
    assert made(*args, **kwargs) == "new"
    answer[0] = False
    assert made(*args, **kwargs) == original(*args, **kwargs)
    answer[0] = 0  # anything that is true or false will do
    assert made(*args, **kwargs) == original(*args, **kwargs)


@pytest.mark.parametrize(("original", "args", "kwargs"), CALLS)
def test_predicate_and_replacement_get_the_bound_arguments(
    original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    seen: list[Any] = []

    def record(a: tuple[Any, ...], k: dict[str, Any]) -> bool:
        bound = inspect.signature(original).bind(*a, **k)
        bound.apply_defaults()
        seen.append(bound.arguments)
        return True

    make_dispatcher(original, taken(original, record), taken(original, record), in_class=False)(*args, **kwargs)
    expected = inspect.signature(original).bind(*args, **kwargs)
    expected.apply_defaults()
    assert seen == [expected.arguments, expected.arguments]


@pytest.mark.parametrize("generated", [True, False])
def test_an_exception_of_the_replacement_reaches_the_caller_and_the_original_is_not_called(generated: bool) -> None:
    called: list[str] = []

    def original(x: int) -> None:
        called.append("original")

    def replacement(x: int) -> None:
        called.append("replacement")
        raise RuntimeError("kernel failed")

    raw = original if generated else functools.partial(original)
    made = make_dispatcher(raw, replacement, lambda x: True, in_class=False)
    assert (made.__code__.co_varnames == ("x",)) is generated
    with pytest.raises(RuntimeError, match="kernel failed"):
        made(1)
    assert called == ["replacement"]


@pytest.mark.parametrize("generated", [True, False])
def test_an_exception_of_the_predicate_reaches_the_caller_and_nothing_is_called(generated: bool) -> None:
    called: list[int] = []
    raw = (lambda x: called.append(x)) if generated else functools.partial(called.append)
    made = make_dispatcher(raw, lambda x: called.append(x), lambda x: 1 / 0, in_class=False)
    with pytest.raises(ZeroDivisionError):
        made(1)
    assert called == []


class Instance:
    def __call__(self, *args: Any) -> Any:
        return ("instance", *args)


def test_a_replacement_that_takes_less_gets_just_what_the_caller_gave() -> None:
    def original(x, im2col_step=32):
        return "original", x, im2col_step

    made = make_dispatcher(original, lambda x: ("new", x), lambda x, **kwargs: True, in_class=False)
    assert made(1) == ("new", 1)
    assert inspect.signature(made) == inspect.signature(original)
    with pytest.raises(TypeError):
        made(1, im2col_step=4)  # the replacement has no such argument, and nobody hides that


def test_a_predicate_that_takes_less_gets_just_what_the_caller_gave() -> None:
    made = make_dispatcher(defaults, defaults, lambda a: True, in_class=False)
    assert made(1)[1] == 1


@pytest.mark.parametrize("original", [divmod, Instance(), functools.partial(divmod)])
def test_what_is_no_python_function_is_dispatched_too(original: Any) -> None:
    made = make_dispatcher(original, lambda a, b: "new", lambda a, b: a == 1, in_class=False)
    assert made(1, 2) == "new"
    assert made(7, 2) == original(7, 2)


def test_a_parameter_with_a_name_of_the_dispatcher_is_not_overlooked() -> None:
    def original(_pc_predicate, b):
        return _pc_predicate, b

    made = make_dispatcher(original, lambda x, y: "new", lambda x, y: x == "yes", in_class=False)
    assert made("yes", 2) == "new"
    assert made("no", 2) == ("no", 2)


def test_parameters_that_no_source_can_have_are_dispatched_too() -> None:
    code = plain.__code__.replace(co_varnames=("class", "b"))
    original = types.FunctionType(code, globals(), "odd")
    made = make_dispatcher(original, lambda x, y: "new", lambda x, y: x == 1, in_class=False)
    assert (made(1, 2), made(3, 4)) == ("new", ("original", 3, 4))


def test_a_signature_that_lies_does_not_lead_the_dispatcher_astray() -> None:
    def original(a, b=1):
        return "original", a, b

    original.__signature__ = inspect.Signature()
    made = make_dispatcher(original, lambda a, b=1: ("new", a, b), lambda a, b=1: b == 2, in_class=False)
    assert made(1) == ("original", 1, 1)
    assert made(1, b=2) == ("new", 1, 2)


def test_the_source_of_a_generated_dispatcher_is_shown_in_tracebacks_and_by_inspect() -> None:
    made = make_dispatcher(plain, plain, lambda a, b: 1 / 0, in_class=False)
    try:
        made(1, 2)
    except ZeroDivisionError:
        text = traceback.format_exc()
    assert "if _pc_predicate(a, b):" in text
    assert "def _pc_dispatcher(a, b):" in inspect.getsource(made.__code__)
    assert inspect.getsource(made) == inspect.getsource(plain)  # through __wrapped__


@pytest.mark.parametrize(
    ("raw", "replacement", "message"),
    [
        (3, len, r"when_call needs two callables, found 3 and"),
        (len, 3, r"when_call needs two callables"),
        (Instance, len, r"when_call cannot dispatch calls of the class Instance; use it on its methods instead"),
    ],
)
def test_what_cannot_be_dispatched_says_so(raw: Any, replacement: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        make_dispatcher(raw, replacement, lambda *args: True, in_class=False)


@st.composite
def _functions(draw: st.DrawFn, what: str) -> Callable[..., Any]:
    """A function with the parameters a to d in any order, some by keyword only; returns what it gets, by name."""
    names = draw(st.permutations("abcd"))
    keyword_only = draw(st.integers(0, 2))
    header = [f"{name}={name!r}" for name in names]
    header.insert(len(names) - keyword_only, "*") if keyword_only else None
    namespace: dict[str, Any] = {}
    exec(f"def function({', '.join(header)}): return {what!r}, dict(a=a, b=b, c=c, d=d)", namespace)
    function: Callable[..., Any] = namespace["function"]
    return function


@given(
    _functions("original"),
    _functions("replacement"),
    _functions("predicate"),
    st.lists(st.integers(), max_size=4),
    st.dictionaries(st.sampled_from("abcd"), st.integers()),
    st.booleans(),
    st.booleans(),
)
def test_each_function_gets_what_a_plain_call_would_give_it(
    original: Any, replacement: Any, predicate: Any, args: list[int], kwargs: dict[str, int], answer: bool, body: bool
) -> None:
    """By keyword each gets what was meant, whatever its order; by position each in its own order."""
    got = []

    def when(*args: Any, **kwargs: Any) -> bool:
        got.append(predicate(*args, **kwargs))
        return answer

    when.__signature__ = inspect.signature(predicate)  # type: ignore[attr-defined]

    def called(function: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            return "TypeError"

    expected = [called(predicate), called(replacement if answer else original)]
    if body:
        owner = body_of(original)
        made: Any = dispatched_body(original, owner.original, replacement, when, owner, in_class=False)
    else:
        made = make_dispatcher(original, replacement, when, in_class=False)
    assert called(original) == "TypeError" or "TypeError" in expected or [called(made), *got] == expected[::-1]
