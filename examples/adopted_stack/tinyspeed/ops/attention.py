"""Attention whose scores are scaled."""

import functools
from typing import Any, Callable


def scaled_scores_wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Divide the query by the root of its size."""

    @functools.wraps(function)
    def wrapper(query: Any, key: Any) -> Any:
        return function(query / query.shape[-1] ** 0.5, key)

    return wrapper
