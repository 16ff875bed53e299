"""What is in a place, and what it does: a patch puts another object there, or writes the body of the function there."""

from __future__ import annotations

from typing import Any

from patchcore.objects.binding import wrapped_callable

__all__ = ["same", "state"]


def state(raw: Any) -> tuple[Any, Any]:
    """Return what a place holds, and the code of the function in it, if there is one."""
    return raw, getattr(wrapped_callable(raw), "__code__", None)


def same(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """Tell whether two states are of the same object with the same body."""
    return one[0] is other[0] and one[1] is other[1]
