"""patchcore: monkey patches as plugins, planned, applied on import, reported and reverted exactly."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING


def _before_fork() -> None:
    from patchcore.process import end_imports

    end_imports()


# The first statement that runs: another thread may fork the process during the imports below.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)

from patchcore.declare.changes import Literal, Register, Replace, Skip, Wait, Wrap
from patchcore.declare.patch import Patch, patch, wrap
from patchcore.declare.target import Target
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
from patchcore.objects.lazy_names import lazy_names

if TYPE_CHECKING:
    from patchcore.builtin.public import (
        Call,
        Case,
        Check,
        DummyImport,
        EachModule,
        InjectImport,
        Instances,
        ReplaceImport,
        Rewrite,
        Rules,
        Size,
        Source,
        StubImport,
        WhileImporting,
        audit,
        install_command,
        reach,
    )
    from patchcore.patcher import Patcher, apply, configure, original
    from patchcore.planning.plan import Context, Plan
    from patchcore.report import Remark, Report, Section
    from patchcore.settings import Setting, Settings

__version__ = "0.1.0"

#: The modules of the public names that are not loaded with the package: declaring patches takes no Patcher.
_LATER = {
    "patchcore.builtin.audit.auditing": ("audit",),
    "patchcore.builtin.call.change": ("Call",),
    "patchcore.builtin.each_module.change": ("EachModule",),
    "patchcore.builtin.imports.changes": (
        "DummyImport",
        "InjectImport",
        "ReplaceImport",
        "StubImport",
        "WhileImporting",
    ),
    "patchcore.builtin.instances.change": ("Instances",),
    "patchcore.builtin.install.command": ("install_command",),
    "patchcore.builtin.phases.phases": ("reach",),
    "patchcore.builtin.rewrite.changes": ("Rewrite", "Rules", "Source"),
    "patchcore.builtin.verify.check": ("Case", "Check", "Size"),
    "patchcore.patcher": ("Patcher", "apply", "configure", "original"),
    "patchcore.planning.plan": ("Context", "Plan"),
    "patchcore.report": ("Remark", "Report", "Section"),
    "patchcore.settings": ("Setting", "Settings"),
}
_MODULES = {name: module for module, names in _LATER.items() for name in names}

__all__ = [
    "Call",
    "Case",
    "Check",
    "ConflictError",
    "Context",
    "DeclarationError",
    "DummyImport",
    "EachModule",
    "InjectImport",
    "Instances",
    "Literal",
    "Patch",
    "PatchError",
    "PatchcoreError",
    "Patcher",
    "Plan",
    "PlanError",
    "PluginError",
    "Register",
    "Remark",
    "Replace",
    "ReplaceImport",
    "Report",
    "Rewrite",
    "Rules",
    "Section",
    "Setting",
    "Settings",
    "SettingsError",
    "Size",
    "Skip",
    "Source",
    "StubError",
    "StubImport",
    "Target",
    "TargetError",
    "TargetNotFound",
    "UnknownName",
    "Wait",
    "WhileImporting",
    "Wrap",
    "__version__",
    "apply",
    "audit",
    "configure",
    "hookimpl",
    "hookspec",
    "install_command",
    "original",
    "patch",
    "reach",
    "wrap",
]


__getattr__, __dir__ = lazy_names(__name__, _MODULES)
