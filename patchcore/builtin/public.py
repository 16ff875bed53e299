"""The names of ``patchcore`` that come from built-in plugins."""

from patchcore.builtin.call.change import Call
from patchcore.builtin.imports.changes import InjectImport, ReplaceImport, StubImport, WhileImporting
from patchcore.builtin.training.loops import TrainingLoop

__all__ = ["Call", "InjectImport", "ReplaceImport", "StubImport", "TrainingLoop", "WhileImporting"]
