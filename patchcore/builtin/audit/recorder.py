"""Records what an audit needs: copies of namespaces when bodies end, writes, and the import after which a change came.

:data:`RECORDER` serves the process. It starts as early as it can: changes that were made before are not seen, and an
audit says so.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import sys
import time
from threading import RLock, get_ident
from types import ModuleType
from typing import Callable, NamedTuple, Optional

from patchcore.builtin.audit.copies import MAIN, OURS, Copies, Difference
from patchcore.builtin.audit.owners import PYTHON, owner_of_module
from patchcore.builtin.audit.writes import Writes
from patchcore.builtin.imports.following import follow_imports
from patchcore.objects.modules import namespace_of
from patchcore.process import PLUGIN_MODULES

__all__ = ["RECORDER", "Recorder", "Seen"]

#: How long looking for differences between imports may take: this many seconds, and this part of the process's time.
_AT_ONCE = 0.5
_SHARE = 0.03


class Seen(NamedTuple):
    """A difference when it was first seen.

    Args:
        difference: the place, with its value then.
        after: the import that had ended before, of the outermost module; empty if there was none.
    """

    difference: Difference
    after: str


class Recorder:
    """The record of this process."""

    def __init__(self) -> None:
        self.writes = Writes(self._during)
        self.copies = Copies(self.writes.watch)
        self.seen: dict[tuple[int, str, str], list[Seen]] = {}  # by place, in order of time
        self.late: tuple[str, ...] = ()
        self.overhead = 0.0  # seconds
        self.started = False
        self.forked = False
        self.looking = True  # for differences between imports
        self._bodies: dict[int, list[str]] = {}  # by thread
        self._last = ""
        self._begun = 0.0
        self._looked = 0.0  # seconds that looking for differences has taken
        self._lock = RLock()
        self._end: Optional[Callable[[], None]] = None

    def start(self) -> None:
        """Record from now on; a second call changes nothing."""
        if self.started:
            return
        begun = time.perf_counter()
        self.started = True
        self._begun = begun
        self.late = _loaded_before()
        self.writes.start()
        self._end = follow_imports(self)
        self.copies.take_new()
        self.copies.modules = {**sys.modules, **self.copies.modules}
        self.overhead += time.perf_counter() - begun

    def stop(self) -> None:
        """Record no more."""
        if self._end is not None:
            self._end()
            self._end = None
        self.writes.stop()

    def after_fork(self) -> None:
        """Make a new lock in a child: a thread of the parent may have held the old one."""
        self._lock = RLock()
        self.forked = True

    def begins(self, name: str) -> None:
        """The body of module ``name`` is about to run."""
        self._bodies.setdefault(get_ident(), []).append(name)

    def ended(self, name: str, module: ModuleType, *, finished: bool) -> None:
        """The body of module ``name`` has ended: copy it. Between imports of the program, look for differences."""
        begun = time.perf_counter()
        bodies = self._bodies.get(get_ident(), [])
        if name in bodies:
            del bodies[bodies.index(name) :]
        with self._lock:
            if finished and name.partition(".")[0] not in OURS:
                self.copies.take(name, module)
            if not bodies:
                self._bodies.pop(get_ident(), None)
                self.copies.take_new()
                if self.looking and name.partition(".")[0] not in OURS:
                    if self._looked <= _AT_ONCE + _SHARE * (begun - self._begun):
                        self.look(after=name)
                    self._last = name
        self.overhead += time.perf_counter() - begun

    def look(self, *, after: Optional[str] = None) -> list[Difference]:
        """Return the differences now, and remember those that are new.

        Args:
            after: the import that has just ended; the last one by default.
        """
        begun = time.perf_counter()
        with self._lock:
            self.copies.take_again()
            found = list(self.copies.differences(bodies=after is None))
            for difference in found:
                states = self.seen.setdefault(difference.place, [])
                if not states or not _same_state(states[-1].difference, difference):
                    states.append(Seen(difference, self._last if after is None else after))
            current = {difference.place for difference in found}
            for place, states in self.seen.items():
                last = states[-1].difference
                if place not in current and last.kind != "body" and last.now is not last.before:  # it was undone
                    undone = last._replace(now=last.before)
                    states.append(Seen(undone, self._last if after is None else after))
        self._looked += time.perf_counter() - begun
        return found

    def _during(self) -> str:
        bodies = self._bodies.get(get_ident())
        return bodies[-1] if bodies else self._last


def _same_state(one: Difference, other: Difference) -> bool:
    if one.kind == "body":
        return all(mine is theirs for mine, theirs in zip(one.now, other.now))
    return one.now is other.now


def _loaded_before() -> tuple[str, ...]:
    """Return the top-level packages that are loaded and that neither Python nor patchcore has loaded."""
    by_site = _loaded_by_site()
    plugins = {name.partition(".")[0] for name in PLUGIN_MODULES}
    tops = {name.partition(".")[0] for name in list(sys.modules)} - OURS - plugins - by_site - {*MAIN}
    tops = {top for top in tops if not top.startswith("__editable__") and _has_file(top)}
    return tuple(sorted(top for top in tops if not owner_of_module(top).startswith((PYTHON, "<"))))


def _loaded_by_site() -> set[str]:
    """Return names in the lines of ``.pth`` files that Python's ``site`` runs before any program (docs of ``site``)."""
    folders = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    names: set[str] = set()
    for folder in folders:
        for file in glob.glob(os.path.join(glob.escape(folder), "*.pth")):
            with contextlib.suppress(OSError, UnicodeError), open(file, encoding="utf-8") as stream:
                for line in stream:
                    if line.startswith(("import ", "import\t")):
                        names.update(re.findall(r"\w+", line))
    return names


def _has_file(name: str) -> bool:
    return isinstance((namespace_of(sys.modules.get(name)) or {}).get("__file__"), str)


#: The record of this process.
RECORDER = Recorder()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RECORDER.after_fork)
