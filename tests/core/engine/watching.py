"""An import watch for tests, and the modules it watches."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Callable, Optional

from patchcore.engine.importing import ImportWatch

Callback = Callable[[str, ModuleType, Mapping[str, ModuleType]], None]


class Watch:
    """An import watch that notes what it is told, and is gone at the end of the test."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ModuleType, Mapping[str, ModuleType]]] = []
        self.callback: Optional[Callback] = None
        self.watch = ImportWatch(self._imported)
        self.watched: list[tuple[str, object]] = []

    def __call__(self, *names: str) -> None:
        for name in names:
            owner = object()
            self.watch.watch(name, owner)
            self.watched.append((name, owner))

    def let_go(self, name: str) -> None:
        """Undo the first of the calls for ``name``."""
        first = next(entry for entry in self.watched if entry[0] == name)
        self.watched.remove(first)
        self.watch.unwatch(*first)

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.told]

    def end(self) -> None:
        while self.watched:
            self.watch.unwatch(*self.watched.pop())

    def ended(self, name: str, module: ModuleType) -> None:
        self.watch.executed(name, module)

    def _imported(self, name: str, module: ModuleType, fresh: Mapping[str, ModuleType]) -> None:
        self.told.append((name, module, fresh))
        if self.callback is not None:
            self.callback(name, module, fresh)


SHOP = {
    "shop": "",
    "shop.tools": "def price(): return 'original'",
    "user": "from shop.tools import price",
    "other": "",
}


def new() -> str:
    return "new"


def replace(name: str, module: ModuleType, fresh: Mapping[str, ModuleType]) -> None:
    vars(module)["price"] = new
