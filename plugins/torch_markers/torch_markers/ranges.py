"""Markers: ranges that name the operations of a program in the profiler's view.

This module knows ranges by name. Patches decide which functions are marked, and by which backend: :func:`start` applies
the patches that are called ``markers``, and one of them puts a :class:`Marker` in force. As long as none is in force, a
:class:`range` does nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import ContextDecorator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Optional, Protocol, Union

import patchcore as pc
from patchcore import DeclarationError, PatchError, SettingsError, UnknownName
from torch_markers.text import describe, parse

if TYPE_CHECKING:
    from patchcore import Patcher

__all__ = ["NAME", "OPTIONS", "Marker", "mark_call", "parse", "range", "start", "wrap"]

#: The legacy name that all patches have that mark a library's functions.
NAME = "markers"

#: The patch whose options choose the marked functions and the backend.
OPTIONS = "torch.markers"


class Marker(Protocol):
    """Makes ranges. Those of one thread are closed in the reverse order in which they were opened."""

    def ready(self) -> bool:
        """Return whether ranges are made now: not while a compiler traces the program, and not if no tool records."""

    def open(self, text: str) -> Any:
        """Begin a range; return the value for :meth:`close`.

        Args:
            text: of the range, see :mod:`torch_markers.text`.
        """

    def close(self, token: Any) -> None:
        """End a range.

        Args:
            token: of :meth:`open`.
        """

    def call(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the text for a call.

        Args:
            function: the called function.
            args, kwargs: its arguments.
        """


#: The marker in force, ``None`` for none.
_marker: Optional[Marker] = None


def marker() -> Optional[Marker]:
    """Return the marker in force, ``None`` for none."""
    return _marker


def use(new: Optional[Marker]) -> None:
    """Put a marker in force, ``None`` for none; for the patch that makes it, which puts the earlier one back."""
    global _marker
    _marker = new


class range(ContextDecorator):
    """A range around a block or, as a decorator, each call of a function.

    Args:
        name: of the operation; the ``op`` of the range.
        details: constants that say more: numbers, strings.
    """

    __slots__ = ("_details", "_name", "_open")

    def __init__(self, name: str, **details: Any) -> None:
        self._name = name
        self._details = details
        self._open: list[Any] = []  # a decorated function may call itself

    def _recreate_cm(self) -> range:
        return range(self._name, **self._details)

    def __enter__(self) -> range:
        if _marker is not None and _marker.ready():
            self._open.append((_marker, _marker.open(describe(op=self._name, **self._details))))
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._open:
            opened, token = self._open.pop()
            opened.close(token)


def mark_call(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Wrapper, as :class:`patchcore.Wrap` takes it, that puts a range around each call.

    Args:
        original: the wrapped function.
        args, kwargs: of the call.
    """
    active = _marker
    if active is None or not active.ready():
        return original(*args, **kwargs)
    token = active.open(active.call(original, args, kwargs))
    try:
        return original(*args, **kwargs)
    finally:
        active.close(token)


def start(backend: str = "auto", **options: Any) -> Patcher:
    """Mark from now on; return the applied Patcher, whose ``revert()``, or ``with`` block, ends it.

    Args:
        backend: ``nvtx``, ``mstx``, ``itt``, ``record_function``, ``trace`` or ``auto``, for the one that fits here.
        options: of the patch ``torch.markers``: ``level``, ``stacks``, ``arguments``, ``backward``, ``directory``.

    Raises:
        SettingsError: no installed plugin has patches for markers.
        PatchError: an option is impossible, or the backend does not work here.
    """
    from patchcore import Patcher, Settings
    from patchcore.plugin import FAILED, Choice

    settings = Settings.load()
    chosen = settings._replace(
        choices=(Choice(False, "*", "markers.start()", 0), Choice(True, NAME, "markers.start()", 1)),
        options={**settings.options, OPTIONS: {**settings.options.get(OPTIONS, {}), "backend": backend, **options}},
        on_failure="ignore",  # a failure of these is raised below; those of other plugins do not matter here
    )
    patcher = Patcher.discover(settings=chosen.with_values(profiling=None, brake=None, report_dir=None))
    try:
        found = any(NAME in entry.patch.names for entry in patcher.plan())
    except UnknownName:  # no plugin has a patch of this name
        found = False
    if not found:
        raise SettingsError(f"no installed plugin marks anything; {pc.install_command('torch-markers')}")
    report = patcher.apply()
    failed = report.with_status(FAILED)
    if failed:
        patcher.revert()
        raise PatchError("; ".join(f"patch {record.name} ({record.origin}): {record.reason}" for record in failed))
    return patcher


def wrap(obj: Union[ModuleType, type, str], name: str = "") -> Patcher:
    """Put a range around each call of a function or method; return the applied Patcher, whose ``revert()`` ends it.

    It does nothing as long as nobody marks. The wrapper is a patch: names bound by value follow it.

    Args:
        obj: the module or class that has the function, or the target as a text, ``"package.module:Class.method"``.
        name: of the function in it; left out with a text.

    Raises:
        DeclarationError: ``obj`` cannot be found by its name: an instance, a class inside a function.
        PatchError: there is no such function.
    """
    from patchcore import Patch, Patcher, Wrap

    target = _target(obj, name)
    label = "".join(letter if letter.isalnum() or letter in "_.-" else "." for letter in target)
    patcher = Patcher([Patch(f"markers.{label}", [Wrap(target, mark_call)], summary="a range per call")], strict=True)
    patcher.apply()
    return patcher


def _target(obj: Any, name: str) -> str:
    if isinstance(obj, str):
        return f"{obj}.{name}" if name else obj
    if inspect.ismodule(obj) and name:
        return f"{obj.__name__}:{name}"
    if inspect.isclass(obj) and name and "<locals>" not in obj.__qualname__:
        return f"{obj.__module__}:{obj.__qualname__}.{name}"
    raise DeclarationError(
        f"markers.wrap({obj!r}, {name!r}): expected a module or a class of a module, and the name of a function in it; "
        f"write markers.wrap(type(model), 'forward') for an object"
    )
