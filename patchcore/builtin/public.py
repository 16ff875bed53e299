"""The names of ``patchcore`` that come from built-in plugins."""

from patchcore.builtin.audit.auditing import audit
from patchcore.builtin.call.change import Call
from patchcore.builtin.each_module.change import EachModule
from patchcore.builtin.imports.changes import DummyImport, InjectImport, ReplaceImport, StubImport, WhileImporting
from patchcore.builtin.install.command import install_command
from patchcore.builtin.instances.change import Instances
from patchcore.builtin.phases.phases import reach
from patchcore.builtin.rewrite.changes import Rewrite, Rules, Source
from patchcore.builtin.verify.check import Case, Check, Size

__all__ = [
    "Call",
    "Case",
    "Check",
    "DummyImport",
    "EachModule",
    "InjectImport",
    "Instances",
    "ReplaceImport",
    "Rewrite",
    "Rules",
    "Size",
    "Source",
    "StubImport",
    "WhileImporting",
    "audit",
    "install_command",
    "reach",
]
