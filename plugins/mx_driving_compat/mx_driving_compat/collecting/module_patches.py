"""Adds the patches of API 1.0, which are listed by the module that they are for, to what a patcher has."""

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
    """Add the patches of each module to a selection, by priority; those of the blacklist are left out.

    A predefined function is its predefined patch, whichever module it was added for; a function that merely has the
    name of one is itself.

    Args:
        selection: of a patcher.
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
                if rival is not None:  # of functions that overwrite each other the last one counts
                    patcher_logger.warning(f"Patch '{predefined.name}' takes the place of '{rival.name}'.")
                    selection.disable(rival)
            else:
                selection.add(WrappedPatch(wrapper, module), None)
    selection.disable(*left_out)
