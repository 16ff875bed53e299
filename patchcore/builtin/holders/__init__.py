"""Built-in plugin ``holders``: finds places that hold a replaced object and cannot be rebound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from patchcore.hookspecs import hookimpl

__all__ = ["find_holders"]


@hookimpl
def find_holders(originals: Iterable[Any], ours: Iterable[Any]) -> Sequence[tuple[Any, str, str]]:
    from patchcore.builtin.holders.search import find_unreachable  # walks over all objects several times

    return [(held, place.kind, place.where) for held, place in find_unreachable(originals, ours)]
