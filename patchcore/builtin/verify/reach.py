"""Finds whether the replacements of a patch are reached: records the code that a thread runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

from patchcore.declare.changes import Change, resolve
from patchcore.errors import TargetError

__all__ = ["Reach"]


class Reach:
    """Notes, inside its block, whether this thread runs code of a patch's replacements.

    Replacements that have no Python code (builtins) count as called when they are.

    Args:
        changes: in force. Those of :class:`patchcore.EachModule` are known when the patch is applied.

    Attributes:
        reached: whether a replacement has run; may be set to false to watch again.
    """

    def __init__(self, changes: Iterable[Change]) -> None:
        self.reached = False
        self._codes: set[CodeType] = set()
        self._builtins: list[Any] = []
        for change in changes:
            for value in _replacements(change):
                self._add(value)

    def __enter__(self) -> Reach:
        self._before = sys.getprofile()
        sys.setprofile(self._see)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.setprofile(self._before)

    def _add(self, value: Any) -> None:
        value = getattr(value, "__func__", value)
        if isinstance(value, type):
            for attribute in vars(value).values():
                if isinstance(attribute, (FunctionType, staticmethod, classmethod, property)):
                    self._add(attribute.fget if isinstance(attribute, property) else attribute)
        elif isinstance(value, FunctionType):
            self._codes.add(value.__code__)
        elif callable(value):
            self._builtins.append(value)

    def _see(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            self.reached = self.reached or frame.f_code in self._codes
        elif event == "c_call" and self._builtins:
            self.reached = self.reached or argument in self._builtins


def _replacements(change: Change) -> Iterator[Any]:
    """The objects that run where a change is in force."""
    for reference in change.runs:
        try:
            yield resolve(reference)
        except TargetError:
            if reference is not change.target:  # of a factory, whose product cannot be reached by its name
                raise
