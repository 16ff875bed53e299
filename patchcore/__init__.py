"""patchcore: monkey patches as plugins, planned, applied on import, reported and reverted exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchcore.changes import Call, Literal, Register, Replace, Skip, Wrap
from patchcore.check import Case, Check, Size
from patchcore.errors import (
    ConflictError,
    DeclarationError,
    PatchcoreError,
    PatchError,
    PlanError,
    PluginError,
    SettingsError,
    StubError,
    TargetError,
    TargetNotFound,
    UnknownName,
)
from patchcore.hookspecs import hookimpl, hookspec
from patchcore.patch import Patch, patch, wrap
from patchcore.target import Target

if TYPE_CHECKING:
    from patchcore.import_changes import InjectImport, ReplaceImport, StubImport, WhileImporting
    from patchcore.patcher import Context, Patcher, apply
    from patchcore.plan import Plan
    from patchcore.report import Report, Section
    from patchcore.settings import Settings
    from patchcore.training.loops import TrainingLoop

__version__ = "0.1.0"

__all__ = [
    "Call",
    "Case",
    "Check",
    "ConflictError",
    "Context",
    "DeclarationError",
    "InjectImport",
    "Literal",
    "Patch",
    "PatchError",
    "PatchcoreError",
    "Patcher",
    "Plan",
    "PlanError",
    "PluginError",
    "Register",
    "Replace",
    "ReplaceImport",
    "Report",
    "Section",
    "Settings",
    "SettingsError",
    "Size",
    "Skip",
    "StubError",
    "StubImport",
    "Target",
    "TargetError",
    "TargetNotFound",
    "TrainingLoop",
    "UnknownName",
    "WhileImporting",
    "Wrap",
    "__version__",
    "apply",
    "hookimpl",
    "hookspec",
    "patch",
    "wrap",
]

#: Where each public name comes from that is not loaded with the package: declaring patches takes no Patcher.
_LAZY = {
    "Context": "patchcore.patcher",
    "InjectImport": "patchcore.import_changes",
    "Patcher": "patchcore.patcher",
    "Plan": "patchcore.plan",
    "ReplaceImport": "patchcore.import_changes",
    "Report": "patchcore.report",
    "Section": "patchcore.report",
    "Settings": "patchcore.settings",
    "StubImport": "patchcore.import_changes",
    "WhileImporting": "patchcore.import_changes",
    "TrainingLoop": "patchcore.training.loops",
    "apply": "patchcore.patcher",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
