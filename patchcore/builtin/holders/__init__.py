"""Built-in plugin ``holders``: finds what still holds an original and cannot be rebound, for reports that ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from patchcore.hookspecs import hookimpl

__all__ = ["find_holders"]


@hookimpl
def find_holders(originals: Iterable[Any], ours: Iterable[Any]) -> Sequence[tuple[Any, str, str]]:
    from patchcore.builtin.holders.search import find_unreachable  # takes several walks over all objects

    return [(held, place.kind, place.where) for held, place in find_unreachable(originals, ours)]
