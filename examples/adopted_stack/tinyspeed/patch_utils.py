"""The manager: a place gets a replacement, wrappers on top of it, and every module that holds the original follows.

Shaped like ``mindspeed/patch_utils.py``: the end of its name says that a function is a wrapper.
"""

import importlib
import sys
from typing import Any, Callable, Optional


class Patch:
    """What is registered for one place."""

    def __init__(self, name: str) -> None:
        self.module, _, self.attribute = name.rpartition(".")
        self.replacement: Optional[Callable[..., Any]] = None
        self.wrappers: list[Callable[..., Any]] = []

    def apply(self) -> None:
        """Put the result into the module, and wherever the original is."""
        original = getattr(importlib.import_module(self.module), self.attribute)
        final = original if self.replacement is None else self.replacement
        for wrapper in self.wrappers:
            final = wrapper(final)
        for module in list(sys.modules.values()):
            if getattr(module, self.attribute, None) is original:
                setattr(module, self.attribute, final)


class PatchesManager:
    """All registrations of a process."""

    patches: dict[str, Patch] = {}

    @classmethod
    def register_patch(cls, name: str, function: Callable[..., Any]) -> None:
        """Register a replacement, or a wrapper, of a place."""
        patch = cls.patches.setdefault(name, Patch(name))
        if function.__name__.endswith(("wrapper", "decorator")):
            patch.wrappers.append(function)
        else:
            patch.replacement = function

    @classmethod
    def apply_patches(cls) -> None:
        """Apply everything that is registered."""
        for patch in cls.patches.values():
            patch.apply()
