"""Adds patches of API 1.0, which are listed by module, to a patcher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Union

from mx_driving_compat.collecting.selection import Selection
from mx_driving_compat.messages.logger import patcher_logger
from mx_driving_compat.patches.by_hand import LegacyPatchWrapper, WrappedPatch
from mx_driving_compat.predefined.classes import patch_of

__all__ = ["ModulePatches", "add_module_patches"]

#: Patches by the name of the module that their functions are given.
ModulePatches = Mapping[str, Union[LegacyPatchWrapper, Sequence[LegacyPatchWrapper]]]


def add_module_patches(selection: Selection, module_patches: ModulePatches, blacklist: Iterable[str] = ()) -> None:
    """Add the patches of each module, sorted by priority, except those of the blacklist.

    A function of a predefined patch adds that patch, whichever module is given. A function of the migration that has
    the same name as a predefined one is run itself.

    Args:
        selection: the patches of a patcher.
        module_patches: by the name of the module that functions are given.
        blacklist: names of functions.
    """
    left_out = set(blacklist)
    for module, wrappers in module_patches.items():
        listed = [wrappers] if isinstance(wrappers, LegacyPatchWrapper) else wrappers
        for wrapper in sorted(listed):
            if wrapper.name in left_out:
                selection.pass_over(wrapper.name)
                continue
            predefined = patch_of(wrapper.func)
            if predefined is not None:
                rival = selection.add(predefined, wrapper.options or None)
                if rival is not None:  # as in API 1.0, where the last function overwrote the first
                    patcher_logger.warning(f"Patch '{predefined.name}' takes the place of '{rival.name}'.")
                    selection.disable(rival)
            else:
                selection.add(WrappedPatch(wrapper, module), None)
    selection.disable(*left_out)
