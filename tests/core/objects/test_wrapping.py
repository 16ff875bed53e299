"""``Wrap`` with a wrapper that declares the parameters of the original itself: only the price of a call differs."""

from __future__ import annotations

import inspect
import sys
import traceback
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchcore.objects.binding import wrap_raw, wrapped_body
from patchcore.objects.bodies import body_of
from patchcore.objects.counting import Counter

DEFAULT = object()
GENERATED = "<patchcore wrapper for "


def plain(a, b):
    return "original", a, b


def defaults(a, b=DEFAULT, c=(1, 2)):
    return "original", a, b, c


def keyword_only(a, *, b, c=DEFAULT):
    return "original", a, b, c


def positional_only(a, b=1, /, c=DEFAULT):
    return "original", a, b, c


def no_parameters():
    return ("original",)


def clashing(original, wrapper, args=1, kwargs=2, self=3):
    return original, wrapper, args, kwargs, self


def around_plain(original, a, b):
    return "wrapper", a, b, original(a, b)


def around_defaults(original, a, b=DEFAULT, c=(1, 2)):
    return "wrapper", a, b, c, original(a, b, c)


def around_keyword_only(original, a, *, b, c=DEFAULT):
    return "wrapper", a, b, c, original(a, b=b, c=c)


def around_positional_only(original, a, b=1, /, c=DEFAULT):
    return "wrapper", a, b, c, original(a, b, c)


def around_no_parameters(original):
    return "wrapper", original()


def around_clashing(fn, original, wrapper, args=1, kwargs=2, self=3):
    return "wrapper", original, wrapper, args, kwargs, self, fn(original, wrapper)


def only_the_original_by_position(original, /, a, b):
    return "wrapper", a, b, original(a, b)


PAIRS = [
    (plain, around_plain),
    (defaults, around_defaults),
    (keyword_only, around_keyword_only),
    (positional_only, around_positional_only),
    (no_parameters, around_no_parameters),
    (clashing, around_clashing),
    (plain, only_the_original_by_position),
]
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3), {}),
    ((1, 2, 3, 4), {}),
    ((1,), {"b": 2}),
    ((), {"a": 1, "b": 2}),
    ((), {"a": 1, "b": 2, "c": 3}),
    ((1,), {"c": 3}),
    ((1,), {"b": 2, "c": None}),
    ((1, 2), {"original": 3}),
    ((), {"original": 1, "wrapper": 2}),
    ((1, 2), {"self": 3, "kwargs": 4}),
    ((1, 2), {"nothing": 3}),
]


def takes_anything(function: Any) -> bool:
    code = function.__code__
    return bool(code.co_flags & inspect.CO_VARARGS) and bool(code.co_flags & inspect.CO_VARKEYWORDS)


