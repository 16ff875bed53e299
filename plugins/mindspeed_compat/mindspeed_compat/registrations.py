"""Which feature has registered which function for which target."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple, Optional

from patchcore import PatchError
from patchcore.plugin import module_file, qualified_name

__all__ = [
    "FEATURES",
    "MANAGER",
    "Owner",
    "Registration",
    "Registrations",
    "RivalFeatures",
    "is_wrapper",
    "registering_owner",
]

#: The end of a name by which MindSpeed knows a wrapper.
_WRAPPERS = ("wrapper", "decorator")

#: The module of MindSpeed's manager of patches.
MANAGER = "mindspeed.patch_utils"

#: The module of its list of features.
FEATURES = "mindspeed.features_manager.features_manager"

#: The packages whose code runs between a call of ``register_patch`` and this module.
_BETWEEN = (__name__.partition(".")[0], "patchcore")


class RivalFeatures(PatchError, RuntimeError):
    """Two features replace one target. MindSpeed raises a ``RuntimeError`` here, which names neither feature."""


class Owner(NamedTuple):
    """Who registers: a feature of MindSpeed, or code outside of all features.

    Args:
        name: ``feature_name`` of the feature; else the name of the module that registers.
        where: the class of the feature, ``package.module:Class``; else that module.
        file: its source file, if known.
    """

    name: str
    where: str
    file: Optional[str]

    def __str__(self) -> str:
        return f"{self.name} ({self.where})"


class Registration(NamedTuple):
    """One call of ``register_patch``.

    Args:
        target: in MindSpeed's notation, ``package.module.Class.attribute``.
        function: the replacement, or the wrapper, which is called with the function below it.
        owner: who has registered it.
        create_dummy: whether the target is made if it does not exist.
        number: of the call, from 0.
    """

    target: str
    function: Any
    owner: Owner
    create_dummy: bool
    number: int

    @property
    def wraps(self) -> bool:
        """Whether the function is a wrapper, by MindSpeed's rule: the end of its name."""
        return is_wrapper(self.function)


class Registrations:
    """All calls of ``register_patch``, by entry of MindSpeed's own table and function."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, Registration]] = []

    def __iter__(self) -> Iterator[Registration]:
        return (registration for _, registration in self._made)

    def add(self, entry: Any, target: str, function: Any, owner: Owner) -> Registration:
        """Keep that ``owner`` has registered ``function``; return the registration.

        Args:
            entry: MindSpeed's ``Patch`` of the target.
            target, function, owner: see :class:`Registration`.
        """
        known = self.find(entry, function)
        if known is not None and known.wraps:
            return known  # MindSpeed ignores a wrapper that it has
        registration = Registration(target, function, owner, bool(entry.create_dummy), len(self._made))
        self._made.append((entry, registration))
        return registration

    def find(self, entry: Any, function: Any) -> Optional[Registration]:
        """Return the last registration of ``function`` in ``entry``, or ``None``."""
        for known, registration in reversed(self._made):
            if known is entry and registration.function is function:
                return registration
        return None

    def overruled(self, entry: Any) -> list[Registration]:
        """Return the replacements in ``entry`` that a later one has overruled with ``force_patch``, in order."""
        return [r for known, r in self._made if known is entry and not r.wraps and r.function is not entry.patch_func]

    def clear(self) -> None:
        """Forget all registrations."""
        self._made.clear()


def is_wrapper(function: Any) -> bool:
    """Return whether MindSpeed takes ``function`` for a wrapper."""
    return str(getattr(function, "__name__", "")).endswith(_WRAPPERS)


def registering_owner() -> Owner:
    """Return the feature whose method calls ``register_patch``, or the module of the caller."""
    frame: Optional[FrameType] = sys._getframe(1)
    outside = None
    while frame is not None:
        feature: Any = frame.f_locals.get("self")
        kind = type(feature)
        if hasattr(kind, "register_patches") and isinstance(getattr(feature, "feature_name", None), str):
            return Owner(feature.feature_name, ":".join(qualified_name(kind)), module_file(kind.__module__))
        name = str(frame.f_globals.get("__name__", ""))
        if outside is None and name != MANAGER and name.partition(".")[0] not in _BETWEEN:
            outside = Owner(name, name, frame.f_globals.get("__file__"))
        frame = frame.f_back
    return outside or Owner("unknown", "unknown", None)
