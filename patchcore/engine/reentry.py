"""Distinguishes a call from a signal handler, in the middle of an operation, from an ordinary one.

The locks of Patcher, engine and journal are re-entrant, so a signal handler that applies patches would get through to
the engine although its thread is in the middle of a write. :func:`is_reentrant` looks at the frames below the call; the
Patcher then refuses the call with an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType
from typing import Any, Callable, Optional

__all__ = ["is_reentrant"]

#: The packages that hold locks while they change something, with those of the writers of plugins.
_HOLDERS = (f"{__package__}.", "patchcore.patcher.")


def is_reentrant(locks: Iterable[Any], caller: Optional[FrameType], packages: Callable[[], Iterable[str]]) -> bool:
    """True if this thread is inside an operation under one of ``locks``, for example in a signal handler.

    A lock that the thread holds outside of such an operation is released: an exception of a signal handler, such as
    Ctrl-C, may come between the last line of a ``with`` block and the release of its lock (CPython issue 74174,
    Python 3.9).

    Args:
        locks: instances of ``threading.RLock``.
        caller: the frame that calls patchcore.
        packages: returns the packages with writers, which take the locks, too.
    """
    held = [lock for lock in locks if lock._is_owned()]
    if not held:
        return False
    holders = (*_HOLDERS, *(f"{package}." for package in packages()))
    while caller is not None:
        if f"{caller.f_globals.get('__name__')}.".startswith(holders):
            return True
        caller = caller.f_back
    for lock in held:
        while lock._is_owned():
            lock.release()
    return False
