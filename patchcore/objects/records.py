"""Dataclasses that cost nothing until the first object is made: an import of patchcore defines more than most use."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, Callable

__all__ = ["dataclass"]

_lock = threading.RLock()

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool) -> Callable[[Any], Any]:
        """Return a decorator like :func:`dataclasses.dataclass`, which does its work when the first object is made.

        Python writes and compiles the methods of a dataclass, which takes up to a millisecond for each class. Functions
        of :mod:`dataclasses` take the objects; they do not know the class before the first one.
        """

        def decorate(cls: Any) -> Any:
            def make() -> None:
                with _lock:
                    if cls.__init__ is first:  # else another thread was faster
                        del cls.__init__
                        dataclasses.dataclass(frozen=frozen)(cls)

            def first(self: Any, *args: Any, **kwargs: Any) -> None:
                make()
                self.__init__(*args, **kwargs)

            def restore(self: Any, state: dict[str, Any]) -> None:  # pickle makes objects without calling __init__
                make()
                self.__dict__.update(state)

            cls.__init__, cls.__setstate__ = first, restore
            return cls

        return decorate
