"""Shapes of JSON values: what a value from a file or from another process must look like before anybody uses it.

A shape is a function of a value and of the name of the field it was found in. It raises :class:`Malformed` for a value
that does not fit, and returns nothing for one that does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Callable

__all__ = [
    "Malformed",
    "Shape",
    "flag",
    "integer",
    "list_of",
    "number",
    "one_of",
    "optional",
    "plain",
    "record",
    "table_of",
    "text",
]

Shape = Callable[[Any, str], None]

#: How deep lists and tables may be in each other; a report of a process has eight levels without the data of plugins.
_DEEPEST = 64
#: Larger integers are no count, time or number of anything; Python may refuse to write them as text.
_LARGEST = 2**63
_MOST_SHOWN = 60  # characters of a value in a message


class Malformed(ValueError):
    """A value does not have the shape it should have.

    Args:
        field: where it is: ``patches[3].status``; empty for the whole.
        fault: what is wrong with it.
    """

    def __init__(self, field: str, fault: str) -> None:
        super().__init__(f"{field}: {fault}" if field else fault)
        self.field = field


def text(value: Any, field: str) -> None:
    """Expect a text."""
    if not isinstance(value, str):
        raise _unlike(field, "a text", value)


def flag(value: Any, field: str) -> None:
    """Expect ``true`` or ``false``."""
    if not isinstance(value, bool):
        raise _unlike(field, "true or false", value)


def one_of(*words: str) -> Shape:
    """Return the shape of a text that is one of ``words``."""

    def check(value: Any, field: str) -> None:
        if not isinstance(value, str) or value not in words:
            raise _unlike(field, f"one of {', '.join(words)}", value)

    return check


def integer(least: int, most: int) -> Shape:
    """Return the shape of a whole number between two others, which belong to it."""

    def check(value: Any, field: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _unlike(field, f"a whole number from {least} to {most}", value)

    return check


def number(least: float, most: float) -> Shape:
    """Return the shape of a number between two others, which belong to it."""

    def check(value: Any, field: str) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise _unlike(field, f"a number from {least:g} to {most:g}", value)

    return check


def optional(shape: Shape) -> Shape:
    """Return the shape of a value that has ``shape`` or is ``null``."""

    def check(value: Any, field: str) -> None:
        if value is not None:
            shape(value, field)

    return check


def list_of(shape: Shape) -> Shape:
    """Return the shape of a list whose elements all have ``shape``."""

    def check(value: Any, field: str) -> None:
        if not isinstance(value, list):
            raise _unlike(field, "a list", value)
        for position, element in enumerate(value):
            shape(element, f"{field}[{position}]")

    return check


def table_of(shape: Shape) -> Shape:
    """Return the shape of a table of arbitrary names whose values all have ``shape``."""

    def check(value: Any, field: str) -> None:
        if not isinstance(value, dict):
            raise _unlike(field, "a table", value)
        for name, element in value.items():
            shape(element, f"{field}[{_shown(name)}]")

    return check


def record(fields: Mapping[str, Shape], *, may_have: Mapping[str, Shape] = {}) -> Shape:
    """Return the shape of a table with certain names; what else is in it may be anything.

    Args:
        fields: that it must have.
        may_have: others, which are checked where they are there.
    """
    every = {**fields, **may_have}

    def check(value: Any, field: str) -> None:
        if not isinstance(value, dict):
            raise _unlike(field, "a table", value)
        for name, shape in every.items():
            inner = f"{field}.{name}" if field else name
            if name in value:
                shape(value[name], inner)
            elif name in fields:
                raise Malformed(inner, "is missing")

    return check


def plain(value: Any, field: str, *, _depth: int = 0) -> None:
    """Expect any JSON value that is not too deep and has only numbers that can be calculated with."""
    if isinstance(value, (list, dict)):
        if _depth == _DEEPEST:
            raise _unlike(field, f"at most {_DEEPEST} lists and tables in each other", value)
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, element in pairs:
            if isinstance(element, (list, dict, int, float)):
                plain(element, f"{field}[{_shown(name)}]", _depth=_depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _unlike(field, "a finite number", value)
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise _unlike(field, "a number below 2**63", value)


def _shown(value: Any) -> str:
    """Return a value as text for a message: short, in one line, and nothing in it that a terminal would obey."""
    if isinstance(value, (list, dict)):
        return f"a {'list' if isinstance(value, list) else 'table'} of {len(value)}"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a whole number of more than 18 digits"
    if isinstance(value, str):
        value = value[: _MOST_SHOWN + 1]
    shown = repr(value)
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}..."


def _unlike(field: str, expected: str, found: Any) -> Malformed:
    return Malformed(field, f"expected {expected}, found {_shown(found)}")
