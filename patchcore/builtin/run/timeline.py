"""The timeline of this process: when the run was activated, awaited modules imported, patches applied.

Noting something takes about a microsecond and no system call; all other work is done when the view is made.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Container
from typing import Any, NamedTuple, Optional

from patchcore.engine.events import IMPORTED, observe

__all__ = ["AWAKE", "COMPARED", "FORKED", "IMPORTED", "LIMIT", "TIMELINE", "Event", "Timeline", "process_start"]

#: The kinds of events, besides the statuses ``applied``, ``failed`` and ``reverted`` of patches.
AWAKE = "awake"
COMPARED = "compared"
FORKED = "forked"

#: How many events a process remembers; later ones are counted only.
LIMIT = 2000


class Event(NamedTuple):
    """An event of this process.

    Args:
        kind: ``awake``, ``import``, ``compared``, ``forked``, or the status that a patch got.
        subject: the module or patch; empty for an event of the process itself.
        detail: further text, for example a reason.
        begin: when it began, in seconds of ``time.perf_counter``.
        took: how long it lasted, in seconds; ``None`` for a moment.
    """

    kind: str
    subject: str
    detail: str
    begin: float
    took: Optional[float]


class Timeline:
    """The events of this process, in the order in which they ended."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._lock = threading.RLock()  # a signal handler may come back
        self._events: list[Event] = []
        self._left_out = 0

    def note(self, kind: str, subject: str = "", detail: str = "", *, since: Optional[float] = None) -> None:
        """Note an event that has just ended.

        Args:
            kind, subject, detail: see :class:`Event`.
            since: when it began, in seconds of ``time.perf_counter``; ``None`` for a moment.
        """
        now = time.perf_counter()
        event = Event(kind, subject, detail, *((now, None) if since is None else (since, now - since)))
        with self._lock:
            if len(self._events) < self._limit:
                self._events.append(event)
            else:
                self._left_out += 1

    def view(self, patches: Optional[Container[str]] = None) -> dict[str, Any]:
        """Return the timeline as plain dictionaries and lists.

        Args:
            patches: names of the patches whose statuses are wanted; all by default.

        Returns:
            ``started``, when the process did (seconds since the epoch); ``events``, each with ``at`` and ``took`` in
            seconds, the former since that start; ``left_out``, how many were too many to be remembered.
        """
        with self._lock:
            events, left_out = list(self._events), self._left_out
        started = process_start()
        origin = started - (time.time() - time.perf_counter())  # on the clock of the events
        wanted = (
            e
            for e in events
            if patches is None or e.kind not in ("applied", "failed", "reverted") or e.subject in patches
        )
        return {
            "started": round(started, 3),
            "events": [
                {
                    "at": round(event.begin - origin, 4),
                    "took": None if event.took is None else round(event.took, 4),
                    "kind": event.kind,
                    "subject": event.subject,
                    "detail": event.detail,
                }
                for event in wanted
            ],
            "left_out": left_out,
        }

    def after_fork(self) -> None:
        """Drop all events in the child of a fork: they are its parent's."""
        self._lock = threading.RLock()  # a signal handler may come back
        self._events, self._left_out = [], 0
        self.note(FORKED, detail=f"from process {os.getppid()}")


#: When this file was executed, for systems without the start time of a process.
_LOADED = time.time()


def process_start() -> float:
    """Return when this process started, in seconds since the epoch.

    After ``exec`` that is the start of the program before. Only Linux has it (``/proc/self/stat``, field 22, in clock
    ticks since boot: proc_pid_stat(5)); elsewhere it is the time at which patchcore was loaded.
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name before it may have spaces
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return _LOADED
    return time.time() - age if age >= 0 else _LOADED


#: The timeline of this process.
TIMELINE = Timeline()
observe(lambda kind, subject, detail, since: TIMELINE.note(kind, subject, detail, since=since))
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TIMELINE.after_fork)


def note_event(kind: str, subject: str = "", detail: str = "", *, since: Optional[float] = None) -> None:
    """Add an event that has just happened to the timeline of this process, which its report shows.

    Args:
        kind, subject, detail: see :class:`Event`.
        since: when it began, in seconds of ``time.perf_counter``; ``None`` for a moment.

    Examples:
        >>> note_event("compared", detail="8 ranks have the same patches")
    """
    TIMELINE.note(kind, subject, detail, since=since)
