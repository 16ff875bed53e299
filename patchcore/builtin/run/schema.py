"""Shapes of JSON values: what a value from a file or from another process must look like before anybody uses it.

A shape is a function of a value. It raises :class:`Malformed` for a value that does not fit, and returns nothing for
one that does.
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

Shape = Callable[[Any], None]

#: How deep lists and tables may be in each other; a report of a process has eight levels without the data of plugins.
_DEEPEST = 64
#: Larger integers are no count, time or number of anything; Python may refuse to write them as text.
_LARGEST = 2**63
_MOST_SHOWN = 60  # characters of a value in a message


class Malformed(ValueError):
    """A value does not have the shape it should have.

    Args:
        fault: what is wrong with it.
    """

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self._fault = fault
        self._way: list[str] = []  # from the value outwards

    def inside(self, step: str) -> Malformed:
        """Note that the value is in another one; return this error.

        Args:
            step: where in it, ``[3]`` or ``.status``.
        """
        self._way.append(step)
        return self

    @property
    def field(self) -> str:
        """Where the value is: ``patches[3].status``; empty for the whole."""
        return "".join(reversed(self._way)).lstrip(".")

    def __str__(self) -> str:
        return f"{self.field}: {self._fault}" if self._way else self._fault


def text(value: Any) -> None:
    """Expect a text."""
    if not isinstance(value, str):
        raise _unlike("a text", value)


def flag(value: Any) -> None:
    """Expect ``true`` or ``false``."""
    if not isinstance(value, bool):
        raise _unlike("true or false", value)


def one_of(*words: str) -> Shape:
    """Return the shape of a text that is one of ``words``."""

    def check(value: Any) -> None:
        if not isinstance(value, str) or value not in words:
            raise _unlike(f"one of {', '.join(words)}", value)

    return check


def integer(least: int, most: int) -> Shape:
    """Return the shape of a whole number between two others, which belong to it."""

    def check(value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _unlike(f"a whole number from {least} to {most}", value)

    return check


def number(least: float, most: float) -> Shape:
    """Return the shape of a number between two others, which belong to it."""

    def check(value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise _unlike(f"a number from {least:g} to {most:g}", value)

    return check


def optional(shape: Shape) -> Shape:
    """Return the shape of a value that has ``shape`` or is ``null``."""

    def check(value: Any) -> None:
        if value is not None:
            shape(value)

    return check


def list_of(shape: Shape) -> Shape:
    """Return the shape of a list whose elements all have ``shape``."""

    def check(value: Any) -> None:
        if not isinstance(value, list):
            raise _unlike("a list", value)
        position = 0
        try:
            for position, element in enumerate(value):  # noqa: B007  # for the error
                shape(element)
        except Malformed as error:
            raise error.inside(f"[{position}]") from None

    return check


def table_of(shape: Shape) -> Shape:
    """Return the shape of a table of arbitrary names whose values all have ``shape``."""

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise _unlike("a table", value)
        name = ""
        try:
            for name, element in value.items():  # noqa: B007  # for the error
                shape(element)
        except Malformed as error:
            raise error.inside(f"[{_shown(name)}]") from None

    return check


def record(fields: Mapping[str, Shape], *, may_have: Mapping[str, Shape] = {}) -> Shape:
    """Return the shape of a table with certain names; what else is in it may be anything that is :func:`plain`.

    Args:
        fields: that it must have.
        may_have: others, which are checked where they are there.
    """
    every = {**fields, **may_have}

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise _unlike("a table", value)
        if not fields.keys() <= value.keys():
            missing = next(name for name in fields if name not in value)
            raise Malformed("is missing").inside(f".{missing}")
        name = ""
        try:
            for name, element in value.items():
                every.get(name, plain)(element)
        except Malformed as error:
            raise error.inside(f".{name}" if name in every else f"[{_shown(name)}]") from None

    return check


def plain(value: Any) -> None:
    """Expect any JSON value that is not too deep and has only numbers that can be calculated with."""
    _plain(value, _DEEPEST)


def _plain(value: Any, depth: int) -> None:
    if isinstance(value, (list, dict)):
        if not depth:
            raise _unlike(f"at most {_DEEPEST} levels of lists and tables", value)
        name: Any = 0
        try:
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            for name, element in pairs:  # noqa: B007  # for the error
                if not isinstance(element, str):
                    _plain(element, depth - 1)
        except Malformed as error:
            raise error.inside(f"[{_shown(name)}]") from None
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _unlike("a finite number", value)
    elif isinstance(value, int) and abs(value) > _LARGEST:
        raise _unlike("a number below 2**63", value)


def _unlike(expected: str, found: Any) -> Malformed:
    return Malformed(f"expected {expected}, found {_shown(found)}")


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
