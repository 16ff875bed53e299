"""Counts the calls that a kernel of mx_driving did not take, and reports the code that computed them and the reason.

The limits of a kernel depend on the shapes and dtypes of a call, so each combination is noted once, with a count.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

import patchcore as pc

__all__ = ["OtherPath", "forget", "note", "noted", "report_section"]


class OtherPath(NamedTuple):
    """A kind of call that went another way.

    Args:
        patch: name of the patch.
        call: shapes and dtypes, as text.
        path: the code that computed it.
        reason: the limit of the kernel.
    """

    patch: str
    call: str
    path: str
    reason: str


_lock = threading.Lock()
_counts: dict[OtherPath, int] = {}


def note(patch: str, call: str, path: str, reason: str) -> None:
    """Count a call that the kernel of a patch did not take; arguments as for :class:`OtherPath`."""
    import torch

    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)  # from torch 2.1 on
    if is_compiling is not None and is_compiling():
        return
    key = OtherPath(patch, call, path, reason)
    with _lock:
        _counts[key] = _counts.get(key, 0) + 1


def noted() -> dict[OtherPath, int]:
    """Return the counts of this process."""
    with _lock:
        return dict(_counts)


def forget() -> None:
    """Begin to count anew."""
    with _lock:
        _counts.clear()


def report_section() -> Iterator[pc.Section]:
    """Yield a section with the counts, one line for each kind of call, if there are any."""
    counts = noted()
    if counts:
        lines = tuple(
            f"{path.patch}: {path.call}: {path.path}, {count}x; {path.reason}" for path, count in counts.items()
        )
        data = [{**path._asdict(), "count": count} for path, count in counts.items()]
        yield pc.Section("not on the kernels of mx_driving", lines, data=data)
