"""Replacements that are edited copies of their originals: how much of an upgrade they lack, read from sources."""

from __future__ import annotations

from collections import Counter
from types import FunctionType
from typing import Any, Optional

from patchcore.builtin.drift.definitions import Sources
from patchcore.builtin.drift.syntax import normalised, relaid
from patchcore.declare.changes import Change
from patchcore.declare.target import Target
from patchcore.errors import TargetNotFound, Unseen
from patchcore.objects.modules import is_class
from patchcore.objects.printable import counted
from patchcore.stdlib import difflib

__all__ = ["copy_of", "describe_copy"]

#: A shorter function is not recognised as a copy: many functions have the same three lines.
_FEWEST_LINES = 5
#: The least similarity of a copy to its original, as :meth:`difflib.SequenceMatcher.ratio` counts lines.
_LEAST_SIMILARITY = 0.5


def describe_copy(copy: str, before: str, now: str) -> str:
    """Return how far a copy of a function has followed a change of its original, ``""`` if it is no copy.

    A changed line counts once where it was taken out and once where it was put in. Indents, the line of the ``def``
    and decorators do not count: a copy of a method is often a function.

    Args:
        copy: normalised source of the replacement.
        before: of the original, in the recorded version.
        now: of the original, in the installed version.
    """
    mine, old, new = map(_lines, (copy, before, now))
    if len(old) < _FEWEST_LINES or max(_similarity(mine, old), _similarity(mine, new)) < _LEAST_SIMILARITY:
        return ""
    if mine == new:
        return "the replacement is a copy that is equal to it now"
    had, has, kept = Counter(old), Counter(new), Counter(mine)
    added, removed = has - had, had - has
    changed = sum(added.values()) + sum(removed.values())
    if not changed:
        return ""
    followed = sum(min(count, max(kept[line] - had[line], 0)) for line, count in added.items())
    followed += sum(min(count, max(had[line] - kept[line], 0)) for line, count in removed.items())
    return f"the replacement is a copy of it, with {followed} of {counted(changed, 'changed line')}"


def copy_of(change: Change) -> str:
    """Return the normalised source of a change's replacement, ``""`` if it cannot be read.

    Imports nothing: a replacement that is named by a target is read from the file of its module.
    """
    if not change.replaces or change.adds:
        return ""
    target = _named(change.source)
    if target is None:
        return ""
    try:
        return normalised(Sources().locate(target).nodes)
    except (Unseen, TargetNotFound, RecursionError):
        return ""


def _named(replacement: Any) -> Optional[Target]:
    if type(replacement) is Target:
        return replacement if replacement.module else None
    if type(replacement) is not FunctionType and not is_class(replacement):  # a proxy would run its code
        return None
    module, name = getattr(replacement, "__module__", None), getattr(replacement, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name or not name:
        return None
    return Target(module, tuple(name.split(".")))


def _lines(source: str) -> list[str]:
    lines = [line.strip() for line in relaid(source).splitlines()]
    first = next((i for i, line in enumerate(lines) if line.startswith(("def ", "async def ", "class "))), -1)
    return lines[first + 1 :]


def _similarity(one: list[str], other: list[str]) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
