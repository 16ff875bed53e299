"""Events: what happens to patches and to the imports that they wait for, for those who keep a record of it."""

from __future__ import annotations

from typing import Callable, Optional

__all__ = ["IMPORTED", "Observer", "observe", "tell"]

#: A module that patches wait for was imported. The other kinds of event are the statuses that patches get.
IMPORTED = "import"

#: Called with the kind of event, the module or patch, what else there is to say, and when it began (seconds of
#: ``time.perf_counter``; ``None`` for a moment). Takes a microsecond or two, and raises nothing.
Observer = Callable[[str, str, str, Optional[float]], None]

_observers: list[Observer] = []


def observe(observer: Observer) -> None:
    """Have every event of this process told to ``observer`` from now on."""
    if observer not in _observers:
        _observers.append(observer)


def tell(kind: str, subject: str, detail: str = "", since: Optional[float] = None) -> None:
    """Tell the observers what has just happened; see :data:`Observer`."""
    for observer in _observers:
        observer(kind, subject, detail, since)
