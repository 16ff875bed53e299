"""The quick answer about wrappers agrees with the thorough one, and is given for the wrappers that people write."""

from __future__ import annotations

import functools
import itertools
from typing import Any, Callable

import pytest

from patchcore.builtin.signatures.signatures import misfit, passes_on

ORIGINALS: list[Callable[..., Any]] = [
    lambda: None,
    lambda self: None,
    lambda self, x, y=1: None,
    lambda original, x: None,
    lambda x, original=None: None,
    lambda x=1: None,
    lambda *args: None,
    lambda *args, **kwargs: None,
    lambda self, *, key: None,
    lambda self, *, original=None: None,
    lambda x, **kwargs: None,
]
WRAPPERS: list[Callable[..., Any]] = [
    lambda original, *args, **kwargs: None,
    lambda original, self, *args, **kwargs: None,
    lambda original, x, *args, **kwargs: None,
    lambda original, x, y, *args, **kwargs: None,
    lambda *args, **kwargs: None,
    lambda original, *args, key, **kwargs: None,
    lambda original, *args, key=None, **kwargs: None,
    lambda original, *args: None,
    lambda original, **kwargs: None,
]


def test_what_passes_on_fits() -> None:
    counted = 0
    for original, wrapper, bound, before in itertools.product(ORIGINALS, WRAPPERS, (False, True), (0, 1)):
        if passes_on(original, wrapper, bound=bound, before=before):
            counted += 1
            why = misfit(original, wrapper, bound=bound, before=before)
            assert why is None, (original.__code__.co_varnames, wrapper.__code__.co_varnames, bound, before, why)
    assert counted > 50


@pytest.mark.parametrize("names", ["original, *args, **kwargs", "original, self, *args, **kwargs"])
def test_a_usual_wrapper_of_a_method_needs_no_signatures(names: str) -> None:
    wrapper = eval(f"lambda {names}: None")
    assert passes_on(lambda self, x, y=1: None, wrapper, bound=True, before=1)


def test_an_argument_of_the_name_of_a_parameter_of_the_wrapper_is_no_quick_matter() -> None:
    assert not passes_on(lambda original: None, lambda original, *a, **k: None, bound=False, before=1)


def test_a_function_that_says_it_has_another_signature_is_no_quick_matter() -> None:
    @functools.wraps(lambda original: None)
    def wrapped(x: Any) -> None: ...

    assert not passes_on(wrapped, lambda original, *a, **k: None, bound=False, before=1)
