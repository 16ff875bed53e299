"""Names of modules and parameters: paths from the outermost module that is called."""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["Names"]

#: Modules that hand their calls to the module in their attribute ``module``: its names do not depend on them.
_WRAPPERS = frozenset(("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"))


class Names:
    """The names of all modules that were called, and of their parameters.

    A module that no other one calls is named after its class; a second one of the class gets a number.
    """

    def __init__(self) -> None:
        self._modules: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._parameters: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._classes: dict[str, int] = {}

    def add(self, root: Any) -> None:
        """Name a module that was called by none, and all in it.

        Args:
            root: a module of torch.
        """
        if root in self._modules:
            return
        inner = root
        while type(inner).__name__ in _WRAPPERS and hasattr(inner, "module"):
            inner = inner.module
        kind = type(inner).__name__
        number = self._classes[kind] = self._classes.get(kind, 0) + 1
        label = kind if number == 1 else f"{kind}#{number}"
        self._modules[root] = label
        for path, module in inner.named_modules():
            self._modules[module] = f"{label}.{path}" if path else label
        for path, parameter in inner.named_parameters():
            self._parameters[id(parameter)] = (weakref.ref(parameter), f"{label}.{path}")

    def of_module(self, module: Any) -> str:
        """Return the name of a module; of one that appeared after its root was named, the class."""
        return self._modules.get(module) or type(module).__name__

    def is_wrapper(self, module: Any) -> bool:
        """Return true for a module that only hands its call on."""
        return type(module).__name__ in _WRAPPERS and hasattr(module, "module")

    def of_parameter(self, parameter: Any, otherwise: str) -> str:
        """Return the name of a parameter, or ``otherwise`` if no module that was called has it."""
        reference, name = self._parameters.get(id(parameter), (None, ""))
        return name if reference is not None and reference() is parameter else otherwise
