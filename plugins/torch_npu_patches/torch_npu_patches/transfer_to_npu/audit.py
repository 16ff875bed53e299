"""Counts the lines of a program that use CUDA, and records the calls that ran in their place.

Four uses are counted: an argument that names CUDA (``device="cuda:1"``, ``backend="nccl"``, also
``x.cuda()``), a device number (``x.to(0)``), a call of ``torch.cuda`` or of another function that means CUDA
(``torch.cuda.synchronize()``, ``nn.DataParallel(model)``), and a look at ``x.is_cuda``.

The line is the nearest one outside torch: for ``nn.Linear(4, 4, device="cuda")`` that is the line of the model, not the
one in torch that makes the weight. Calls of ``torch.cuda`` that torch makes itself are not counted:
``optimizer.step()`` calls ``torch.cuda.is_available()``, and the program has not called that.
"""

from __future__ import annotations

import functools
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
    "NOT_COUNTED",
    "NUMBER",
    "READ",
    "Counter",
    "Place",
    "Site",
    "WithoutCuda",
    "clear",
    "counter_of",
    "details",
    "is_active",
    "is_installed",
    "sites",
]

#: Kinds of uses.
ARGUMENT, NUMBER, CALL, READ = "argument", "number", "call", "is_cuda"

#: How a line can name CUDA without being counted: Python code sees nothing of it, or torch answers it itself.
NOT_COUNTED = (
    "other processes",
    "torch.device('cuda') alone",
    "torch.backends",
    "torch.version",
    "types such as torch.cuda.FloatTensor",
    "names that torch.npu lacks",
    "private functions",
    "TorchScript",
    "compiled code",
)

#: Packages whose frames are passed over when the caller is looked for.
_OURS = frozenset(("torch_npu_patches", "npu_emulator", "patchcore"))
#: More of them; ``""`` is code that torch has generated. torch's own decorators go through typing_extensions and
#: contextlib.
_BETWEEN = _OURS | {"", "torch", "torch_npu", "typing_extensions", "contextlib"}
_roots: dict[Any, str] = {}  # by module name

#: Folders of installed packages: files elsewhere are the program.
_INSTALLED = ("site-packages", "dist-packages")
_LIBRARY = tuple(f"{folder}/" for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})

_getframe = sys._getframe


def is_installed(file: str) -> bool:
    """Return True if ``file`` belongs to an installed package or the standard library, not to the program."""
    return file.startswith(_LIBRARY) or any(part in _INSTALLED for part in Path(file).parts)


class WithoutCuda(list[Any]):
    """A rewritten list in which nothing named CUDA: it is passed on, and the line is not shown."""


class Place(NamedTuple):
    """The called function, and the argument that names a device.

    Args:
        group: name of the patch.
        target: the called function, as in the patch.
        argument: name of the argument; empty for a function that takes no device.
    """

    group: str
    target: str
    argument: str


@dataclass(frozen=True)
class Site:
    """One line of a program that uses CUDA, and the call that ran in its place.

    Args:
        place: the called function.
        file, line: the caller outside torch.
        before, after: the device or backend in the program and its replacement, as text. For a call without a
            device these are ``""`` and the function of torch.npu, or the answer of ``is_available`` and
            ``is_cuda``.
        count: how often.
        kind: :data:`ARGUMENT`, :data:`NUMBER`, :data:`CALL` or :data:`READ`.
    """

    place: Place
    file: str
    line: int
    before: str
    after: str
    count: int
    kind: str = ARGUMENT

    @property
    def call(self) -> str:
        """The call of the line, as people write it: ``torch.zeros(device=cuda)``, ``torch.cuda.synchronize()``."""
        target = self.place.target.replace(":", ".")
        for constructor in (".__init__", ".__new__"):
            target = target[: -len(constructor)] if target.endswith(constructor) else target
        if self.kind == READ:
            return target
        is_bare = self.kind == CALL and not self.before
        return f"{target}({'' if is_bare else f'{self.place.argument}={self.before}'})"

    @property
    def installed(self) -> bool:
        """True if the line belongs to an installed package, not to the program."""
        return is_installed(self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.call} -> {self.after}, {self.count}x [{self.place.group}]"


