"""``Patch``: a group of patches."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from mx_driving_compat.messages.results import PatchResult, PatchStatus
from mx_driving_compat.patches.base import BasePatch
from mx_driving_compat.patches.by_hand import LegacyPatchWrapper

__all__ = ["Patch"]

Options = Optional[Mapping[str, Any]]


class _PatchMeta(ABCMeta):
    """Makes ``Patch(function)`` return a patch of API 1.0."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        function = args[0] if args else kwargs.get("func")
        if cls.__module__ == __name__ and cls.__name__ == "Patch" and callable(function):
            return LegacyPatchWrapper(*args, **kwargs)
        return super().__call__(*args, **kwargs)


class Patch(BasePatch, metaclass=_PatchMeta):
    """A group of patches: a class that lists them (API 2.0). Called with a function, a patch of API 1.0.

    A subclass gives :meth:`patches`; patchers take the class itself. ``Patch(func, options=None, priority=0,
    patch_failure_warning=True)`` is a :class:`~mx_driving_compat.patches.by_hand.LegacyPatchWrapper`.
    """

    #: Its name in ``disable`` and in messages; by default the name of the class.
    name: str = None  # type: ignore[assignment]  # __init_subclass__ sets it
    #: Whether to apply it before the ``patches()`` of other classes are called: these may import the library that it
    #: repairs.
    apply_before_collect = False
    #: Names of patches that cannot be applied together with it.
    conflicts_with: Sequence[str] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__dict__.get("name"):
            cls.name = cls.__name__

    @classmethod
    @abstractmethod
    def patches(cls, options: Options = None) -> list[BasePatch]:
        """Return the patches; called when they are applied.

        Args:
            options: from ``add(..., options=...)``.
        """

    @classmethod
    def apply_all(cls, options: Options = None) -> list[PatchResult]:
        """Apply its patches without a patcher; return the outcome of each. They stay applied."""
        return [patch.apply() for patch in cls.patches(options)]

    def apply(self) -> PatchResult:
        """Apply its patches; return their outcome as one."""
        statuses = [result.status for result in type(self).apply_all()]
        for status in (PatchStatus.FAILED, PatchStatus.APPLIED):
            count = statuses.count(status)
            if count:
                return PatchResult(status, self.name, "", f"{count} patches {status.value}")
        return PatchResult(PatchStatus.SKIPPED, self.name, "", "all patches skipped")

    def __iter__(self) -> Iterator[BasePatch]:
        return iter(self.patches())

    def __repr__(self) -> str:
        return f"Patch({self.name})"
