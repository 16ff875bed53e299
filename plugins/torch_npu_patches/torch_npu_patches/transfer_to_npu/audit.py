"""Which lines of a program asked for CUDA, how often, and what they got.

Three kinds of requests are counted: an argument that names CUDA (``device="cuda:1"``, ``backend="nccl"``, also
``x.cuda()``), a device number (``x.to(0)``), and a call of ``torch.cuda`` (``torch.cuda.synchronize()``).

The line is the nearest one outside torch: for ``nn.Linear(4, 4, device="cuda")`` that is the line of the model, not the
one in torch that makes the weight. Calls of ``torch.cuda`` that torch makes itself are not counted:
``optimizer.step()`` calls ``torch.cuda.is_available()``, and the program has not asked for that.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, Optional

from torch_npu_patches.transfer_to_npu.devices import npu_number

__all__ = [
    "ARGUMENT",
    "CALL",
    "NUMBER",
    "Counter",
    "Place",
    "Site",
    "clear",
    "counter_of",
    "details",
    "is_active",
    "is_installed",
    "sites",
]

#: Kinds of requests.
ARGUMENT, NUMBER, CALL = "argument", "number", "call"

#: Packages whose frames are passed over when the caller is looked for.
_OURS = frozenset(("torch_npu_patches", "npu_emulator", "patchcore"))
#: More of them; ``""`` is code that torch has generated. torch's own decorators go through typing_extensions and
#: contextlib.
_BETWEEN = _OURS | {"", "torch", "torch_npu", "typing_extensions", "contextlib"}
_roots: dict[Any, str] = {}  # by module name

#: Folders of installed packages: the program is what is elsewhere.
_INSTALLED = ("site-packages", "dist-packages")
_LIBRARY = tuple(f"{folder}/" for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})

_getframe = sys._getframe


def is_installed(file: str) -> bool:
    """Return True if ``file`` belongs to an installed package or the standard library, not to the program."""
    return file.startswith(_LIBRARY) or any(part in _INSTALLED for part in Path(file).parts)


class Place(NamedTuple):
    """What was called, and which of its arguments is meant.

    Args:
        group: name of the patch.
        target: what was called, as in the patch.
        argument: name of the argument; empty for a function that takes no device.
    """

    group: str
    target: str
    argument: str


@dataclass(frozen=True)
class Site:
    """One line of a program that asked for CUDA, and what it got.

    Args:
        place: what was called.
        file, line: the caller outside torch.
        before, after: what was asked for and what was given instead, as text. For a call without a device these are
            ``""`` and the function of torch.npu, or the answer of ``is_available``.
        count: how often.
        kind: :data:`ARGUMENT`, :data:`NUMBER` or :data:`CALL`.
    """

    place: Place
    file: str
    line: int
    before: str
    after: str
    count: int
    kind: str = ARGUMENT

    @property
    def asked(self) -> str:
        """What the line asked for, as people write it: ``torch.zeros(device=cuda)``, ``torch.cuda.synchronize()``."""
        target = self.place.target.replace(":", ".")
        for constructor in (".__init__", ".__new__"):
            target = target[: -len(constructor)] if target.endswith(constructor) else target
        is_bare = self.kind == CALL and not self.before
        return f"{target}({'' if is_bare else f'{self.place.argument}={self.before}'})"

    @property
    def installed(self) -> bool:
        """True if the line belongs to an installed package, not to the program."""
        return is_installed(self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.asked} -> {self.after}, {self.count}x [{self.place.group}]"


class _Tally:
    """How often a line passed one value, and that value with what became of it: reports make text of them."""

    __slots__ = ("after", "before", "code", "count", "is_shown", "line")

    def __init__(self, code: CodeType, line: int, before: Any, after: Any, is_shown: bool = True) -> None:
        self.code = code  # keeps it, so that its id stays its own
        self.line = line
        self.before = before
        self.after = after
        self.is_shown = is_shown
        self.count = 0


#: By code, instruction and value.
_Tallies = dict[tuple[int, int, Any], _Tally]


class Counter:
    """Counts the requests at one place; there is one for each, see :func:`counter_of`.

    After the first time at a line, counting takes one look at the caller's frame and one into a dictionary. It takes no
    lock, so that threads which run on Python 3.9 or without a GIL may lose a count; they never lose a line.

    Attributes:
        note: counts an argument that names CUDA, ``note(before, after)``: as it was given and as it is passed on.
        note_number: counts a device number or several, ``note_number(before)``.
        note_call: counts a call of torch.cuda, ``note_call(before, after)``: the device as it was given, and as it is
            passed on if that differs; both ``None`` where none was given, both the answer of ``is_available``.

    All three are called by the function that the program or torch called.
    """

    __slots__ = ("_lock", "_tallies", "note", "note_call", "note_number", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._tallies: dict[str, _Tallies] = {ARGUMENT: {}, NUMBER: {}, CALL: {}}
        self.note: Callable[[Any, Any], None] = self._noting()
        self.note_number: Callable[[Any], None] = self._noting_numbers()
        self.note_call: Callable[[Any, Any], None] = self._noting_calls()

    def _noting(self) -> Callable[[Any, Any], None]:
        tallies, first = self._tallies[ARGUMENT], self._first

        def note(before: Any, after: Any) -> None:
            frame = _getframe(2)
            try:
                tallies[id(frame.f_code), frame.f_lasti, before].count += 1
            except (KeyError, TypeError):  # TypeError: a list of devices
                first(tallies, _caller(frame), before, after).count += 1

        return note

    def _noting_numbers(self) -> Callable[[Any], None]:
        tallies, first = self._tallies[NUMBER], self._first

        def note_number(before: Any) -> None:
            frame = _getframe(2)
            try:
                tallies[id(frame.f_code), frame.f_lasti, before].count += 1
            except (KeyError, TypeError):
                after = npu_number(before)
                first(tallies, _caller(frame), before, after, is_shown=after is not None).count += 1

        return note_number

    def _noting_calls(self) -> Callable[[Any, Any], None]:
        tallies, arguments, first = self._tallies[CALL], self._tallies[ARGUMENT], self._first

        def note_call(before: Any, after: Any) -> None:
            frame = _getframe(2)
            try:
                tallies[id(frame.f_code), frame.f_lasti, before].count += 1
                return
            except KeyError:
                pass
            caller = _caller(frame, _OURS)
            if _root(caller) not in _BETWEEN:
                first(tallies, caller, before, after).count += 1
            elif after is None or before is after:
                first(tallies, caller, before, after, is_shown=False)  # torch has called itself
            else:
                first(arguments, _caller(caller), before, after).count += 1  # with a device that names CUDA

        return note_call

    def _first(self, tallies: _Tallies, frame: FrameType, before: Any, after: Any, is_shown: bool = True) -> _Tally:
        """Return the tally of a line and value; it is made if there is none."""
        named = before if type(before).__hash__ is not None else repr(before)
        key = (id(frame.f_code), frame.f_lasti, named)
        with self._lock:
            tally = tallies.get(key)
            if tally is None:
                tally = tallies[key] = _Tally(frame.f_code, frame.f_lineno, named, after, is_shown)
        return tally

    def sites(self) -> list[Site]:
        """Return what was counted, one entry for each line, value and kind."""
        merged: dict[tuple[str, int, str, str, str], int] = {}
        with self._lock:
            for kind, tallies in self._tallies.items():
                for tally in tallies.values():
                    if tally.is_shown:
                        before, after = self._texts(kind, tally)
                        site = (tally.code.co_filename, tally.line, before, after, kind)
                        merged[site] = merged.get(site, 0) + tally.count
        return [Site(self.place, *site[:4], count=count, kind=site[4]) for site, count in merged.items()]

    def _texts(self, kind: str, tally: _Tally) -> tuple[str, str]:
        """Return what was asked for and what was given, as text."""
        before, after = tally.before, tally.after
        if kind != CALL:
            return str(before), str(after)
        if after is None and before is not None:
            after = npu_number(before)
        if after is None:
            after = self.place.target.replace("torch:cuda.", "torch.npu.")
        return "" if before is None or before is tally.after else str(before), str(after)

    def clear(self) -> None:
        """Forget everything counted so far."""
        with self._lock:
            for tallies in self._tallies.values():
                tallies.clear()

    def forked(self) -> None:
        """Start anew in the child of a fork; another thread may have held the lock when that was made."""
        self._lock = threading.Lock()
        self.clear()


_counters: dict[Place, Counter] = {}


def counter_of(place: Place) -> Counter:
    """Return the counter of ``place``, the same one each time: a patch may be applied again."""
    found = _counters.get(place)
    return _counters.setdefault(place, Counter(place)) if found is None else found


def is_active() -> bool:
    """Return True if requests for CUDA are counted in this process: a patch that counts them has been applied."""
    return bool(_counters)


def sites(group: Optional[str] = None) -> list[Site]:
    """Return which lines have asked for CUDA in this process since it started or :func:`clear`, by file and line.

    Args:
        group: name of one patch, all of them by default.
    """
    counters = [counter for counter in list(_counters.values()) if group in (None, counter.place.group)]
    found = [site for counter in counters for site in counter.sites()]
    return sorted(found, key=lambda site: (site.file, site.line, site.place, site.before, site.kind))


def details(group: Optional[str] = None) -> list[dict[str, Any]]:
    """Return :func:`sites` as rows of a report: a flat dictionary for each.

    Args:
        group: name of one patch, all of them by default.
    """
    return [
        {
            "file": site.file,
            "line": site.line,
            "asked": site.asked,
            "got": site.after,
            "kind": site.kind,
            "patch": site.place.group,
            "count": site.count,
        }
        for site in sites(group)
    ]


def clear() -> None:
    """Forget everything counted so far."""
    for counter in list(_counters.values()):
        counter.clear()


def _forked() -> None:
    for counter in list(_counters.values()):
        counter.forked()


if hasattr(os, "register_at_fork"):  # a worker tells what it did itself
    os.register_at_fork(after_in_child=_forked)


def _root(frame: FrameType) -> str:
    """Return the package whose code runs in ``frame``."""
    name = frame.f_globals.get("__name__", "")
    root = _roots.get(name)
    if root is None:
        root = _roots[name] = str(name).partition(".")[0]
    return root


def _caller(frame: FrameType, between: frozenset[str] = _BETWEEN) -> FrameType:
    """Return the nearest frame that is not of the packages ``between``."""
    found: Optional[FrameType] = frame
    while found is not None:
        if _root(found) not in between:
            return found
        found = found.f_back
    return frame  # torch has called itself, from a thread of its own
