"""The interface of ``mx_driving.patcher``: API 2.0 and, under the names that it keeps for that, API 1.0.

from mx_driving.patcher import default_patcher, AtomicPatch

default_patcher.skip_import("flash_attn")
default_patcher.add(AtomicPatch("my_model.ops.attention", my_attention))
default_patcher.apply()

The modules of this package are those of ``mx_driving.patcher``. They have names only; the packages beside this one have
the code.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

# At once, unlike the other names: the import system binds the module of the same name here.
from mx_driving_compat.patcher.patcher_logger import patcher_logger as patcher_logger

# mx_driving.patcher.mmcv_patch and the like lie in a folder of their own.
__path__ = [*__path__, os.path.join(os.path.dirname(__file__), "libraries")]

#: The module of each public name, except those of predefined patches, which are in a table.
_WHERE = {
    name: f"mx_driving_compat.{module}"
    for module, names in {
        "collecting.patcher": ("Patcher", "replace_with"),
        "collecting.builder": ("LegacyPatcherBuilder", "PatcherBuilder", "default_patcher_builder"),
        "imports.with_imports": ("with_imports",),
        "messages.logger": ("PatchError", "configure_patcher_logging", "patcher_logger", "set_patcher_log_level"),
        "messages.results": ("PatchResult", "PatchStatus"),
        "patches.atomic": ("AtomicPatch",),
        "patches.base": ("BasePatch",),
        "patches.by_hand": ("LegacyPatch", "LegacyPatchWrapper"),
        "patches.group": ("Patch",),
        "patches.registry": ("RegistryPatch",),
        "predefined.mmcv_version": ("ensure_mmcv_version", "patch_mmcv_version"),
        "versions": ("check_version", "get_version", "is_mmcv_v1x", "is_mmcv_v2x", "mmcv_version"),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    value = globals()[name] = _find(name)
    return value


def _find(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    if name == "default_patcher":
        return _find("Patcher")().add(*_find("_DEFAULT_PATCH_CLASSES"))
    if name == "_DEFAULT_PATCH_CLASSES":
        return _classes().DEFAULT
    if name == "_ALL_PATCH_CLASSES":
        return _classes().ALL
    if name == "_LEGACY_NAME_TO_CLASS":
        return _classes().by_legacy_name()
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Later than at the top: many programs need no predefined patch by its name.
    from mx_driving_compat.predefined.table import TABLE

    predefined = {public: entry for entry in TABLE for public in entry.public_names}
    if name == "__all__":
        return [*_WHERE, *predefined, "default_patcher"]
    if name in predefined:
        return _classes().public_names(predefined[name].module)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _classes() -> Any:
    from mx_driving_compat.predefined import classes  # imports much that most programs do not need

    return classes


def __dir__() -> list[str]:
    return list(_find("__all__"))
