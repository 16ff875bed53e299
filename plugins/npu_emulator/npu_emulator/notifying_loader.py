"""A loader that calls back when a module was executed, and a finder that gives it to the modules it knows."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Callable, Optional

__all__ = ["NotifyingFinder", "NotifyingLoader"]


class NotifyingLoader(importlib.abc.Loader):
    """Stands in for a module's loader until the module is executed, and calls back after that.

    Args:
        loader: the module's own, which the module has from then on: code may ask it for the module's source.
        executed: called with the module.
    """

    def __init__(self, loader: Any, executed: Callable[[ModuleType], object]) -> None:
        self._loader = loader
        self._executed = executed

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        """Let the loader make the module."""
        module: Optional[ModuleType] = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Let the loader execute the module, which has that loader from now on."""
        if module.__spec__ is not None and module.__spec__.loader is self:
            module.__spec__.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._executed(module)


class NotifyingFinder(importlib.abc.MetaPathFinder):
    """Finds some modules where they are, and calls back after each was executed.

    Args:
        executed: the function to call with the module, by the module's name.
    """

    def __init__(self, executed: Mapping[str, Callable[[ModuleType], object]]) -> None:
        self._executed = executed

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the spec of a module that this finder knows, or ``None`` for every other module."""
        if name not in self._executed:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = NotifyingLoader(spec.loader, self._executed[name])
        return spec
