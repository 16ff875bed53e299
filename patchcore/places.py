"""Where the source of an object is, and how two of them differ, for people."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from types import ModuleType
from typing import Any, NamedTuple, Optional

from patchcore.target import ABSENT

__all__ = ["Place", "difference"]


class Place(NamedTuple):
    """Where an object comes from.

    Args:
        name: ``module:qualname``; of a module, ``module NAME``.
        file: its source, ``None`` where there is none in Python.
        line: in that file, ``None`` of a module.
    """

    name: str
    file: Optional[str] = None
    line: Optional[int] = None

    @classmethod
    def of(cls, value: Any) -> Place:
        """Return the place of ``value``, a raw value of a slot or what is inside it."""
        if value is ABSENT:
            return cls("nothing")
        if isinstance(value, ModuleType):
            return cls(f"module {value.__name__}", getattr(value, "__file__", None))
        name = f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', type(value).__name__)}"
        try:
            unwrapped = inspect.unwrap(value) if callable(value) else value
            return cls(name, inspect.getsourcefile(unwrapped), inspect.getsourcelines(unwrapped)[1])
        except (TypeError, OSError):
            return cls(name)

    def __str__(self) -> str:
        if self.name == "nothing":
            return self.name
        line = "" if self.line is None else f":{self.line}"
        return f"{self.name} ({f'{self.file}{line}' if self.file else 'no Python source'})"


def difference(original: Any, replacement: Any) -> str:
    """Return how the sources of two objects differ, as ``diff -u`` does; empty where one of them has none."""
    before, after = _source(original), _source(replacement)
    if before is None or after is None:
        return ""
    return "\n".join(difflib.unified_diff(before, after, "original", "replacement", lineterm="", n=2))


def _source(value: Any) -> Optional[list[str]]:
    try:
        return textwrap.dedent(inspect.getsource(value)).splitlines()
    except (TypeError, OSError):
        return None