def result(call: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return call(*args, **kwargs)
    except TypeError:
        return TypeError


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(("original", "wrapper"), PAIRS)
def test_each_call_gives_what_the_wrapper_gives(original: Any, wrapper: Any, counted: bool) -> None:
    counter = Counter() if counted else None
    made = wrap_raw(original, wrapper, in_class=False, counter=counter)
    assert type(made) is types.FunctionType
    assert made.__code__.co_filename == f"{GENERATED}{__name__}:{original.__name__}>"
    accepted = 0
    for args, kwargs in CALLS:
        expected = result(wrapper, original, *args, **kwargs)
        found = result(made, *args, **kwargs)
        assert found == expected
        if expected is not TypeError:
            accepted += 1
            assert all(mine is theirs for mine, theirs in zip(found, expected) if type(mine) is not tuple)
    assert accepted
    assert counter is None or counter.calls == accepted


@pytest.mark.parametrize(("original", "wrapper"), PAIRS)
def test_the_function_in_the_slot_has_the_parameters_and_names_of_the_original(original: Any, wrapper: Any) -> None:
    made = wrap_raw(original, wrapper, in_class=False)
    assert (made.__name__, made.__qualname__, made.__module__) == (original.__name__, original.__qualname__, __name__)
    assert made.__wrapped__ is original
    assert inspect.signature(made) == inspect.signature(original)
    assert inspect.getsource(made) == inspect.getsource(original)
    assert f"def _pc_wrapper{inspect.signature(original)}:".partition("(")[0] in inspect.getsource(made.__code__)
    del made.__wrapped__
    assert inspect.signature(made) == inspect.signature(original)


@pytest.mark.parametrize(
    ("original", "wrapper"),
    [
        (plain, lambda original, *args, **kwargs: (args, kwargs)),
        (plain, lambda original, a, *args: (a, args)),
        (plain, lambda original, a, **kwargs: (a, kwargs)),
        (plain, lambda original, a, c: (a, c)),
        (plain, lambda original, b, a: (a, b)),
        (plain, lambda original, a, b=2: (a, b)),
        (plain, lambda original, a, *, b: (a, b)),
        (plain, lambda original, a, b, /: (a, b)),
        (plain, lambda original=None, a=1, b=2: (a, b)),
        (defaults, lambda original, a, b, c: (a, b, c)),
        (defaults, lambda original=None, a=1, b=DEFAULT, c=(1, 2): (a, b, c)),
        (lambda a=1: a, lambda original=None, a=1: a),
        (keyword_only, lambda original, a, *, c=DEFAULT, b: (a, b, c)),
        (positional_only, lambda original, a, b=1, c=DEFAULT: (a, b, c)),
        (divmod, lambda original, x, y: (x, y)),
    ],
)
def test_a_wrapper_with_other_parameters_gets_just_what_the_caller_passed(original: Any, wrapper: Any) -> None:
    made = wrap_raw(original, wrapper, in_class=False)
    assert takes_anything(made)
    for args, kwargs in CALLS:
        assert result(made, *args, **kwargs) == result(wrapper, original, *args, **kwargs)


@given(
    required=st.integers(0, 10),
    optional=st.integers(0, 10),
    any_more=st.booleans(),
    count=st.integers(0, 24),
    names=st.sets(st.sampled_from(["a0", "a1", "a9", "_pc_0", "_pc_rest", "original", "other"])),
    as_body=st.booleans(),
)
def test_a_wrapper_of_any_arguments_gets_by_position_and_by_name_what_the_caller_passed_so(
    required: int, optional: int, any_more: bool, count: int, names: set[str], as_body: bool
) -> None:
    header = [f"a{i}" if i < required else f"a{i}=None" for i in range(required + optional)]
    scope: dict[str, Any] = {}
    exec(f"def original({', '.join([*header, *(['*more'] if any_more else [])])}): ...", scope)
    made = made_of(scope["original"], lambda _, /, *args, **kwargs: (args, kwargs), as_body=as_body)
    args = tuple(object() for _ in range(count))
    assert made(*args, **dict.fromkeys(names, 1)) == (args, dict.fromkeys(names, 1))
    assert list(made(*args, b=1, a=2)[1]) == ["b", "a"]


def made_of(original: Any, wrapper: Any, *, as_body: bool) -> Any:
    """Return a function that calls the wrapper: another one, or the original with another body."""
    if not as_body:
        return wrap_raw(original, wrapper, in_class=False)
    body = body_of(original)
    body.write(wrapped_body(body.read(), wrapper, body), in_class=False)
    return original


def test_a_builtin_gets_its_arguments_as_they_were_passed() -> None:
    made = wrap_raw(max, lambda original, *args, **kwargs: (args, kwargs, original(*args, **kwargs)), in_class=False)
    assert made(1, 2) == ((1, 2), {}, 2)
    assert made([], default=3) == (([],), {"default": 3}, 3)
    assert made(*range(20)) == (tuple(range(20)), {}, 19)


def test_a_wrapper_that_is_no_python_function_gets_just_what_the_caller_passed() -> None:
    class Wrapper:
        def __call__(self, original: Any, a: Any, b: Any) -> Any:
            return "wrapper", a, b

        def method(self, original: Any, a: Any, b: Any) -> Any:
            return "wrapper", a, b

    for wrapper in (Wrapper(), Wrapper().method, types.MethodType(around_plain, plain)):
        made = wrap_raw(plain, wrapper, in_class=False)
        assert takes_anything(made)
        for args, kwargs in CALLS:
            assert result(made, *args, **kwargs) == result(wrapper, plain, *args, **kwargs)


def test_a_wrapper_gets_its_own_default_where_that_of_the_original_differs() -> None:
    def original(x, scale=1.0):
        return x, scale

    def wrapper(original, x, scale=2.0):
        return "wrapper", original(x, scale)

    made = wrap_raw(original, wrapper, in_class=False)
    assert not takes_anything(made)
    assert made(1) == wrapper(original, 1) == ("wrapper", (1, 2.0))
    original.__defaults__ = (3.0,)  # the wrapper never saw them
    assert made(1) == wrapper(original, 1) == ("wrapper", (1, 2.0))
    assert inspect.signature(made).parameters["scale"].default == 3.0


def test_keyword_only_defaults_of_the_wrapper_are_its_own() -> None:
    def original(*, size=1):
        return size

    def wrapper(original, *, size=2):
        return original(size=size)

    made = wrap_raw(original, wrapper, in_class=False)
    assert made() == 2
    made.__kwdefaults__["size"] = 5  # of this function alone
    assert (made(), wrapper(original)) == (5, 2)


def test_a_declared_signature_does_not_hide_what_a_wrapper_really_takes() -> None:
    def wrapper(original, *args, **kwargs):
        return args, kwargs

    wrapper.__wrapped__ = around_defaults
    wrapper.__signature__ = inspect.signature(around_defaults)
    assert wrap_raw(defaults, wrapper, in_class=False)(1, c=2) == ((1,), {"c": 2})


def test_a_traceback_shows_the_call_of_the_wrapper_and_a_bad_call_names_the_original() -> None:
    def failing(original, a, b):
        raise RuntimeError("wrapper failed")

    made = wrap_raw(plain, failing, in_class=False)
    with pytest.raises(RuntimeError) as caught:
        made(1, 2)
    text = "".join(traceback.format_exception(caught.type, caught.value, caught.tb))
    assert f'{GENERATED}{__name__}:plain>", line 3' in text
    assert "return _pc_wrapper(a, b)" in text
    name = "plain" if sys.version_info >= (3, 10) else "_pc_wrapper"
    with pytest.raises(TypeError, match=rf"{name}\(\) missing 1 required positional argument: 'b'"):
        made(1)


def test_functions_with_the_same_parameters_share_no_name_of_a_file() -> None:
    def first(x):
        return x

    def second(x):
        return x

    def wrapper(original, x):
        return original(x)

    made = [wrap_raw(original, wrapper, in_class=False) for original in (first, second)]
    assert [one.__code__.co_filename for one in made] == [
        f"{GENERATED}{__name__}:{one.__qualname__}>" for one in (first, second)
    ]
    assert made[0].__code__ is not made[1].__code__
    assert [one(1) for one in made] == [1, 1]
