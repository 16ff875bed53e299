"""The options of markers: which are made, their content, and where they are written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Callable, Optional

import patchcore as pc
from patchcore.plugin import did_you_mean

__all__ = ["BACKENDS", "CATEGORY", "LEVELS", "ORDERS", "PREFIX", "VIEWS", "MarkerOptions", "from_environment"]

#: Where ranges can go; ``auto`` picks one of the others, see :mod:`torch_markers.backends`.
BACKENDS = ("auto", "nvtx", "mstx", "itt", "record_function", "trace")
MODULES, FUNCTIONS, ALL = LEVELS = ("modules", "functions", "all")

#: The rows of ``patchcore markers summary``, and the columns that it sorts by.
VIEWS = ("module", "op", "site")
ORDERS = ("self", "total", "count")

#: The category of events of the backend ``trace``, whose arguments have the text of the range.
CATEGORY = "patchcore.marker"

#: The environment variable of the backend; those of the other options append ``_`` and the option's name.
PREFIX = "PATCHCORE_MARKERS"

_WORDS = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}


@dataclass(frozen=True)
class MarkerOptions:
    """Decisions about markers.

    Args:
        backend: one of :data:`BACKENDS`.
        level: ``modules``: calls of modules, ``functions``: of torch's functions, ``all``: both.
        stacks: whether ranges have the lines of the program that have led to the call.
        arguments: whether they have types, shapes, dtypes and values of the arguments.
        backward: whether the backward pass is marked, too.
        directory: where the backend ``trace`` writes, a file per process.
    """

    backend: str = "auto"
    level: str = ALL
    stacks: bool = True
    arguments: bool = True
    backward: bool = True
    directory: str = "markers"

    @property
    def modules(self) -> bool:
        """True if calls of modules are marked."""
        return self.level != FUNCTIONS

    @property
    def functions(self) -> bool:
        """True if calls of functions are marked."""
        return self.level != MODULES

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the options."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> MarkerOptions:
        """Return the options of a table; flags may be words, as environment variables have them.

        Raises:
            DeclarationError: an unknown option, or a value that means nothing.
        """
        checked = {}
        for name, value in given.items():
            if name not in _CHECKS:
                raise pc.DeclarationError(f"markers have no option {name!r}{did_you_mean(name, _CHECKS)}")
            checked[name] = _CHECKS[name](name, value)
        return cls(**checked)


def from_environment(environ: Optional[Mapping[str, str]] = None) -> dict[str, Any]:
    """Return the options that environment variables set, unchecked; ``backend`` among them switches markers on.

    Args:
        environ: ``os.environ`` by default.
    """
    environ = os.environ if environ is None else environ
    variables = {name: PREFIX if name == "backend" else f"{PREFIX}_{name.upper()}" for name in MarkerOptions.names()}
    return {name: environ[variable] for name, variable in variables.items() if environ.get(variable)}


def _one_of(known: tuple[str, ...]) -> Callable[[str, Any], str]:
    def check(name: str, value: Any) -> str:
        if value not in known:
            raise pc.DeclarationError(
                f"markers: {name} = {value!r}; expected one of {', '.join(known)}{did_you_mean(str(value), known)}"
            )
        return str(value)

    return check


def _flag(name: str, value: Any) -> bool:
    found = _WORDS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise pc.DeclarationError(f"markers: {name} = {value!r}; expected true or false")
    return found


def _path(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise pc.DeclarationError(f"markers: {name} = {value!r}; expected the path of a directory")
    return os.fsdecode(value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "backend": _one_of(BACKENDS),
    "level": _one_of(LEVELS),
    "stacks": _flag,
    "arguments": _flag,
    "backward": _flag,
    "directory": _path,
}