class _Tally:
    """How often a line passed one value, and that value with its replacement: reports make text of them."""

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
    """Counts the uses of CUDA at one place; there is one for each, see :func:`counter_of`.

    After the first time at a line, counting takes one look at the caller's frame and one into a dictionary. It takes no
    lock, so that threads which run on Python 3.9 or without a GIL may lose a count; they never lose a line. Nothing is
    counted while torch.compile traces a program: it cannot trace a look at a frame.

    Attributes:
        note: counts an argument that names CUDA, ``note(before, after)``: as it was given and as it is passed on.
        note_number: counts a device number or several, ``note_number(before)``.
        note_call: counts a call of torch.cuda, ``note_call(before, after)``: the device as it was given, and as it is
            passed on if that differs; both ``None`` where none was given, both the answer of ``is_available``.
        note_read: counts a look at ``is_cuda``, ``note_read(answer, answer)``.

    All of them are called by the function that the program or torch called.
    """

    __slots__ = ("_lock", "_tallies", "note", "note_call", "note_number", "note_read", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._tallies: dict[str, _Tallies] = {kind: {} for kind in (ARGUMENT, NUMBER, CALL, READ)}
        self.note = self._noting(ARGUMENT, self._first_argument)
        self.note_number = self._noting(NUMBER, self._first_number)
        self.note_call = self._noting(CALL, functools.partial(self._first_call, CALL))
        self.note_read = self._noting(READ, functools.partial(self._first_call, READ))

    def _noting(self, kind: str, first: Callable[[FrameType, Any, Any], None]) -> Callable[..., None]:
        """Return the function that counts uses of one kind; ``first`` counts those it does not know yet."""
        tallies = self._tallies[kind]
        is_dynamo_compiling = _question_of_torch()

        def note(before: Any = None, after: Any = None) -> None:
            if is_dynamo_compiling():
                return
            frame = _getframe(2)
            try:
                tallies[id(frame.f_code), frame.f_lasti, before].count += 1
            except (KeyError, TypeError):  # TypeError: a list of devices
                first(frame, before, after)

        return note

    def _first_argument(self, frame: FrameType, before: Any, after: Any) -> None:
        is_shown = not isinstance(after, WithoutCuda)
        self._first(self._tallies[ARGUMENT], _caller(frame), before, after, is_shown).count += 1

    def _first_number(self, frame: FrameType, before: Any, _: Any) -> None:
        after = npu_number(before)
        self._first(self._tallies[NUMBER], _caller(frame), before, after, is_shown=after is not None).count += 1

    def _first_call(self, kind: str, frame: FrameType, before: Any, after: Any) -> None:
        caller = _caller(frame, _OURS)
        if _root(caller) not in _BETWEEN:
            self._first(self._tallies[kind], caller, before, after).count += 1
        elif before is None or after is None or before is after:
            self._first(self._tallies[kind], caller, before, after, is_shown=False)  # torch has called itself
        else:  # with a device that names CUDA
            self._first(self._tallies[ARGUMENT], _caller(caller), before, after).count += 1

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
        """Return the counts, one entry for each line, value and kind."""
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
        """Return the device or backend in the program and its replacement, as text."""
        before, after = tally.before, tally.after
        if kind in (ARGUMENT, NUMBER):
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
    """Return True if uses of CUDA are counted in this process: a patch that counts them has been applied."""
    return bool(_counters)


def sites(group: Optional[str] = None) -> list[Site]:
    """Return the lines that have used CUDA in this process since it started or :func:`clear`, by file and line.

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
            "cuda": site.call,
            "npu": site.after,
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


if hasattr(os, "register_at_fork"):  # a worker reports its own calls
    os.register_at_fork(after_in_child=_forked)


def _question_of_torch() -> Callable[[], bool]:
    """Return ``torch.compiler.is_dynamo_compiling``; without torch, a function that answers False."""
    never: Callable[[], bool] = bool
    return getattr(sys.modules.get("torch.compiler"), "is_dynamo_compiling", never)


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
