"""Functions of torch that patches wrap, and marks on them for torch.compile.

torch.compile knows torch's functions by tables (``torch._dynamo.trace_rules``, torch 2.13) that it fills at its first
use with the functions that torch has at that time, and keeps. With wrappers in them it would not know the functions
inside, neither while they are called nor after the wrappers are gone.
"""

from __future__ import annotations

from typing import Any, Callable

import patchcore as pc

__all__ = ["COMPILE", "innermost", "mark_wrapper"]

_ORIGINAL = "_torch_npu_patches_original"


def mark_wrapper(wrapper: Any, original: Any) -> None:
    """Note on a function the one that it calls in the end.

    Args:
        wrapper: of a function of torch.
        original: the function.
    """
    setattr(wrapper, _ORIGINAL, original)


def innermost(value: Any) -> Any:
    """Return the function that a marked wrapper, perhaps around others, calls in the end; other values unchanged."""
    while _ORIGINAL in getattr(value, "__dict__", ()):
        value = vars(value)[_ORIGINAL]
    return value


def make_load_object(original: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a ``torch._dynamo.trace_rules.load_object``, by which the tables are filled, that looks into wrappers."""

    def load_object(name: str) -> Any:
        return innermost(original(name))

    return load_object


COMPILE = pc.Patch(
    "torch.compile",
    [pc.Replace("torch._dynamo.trace_rules:load_object", factory=make_load_object)],
    summary="torch.compile knows the functions inside the wrappers of other patches",
    requires="torch>=2.4",
    needs="torch_npu",
    legacy_names=["compile"],
)
