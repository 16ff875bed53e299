"""Where a program said CUDA: every rewritten argument, counted by the line that passed it.

The line is the nearest one outside torch: for ``nn.Linear(4, 4, device="cuda")`` that is the line of the model, not the
one in torch that makes the weight.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, NamedTuple, Optional

__all__ = ["Counter", "Place", "Site", "clear", "counter_of", "details", "sites"]

#: Whose frames are passed over when the caller is looked for; ``""`` is code that torch has generated. torch's own
#: decorators go through typing_extensions and contextlib.
_BETWEEN = frozenset(
    ("", "torch", "torch_npu", "npu_emulator", "torch_npu_patches", "patchcore", "typing_extensions", "contextlib")
)
_is_between: dict[Any, bool] = {}  # by module name


class Place(NamedTuple):
    """Which rewriting it was.

    Args:
        group: name of the patch.
        target: what was called, as in the patch.
        argument: name of the argument.
    """

    group: str
    target: str
    argument: str


@dataclass(frozen=True)
class Site:
    """One line of a program, and what was rewritten there.

    Args:
        place: which rewriting.
        file, line: the caller outside torch.
        before, after: the argument as given and as passed on, as text.
        count: how often.
    """

    place: Place
    file: str
    line: int
    before: str
    after: str
    count: int

    def __str__(self) -> str:
        place = self.place
        what = f"{place.target}({place.argument}={self.before} -> {self.after})"
        return f"{self.file}:{self.line}: {what}, {self.count}x [{place.group}]"


class _Tally:
    """How often a line passed one value, and that value with what became of it: text is made of them for reports."""

    __slots__ = ("after", "before", "code", "count", "line")

    def __init__(self, code: CodeType, line: int, before: Any, after: Any) -> None:
        self.code = code  # keeps it, so that its id stays its own
        self.line = line
        self.before = before
        self.after = after
        self.count = 0


class Counter:
    """Counts the rewritings of one place; there is one for each, see :func:`counter_of`."""

    __slots__ = ("_lock", "_tallies", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._tallies: dict[tuple[int, int, Any], _Tally] = {}

    def note(self, before: Any, after: Any) -> None:
        """Count one rewriting, made for a caller of the caller of this function.

        Args:
            before, after: the argument as given and as passed on.
        """
        frame = _caller(sys._getframe(2))
        named = before if type(before).__hash__ is not None else repr(before)
        key = (id(frame.f_code), frame.f_lasti, named)
        with self._lock:
            tally = self._tallies.get(key)
            if tally is None:
                tally = self._tallies[key] = _Tally(frame.f_code, frame.f_lineno, named, after)
            tally.count += 1

    def sites(self) -> list[Site]:
        """Return what was counted, one entry for each line and value."""
        with self._lock:
            found = [
                ((t.code.co_filename, t.line, str(t.before), str(t.after)), t.count) for t in self._tallies.values()
            ]
        merged: dict[tuple[str, int, str, str], int] = {}
        for site, count in found:
            merged[site] = merged.get(site, 0) + count
        return [Site(self.place, *site, count=count) for site, count in merged.items()]

    def clear(self) -> None:
        """Forget everything counted so far."""
        with self._lock:
            self._tallies.clear()

    def forked(self) -> None:
        """Start anew in the child of a fork; another thread may have held the lock when that was made."""
        self._lock = threading.Lock()
        self._tallies = {}


_counters: dict[Place, Counter] = {}


def counter_of(place: Place) -> Counter:
    """Return the counter of ``place``, the same one each time: a patch may be applied again."""
    return _counters.setdefault(place, Counter(place))


def sites(group: Optional[str] = None) -> list[Site]:
    """Return what has been rewritten in this process since it started or :func:`clear`, by file and line.

    Args:
        group: name of one patch, all of them by default.
    """
    counters = [counter for counter in list(_counters.values()) if group in (None, counter.place.group)]
    found = [site for counter in counters for site in counter.sites()]
    return sorted(found, key=lambda site: (site.file, site.line, site.place, site.before))


def details(group: Optional[str] = None) -> list[dict[str, Any]]:
    """Return :func:`sites` as what JSON can hold: a flat dictionary for each."""
    return [{**site.place._asdict(), **{k: v for k, v in vars(site).items() if k != "place"}} for site in sites(group)]


def clear() -> None:
    """Forget everything counted so far."""
    for counter in list(_counters.values()):
        counter.clear()


def _forked() -> None:
    for counter in list(_counters.values()):
        counter.forked()


if hasattr(os, "register_at_fork"):  # a worker tells what it did itself
    os.register_at_fork(after_in_child=_forked)


def _caller(frame: FrameType) -> FrameType:
    found: Optional[FrameType] = frame
    while found is not None:
        name = found.f_globals.get("__name__", "")
        between = _is_between.get(name)
        if between is None:
            between = _is_between[name] = str(name).partition(".")[0] in _BETWEEN
        if not between:
            return found
        found = found.f_back
    return frame  # torch has called itself, from a thread of its own
