"""Writers, guards, marks, handovers and registry tables of plugins, for the patches of the Patchers that loaded them.

Each patch in force carries the :class:`Extensions` of the Patcher that applied it first. While one of its changes is
written, or built again, they are the extensions :func:`in_use` of this thread. So a change, of any kind and plugin,
is built by ``change.build(below, slot)``, and the functions that make the product look up marks and handovers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Callable

__all__ = ["NONE", "Extensions", "in_use", "using"]


class Extensions:
    """Writers, guards, marks, handovers and tables, of the plugins of one Patcher or of several that share them.

    Args:
        writers: factories of writers, or their targets, by key of the class of change; see ``register_writers``.
        guards: functions or their targets; see the hook ``register_guards``.
        marks: likewise, see ``register_marks``.
        handovers: likewise, see ``register_handovers``.
        tables: names of attributes in which registries keep their entries; see ``registry_tables``.

    Attributes:
        guards, marks, handovers: the functions; empty until :meth:`load` has imported them.
        writers_in_use: the writers by class of change; the engine fills this.
    """

    def __init__(
        self,
        *,
        writers: Mapping[str, Any] = {},
        guards: Iterable[Any] = (),
        marks: Iterable[Any] = (),
        handovers: Iterable[Any] = (),
        tables: Iterable[str] = (),
    ) -> None:
        self.writers = writers
        self.tables = tuple(dict.fromkeys(tables))
        self.guards: tuple[Callable[..., Any], ...] = ()
        self.marks: tuple[Callable[..., Any], ...] = ()
        self.handovers: tuple[Callable[..., Any], ...] = ()
        self.writers_in_use: dict[type, Any] = {}
        self._declared = [tuple(each) for each in (guards, marks, handovers)]
        self._is_loaded = not any(self._declared)

    def load(self, resolve: Callable[[Any], Any]) -> None:
        """Import the functions that are given as targets; happens once, before the first change is written.

        Args:
            resolve: returns the function for a declared function or target. An exception fails the patch.
        """
        if not self._is_loaded:
            functions = [tuple(dict.fromkeys(map(resolve, each))) for each in self._declared]
            self.guards, self.marks, self.handovers = functions
            self._is_loaded = True


#: Those of a Patcher without plugins.
NONE = Extensions()

_in_use: ContextVar[Extensions] = ContextVar("_in_use", default=NONE)


def in_use() -> Extensions:
    """Return the extensions of the patch that this thread writes; :data:`NONE` if it writes none."""
    return _in_use.get()


@contextlib.contextmanager
def using(extensions: Extensions) -> Iterator[None]:
    """Make ``extensions`` those :func:`in_use` inside the block, in this thread."""
    before = _in_use.set(extensions)
    try:
        yield
    finally:
        _in_use.reset(before)
