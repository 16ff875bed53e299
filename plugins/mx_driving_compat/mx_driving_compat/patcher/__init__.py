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
from mx_driving_compat.predefined.table import TABLE

# mx_driving.patcher.mmcv_patch and the like lie in a folder of their own.
__path__ = [*__path__, os.path.join(os.path.dirname(__file__), "libraries")]

#: The module of each public name.
_WHERE = {
    name: module
    for module, names in {
        "patcher": ("Patcher", "replace_with"),
        "patch": ("AtomicPatch", "BasePatch", "LegacyPatch", "Patch", "RegistryPatch", "with_imports"),
        "patcher_logger": ("PatchError", "configure_patcher_logging", "patcher_logger", "set_patcher_log_level"),
        "reporting": ("PatchResult", "PatchStatus"),
        "version": ("check_version", "get_version", "is_mmcv_v1x", "is_mmcv_v2x", "mmcv_version"),
        "legacy": ("LegacyPatchWrapper", "LegacyPatcherBuilder", "PatcherBuilder", "default_patcher_builder"),
        "mmcv_patch": ("ensure_mmcv_version", "patch_mmcv_version"),
    }.items()
    for name in names
}
_WHERE.update((name, entry.module) for entry in TABLE for name in entry.public_names)

__all__ = [*_WHERE, "default_patcher"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    elif name == "default_patcher":
        value = __getattr__("Patcher")().add(*_classes().DEFAULT)
    elif name == "_ALL_PATCH_CLASSES":
        value = _classes().ALL
    elif name == "_DEFAULT_PATCH_CLASSES":
        value = _classes().DEFAULT
    elif name == "_LEGACY_NAME_TO_CLASS":
        value = _classes().by_legacy_name()
    else:
        is_missing = any(name == entry.class_name and not entry.distribution for entry in TABLE)
        why = ": no plugin of patchcore patches transformers or diffusers yet" if is_missing else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{why}")
    globals()[name] = value
    return value


def _classes() -> Any:
    from mx_driving_compat.predefined import classes  # imports much that most programs do not need

    return classes


def __dir__() -> list[str]:
    return __all__
