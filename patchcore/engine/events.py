"""Events of the engine: a patch was applied or has failed, an import that patches wait for began or ended.

The engine calls each observer, in the thread of the event and under its locks, so an observer only appends to a list.
The timeline of a run is one.
"""

from __future__ import annotations

from typing import Callable, Optional

__all__ = ["IMPORTED", "Observer", "observe", "tell"]

#: The kind of event for the import of a module that patches wait for. Every other kind is a status that a patch gets.
IMPORTED = "import"

#: Called with the kind of event, the name of the module or patch, a detail, and when the event began (seconds of
#: ``time.perf_counter``; ``None`` for an event without duration). An observer must be quick and must not raise: it runs
#: inside imports.
Observer = Callable[[str, str, str, Optional[float]], None]

_observers: list[Observer] = []


def observe(observer: Observer) -> None:
    """Call ``observer`` for every event of this process from now on."""
    if observer not in _observers:
        _observers.append(observer)


def tell(kind: str, subject: str, detail: str = "", since: Optional[float] = None) -> None:
    """Call the observers for an event; see :data:`Observer` for the arguments."""
    for observer in _observers:
        observer(kind, subject, detail, since)
