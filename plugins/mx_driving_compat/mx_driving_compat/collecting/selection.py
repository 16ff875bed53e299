"""The patches of a patcher: those that were added, without those that were disabled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional, Union

from mx_driving_compat.patches.base import BasePatch
from mx_driving_compat.patches.group import Patch
from patchcore import DeclarationError
from patchcore.plugin import did_you_mean

__all__ = ["Chosen", "PatchClass", "Selection"]

PatchClass = type[Patch]
Options = Optional[Mapping[str, Any]]


class Chosen(NamedTuple):
    """A patch.

    Args:
        patch: the patch.
        group: name of the class that lists it; of itself for one that was added by itself.
    """

    patch: BasePatch
    group: str


class _Entry(NamedTuple):
    item: Any
    options: Options

    @property
    def is_class(self) -> bool:
        return is_patch_class(self.item)


class Selection:
    """Patches and classes in the order in which they were added, and the names that were disabled.

    Attributes:
        disabled: the names of disabled patches, classes, functions of API 1.0 or plugins' patches.
    """

    def __init__(self) -> None:
        self.disabled: set[str] = set()
        self._passed_over: set[str] = set()
        self._entries: list[_Entry] = []
        self._listed: dict[int, list[BasePatch]] = {}  # the patches of classes, by position among the entries

    def add(self, item: Union[PatchClass, BasePatch], options: Options) -> Optional[PatchClass]:
        """Add a class or a patch; return the enabled class that it conflicts with, ``None`` if there is none.

        Raises:
            TypeError: it is something else.
        """
        if not is_patch_class(item) and not isinstance(item, BasePatch):
            name = getattr(item, "__name__", repr(item))
            raise TypeError(
                f"Patcher.add: expected a Patch class or a patch, found {item!r}; write a function that patches by "
                f"hand as LegacyPatch({name}, target_module='mmcv')"
            )
        rival = None
        if isinstance(item, type):  # one of many patches has no rivals
            rival = next((other for other, _ in self.classes() if _exclude(item, other)), None)
        self._entries.append(_Entry(item, options))
        return rival

    def disable(self, *items: Union[str, PatchClass, BasePatch]) -> None:
        """Disable patches.

        Raises:
            TypeError: one of them is neither a name nor a class nor a patch.
        """
        self.disabled.update(map(_name_of, items))

    def pass_over(self, name: str) -> None:
        """Disable a name that was not added, so that it is not reported as unknown."""
        self.disabled.add(name)
        self._passed_over.add(name)

    def classes(self) -> Iterator[tuple[PatchClass, Options]]:
        """Yield the enabled classes with their options."""
        enabled = (entry for entry in self._entries if entry.is_class and not self._is_left_out(entry.item))
        return ((entry.item, entry.options) for entry in enabled)

    def patches(self, *, early: bool = False) -> list[Chosen]:
        """Return the patches in order, also those disabled by their own name; ``patches()`` of a class is called once.

        Args:
            early: return only those of classes with ``apply_before_collect``.
        """
        found: list[Chosen] = []
        for position, entry in enumerate(self._entries):
            if not entry.is_class:
                if not early:
                    found.append(Chosen(entry.item, entry.item.name))
                continue
            if self._is_left_out(entry.item) or (early and not getattr(entry.item, "apply_before_collect", False)):
                continue
            if position not in self._listed:
                self._listed[position] = list(entry.item.patches(entry.options))
            found += (Chosen(patch, entry.item.name) for patch in self._listed[position])
        return found

    def listed(self) -> Iterator[BasePatch]:
        """Yield the patches that were added, and those of classes whose ``patches()`` was called."""
        for position, entry in enumerate(self._entries):
            yield from self._listed.get(position, ()) if entry.is_class else (entry.item,)

    def is_disabled(self, patch: BasePatch) -> bool:
        """Return whether a patch is disabled by one of its names."""
        return bool(self.disabled) and not self.disabled.isdisjoint(_names_of(patch))

    def refuse_conflicts(self) -> None:
        """Raise if two enabled classes exclude each other.

        Raises:
            DeclarationError: names them, and the lines that choose one.
        """
        classes = [patch_class for patch_class, _ in self.classes()]
        for position, one in enumerate(classes):
            for other in classes[:position]:
                if _exclude(one, other):
                    raise DeclarationError(
                        f"Patch conflict: '{one.name}' conflicts with '{other.name}'. Both are enabled.\n"
                        f"{how_to_choose(one, other)}"
                    )

    def unknown_names(self, known: Iterable[str]) -> list[str]:
        """Return a message for each disabled name that no patch has.

        Args:
            known: further names of patches.
        """
        if not self.disabled:
            return []
        names = self._passed_over.union(known)
        for patch, group in self.patches():
            names.update((*_names_of(patch), group))
        for entry in self._entries:
            names.update((entry.item.name, getattr(entry.item, "legacy_name", "") or entry.item.name))
        return [
            f"disable({name!r}): there is no such patch{did_you_mean(name, names)}"
            for name in sorted(self.disabled - names)
        ]

    def _is_left_out(self, patch_class: PatchClass) -> bool:
        return not self.disabled.isdisjoint((patch_class.name, getattr(patch_class, "legacy_name", patch_class.name)))


def is_patch_class(item: Any) -> bool:
    """Return whether ``item`` is a subclass of ``Patch``, or a class with the same members."""
    if not isinstance(item, type):
        return False
    return issubclass(item, Patch) or all(hasattr(item, name) for name in ("patches", "name", "apply_all"))


def how_to_choose(one: PatchClass, other: PatchClass) -> str:
    """Return the lines of code that choose one of two conflicting classes."""
    return (
        f"Disable the one that is not wanted, which default_patcher may have, before adding the other:\n"
        f"  patcher.disable('{other.name}').add({one.__name__})\n"
        f"or keep the other one:\n"
        f"  patcher.disable('{one.name}').add({other.__name__})"
    )


def _exclude(one: PatchClass, other: PatchClass) -> bool:
    names = [getattr(patch_class, "conflicts_with", None) or () for patch_class in (one, other)]
    return one.name != other.name and (other.name in names[0] or one.name in names[1])


def _name_of(item: Any) -> str:
    if isinstance(item, str):
        return item
    if is_patch_class(item) or isinstance(item, BasePatch):
        return str(item.name)
    raise TypeError(f"Patcher.disable: expected a name, a Patch class or a patch, found {item!r}")


def _names_of(patch: BasePatch) -> set[str]:
    """Return the names by which a patch can be disabled: its own, and those of the plugin's patch around it."""
    candidate = getattr(patch, "candidate", None)
    return {patch.name} if candidate is None else {patch.name, *candidate.patch.names}
