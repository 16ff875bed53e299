"""Lines of the log with the rank in front."""

import functools
import os
from typing import Any, Callable


def with_rank(function: Callable[..., Any]) -> Callable[..., Any]:
    """Print the rank first."""

    @functools.wraps(function)
    def logged(*args: Any, **kwargs: Any) -> Any:
        print(f"rank {os.environ.get('RANK', '0')}", end=" ")
        return function(*args, **kwargs)

    return logged


def finite_scores(function: Callable[..., Any]) -> Callable[..., Any]:
    """Stop where a score is no number."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        scores = function(*args, **kwargs)
        if not scores.isfinite().all():
            raise FloatingPointError("a score is not finite")
        return scores

    return checked
