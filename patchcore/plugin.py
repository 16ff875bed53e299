"""What authors of plugins import, besides what ``patchcore`` itself offers: all else in the package is private.

Each name is imported from its own module when it is first used, so that a plugin that is only listed loads little::

    from patchcore.plugin import SlotChange, find_module, print_table

docs/reference.md lists the names by what they are for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchcore.builtin.call.snapshot import Snapshot as Snapshot
    from patchcore.builtin.doctor.probe import PATIENCE as PATIENCE
    from patchcore.builtin.doctor.probe import PYTHON as PYTHON
    from patchcore.builtin.doctor.probe import Probe as Probe
    from patchcore.builtin.doctor.probe import Sight as Sight
    from patchcore.builtin.doctor.probe import in_python as in_python
    from patchcore.builtin.doctor.probe import look as look
    from patchcore.builtin.html import TablesPage as TablesPage
    from patchcore.builtin.html import TextTable as TextTable
    from patchcore.builtin.html import need_jinja as need_jinja
    from patchcore.builtin.imports.stubs import StubModule as StubModule
    from patchcore.builtin.new.about import About as About
    from patchcore.builtin.new.names import Names as Names
    from patchcore.builtin.new.source import PluginSource as PluginSource
    from patchcore.builtin.new.source import Table as Table
    from patchcore.builtin.new.templates import package_docstring as package_docstring
    from patchcore.builtin.new.templates import pyproject as pyproject
    from patchcore.builtin.run.activation import RunError as RunError
    from patchcore.builtin.run.activation import active as active
    from patchcore.builtin.run.compat import Compat as Compat
    from patchcore.builtin.run.logs import log_to_stderr as log_to_stderr
    from patchcore.builtin.run.process_report import ProcessReport as ProcessReport
    from patchcore.builtin.run.program import find_command as find_command
    from patchcore.builtin.run.roles import MAIN as MAIN
    from patchcore.builtin.run.roles import RANK as RANK
    from patchcore.builtin.run.roles import present_role as present_role
    from patchcore.builtin.run.session import Session as Session
    from patchcore.builtin.run.timeline import COMPARED as COMPARED
    from patchcore.builtin.run.timeline import TIMELINE as TIMELINE
    from patchcore.builtin.shared.command_line import print_problems as print_problems
    from patchcore.builtin.shared.files import UntrustedPath as UntrustedPath
    from patchcore.builtin.shared.files import append as append
    from patchcore.builtin.shared.files import private_folder as private_folder
    from patchcore.builtin.shared.files import refuse_shared as refuse_shared
    from patchcore.builtin.shared.files import user_cache as user_cache
    from patchcore.builtin.shared.files import write_whole as write_whole
    from patchcore.builtin.shared.manifest import compare as compare
    from patchcore.builtin.shared.progress import progress as progress
    from patchcore.builtin.shared.rows import print_table as print_table
    from patchcore.builtin.shared.rows import print_text as print_text
    from patchcore.builtin.shared.sources import parse as parse
    from patchcore.builtin.verify.framework import CPU as CPU
    from patchcore.builtin.verify.framework import GRADIENT as GRADIENT
    from patchcore.builtin.verify.framework import Execution as Execution
    from patchcore.builtin.verify.framework import Framework as Framework
    from patchcore.builtin.verify.framework import Outcome as Outcome
    from patchcore.builtin.verify.framework import flatten as flatten
    from patchcore.builtin.verify.framework import judge as judge
    from patchcore.builtin.verify.verify import verify as verify
    from patchcore.cli import FINDINGS as FINDINGS
    from patchcore.cli import OK as OK
    from patchcore.cli import main as main
    from patchcore.cli.options import SETTING as SETTING
    from patchcore.cli.options import add_format as add_format
    from patchcore.cli.options import add_selection as add_selection
    from patchcore.cli.options import patcher_from as patcher_from
    from patchcore.cli.output import print_json as print_json
    from patchcore.cli.output import print_line as print_line
    from patchcore.declare.changes import Change as Change
    from patchcore.declare.changes import SlotChange as SlotChange
    from patchcore.declare.changes import resolve as resolve
    from patchcore.declare.declaration import Declaration as Declaration
    from patchcore.declare.declaration import as_tuple as as_tuple
    from patchcore.declare.declaration import check_callables as check_callables
    from patchcore.declare.patch import ANY as ANY
    from patchcore.declare.registries import find_table as find_table
    from patchcore.declare.slots import ClassSlot as ClassSlot
    from patchcore.declare.slots import ItemSlot as ItemSlot
    from patchcore.declare.slots import NamespaceSlot as NamespaceSlot
    from patchcore.declare.slots import Slot as Slot
    from patchcore.declare.slots import find_slot as find_slot
    from patchcore.declare.slots import slot_of as slot_of
    from patchcore.declare.target import Item as Item
    from patchcore.engine.application import Application as Application
    from patchcore.engine.application import ChangeState as ChangeState
    from patchcore.engine.engine import ENGINE as ENGINE
    from patchcore.engine.engine import Engine as Engine
    from patchcore.engine.journal import Layer as Layer
    from patchcore.engine.rebinding import Moves as Moves
    from patchcore.engine.writers import Host as Host
    from patchcore.engine.writers import Writer as Writer
    from patchcore.errors import describe_error as describe_error
    from patchcore.errors import did_you_mean as did_you_mean
    from patchcore.objects.binding import bind_like as bind_like
    from patchcore.objects.binding import copy_metadata as copy_metadata
    from patchcore.objects.binding import dispatch as dispatch
    from patchcore.objects.binding import reference as reference
    from patchcore.objects.binding import wrapped_callable as wrapped_callable
    from patchcore.objects.counting import Counter as Counter
    from patchcore.objects.generated import signature_of as signature_of
    from patchcore.objects.modules import ABSENT as ABSENT
    from patchcore.objects.modules import StubSpec as StubSpec
    from patchcore.objects.modules import ask_finders as ask_finders
    from patchcore.objects.modules import closed_over as closed_over
    from patchcore.objects.modules import executed_module as executed_module
    from patchcore.objects.modules import find_module as find_module
    from patchcore.objects.modules import is_class as is_class
    from patchcore.objects.modules import is_initializing as is_initializing
    from patchcore.objects.modules import lineage as lineage
    from patchcore.objects.modules import missing_ancestor as missing_ancestor
    from patchcore.objects.modules import module_file as module_file
    from patchcore.objects.modules import namespace as namespace
    from patchcore.objects.modules import qualified_name as qualified_name
    from patchcore.objects.printable import counted as counted
    from patchcore.objects.private_names import reader as reader
    from patchcore.planning.conditions import Environment as Environment
    from patchcore.planning.distributions import version_of as version_of
    from patchcore.planning.distributions import version_of_provider as version_of_provider
    from patchcore.planning.plan import Candidate as Candidate
    from patchcore.planning.plan import PlannedPatch as PlannedPatch
    from patchcore.planning.plan import select as select
    from patchcore.planning.provenance import LOCAL as LOCAL
    from patchcore.planning.provenance import Provenance as Provenance
    from patchcore.plugins import Plugins as Plugins
    from patchcore.process import decimal as decimal
    from patchcore.process import process_rank as process_rank
    from patchcore.process import rank_variable as rank_variable
    from patchcore.report import APPLIED as APPLIED
    from patchcore.report import FAILED as FAILED
    from patchcore.report import PENDING as PENDING
    from patchcore.report import SKIPPED as SKIPPED
    from patchcore.report import ChangeRecord as ChangeRecord
    from patchcore.report import PatchRecord as PatchRecord
    from patchcore.settings import Choice as Choice
    from patchcore.settings import check_names as check_names
    from patchcore.settings import check_path as check_path
    from patchcore.stderr import say as say
    from patchcore.stdlib import add_own as add_own

#: The public names by module.
_NAMES = {
    # Kinds of change: declarations, slots, and the writer of a kind
    "patchcore.declare.changes": ("Change", "SlotChange", "resolve"),
    "patchcore.declare.declaration": ("Declaration", "as_tuple", "check_callables"),
    "patchcore.declare.target": ("Item",),
    "patchcore.declare.slots": ("ClassSlot", "ItemSlot", "NamespaceSlot", "Slot", "find_slot", "slot_of"),
    "patchcore.declare.registries": ("find_table",),
    "patchcore.declare.patch": ("ANY",),
    "patchcore.engine.application": ("Application", "ChangeState"),
    "patchcore.engine.engine": ("ENGINE", "Engine"),
    "patchcore.engine.journal": ("Layer",),
    "patchcore.engine.rebinding": ("Moves",),
    "patchcore.engine.writers": ("Host", "Writer"),
    # Python objects: modules, functions, and products of changes
    "patchcore.objects.modules": (
        "ABSENT",
        "StubSpec",
        "ask_finders",
        "closed_over",
        "executed_module",
        "find_module",
        "is_class",
        "is_initializing",
        "lineage",
        "missing_ancestor",
        "module_file",
        "namespace",
        "qualified_name",
    ),
    "patchcore.objects.binding": ("bind_like", "copy_metadata", "dispatch", "reference", "wrapped_callable"),
    "patchcore.objects.counting": ("Counter",),
    "patchcore.objects.generated": ("signature_of",),
    "patchcore.objects.private_names": ("reader",),
    "patchcore.builtin.call.snapshot": ("Snapshot",),
    "patchcore.builtin.imports.stubs": ("StubModule",),
    "patchcore.builtin.shared.sources": ("parse",),
    "patchcore.stdlib": ("add_own",),
    # Plans, plugins, settings and reports, as hooks get and return them
    "patchcore.planning.plan": ("Candidate", "PlannedPatch", "select"),
    "patchcore.planning.conditions": ("Environment",),
    "patchcore.planning.distributions": ("version_of", "version_of_provider"),
    "patchcore.planning.provenance": ("LOCAL", "Provenance"),
    "patchcore.plugins": ("Plugins",),
    "patchcore.settings": ("Choice", "check_names", "check_path"),
    "patchcore.report": ("APPLIED", "ChangeRecord", "FAILED", "PENDING", "PatchRecord", "SKIPPED"),
    # Commands: options, messages, tables, files and pages
    "patchcore.cli": ("FINDINGS", "OK", "main"),
    "patchcore.cli.options": ("SETTING", "add_format", "add_selection", "patcher_from"),
    "patchcore.cli.output": ("print_json", "print_line"),
    "patchcore.errors": ("describe_error", "did_you_mean"),
    "patchcore.objects.printable": ("counted",),
    "patchcore.stderr": ("say",),
    "patchcore.builtin.shared.command_line": ("print_problems",),
    "patchcore.builtin.shared.rows": ("print_table", "print_text"),
    "patchcore.builtin.shared.progress": ("progress",),
    "patchcore.builtin.shared.files": (
        "UntrustedPath",
        "append",
        "private_folder",
        "refuse_shared",
        "user_cache",
        "write_whole",
    ),
    "patchcore.builtin.html": ("TablesPage", "TextTable", "need_jinja"),
    "patchcore.builtin.shared.manifest": ("compare",),
    # Hooks of built-in plugins: run, doctor, verify, new
    "patchcore.process": ("decimal", "process_rank", "rank_variable"),
    "patchcore.builtin.run.activation": ("RunError", "active"),
    "patchcore.builtin.run.compat": ("Compat",),
    "patchcore.builtin.run.logs": ("log_to_stderr",),
    "patchcore.builtin.run.process_report": ("ProcessReport",),
    "patchcore.builtin.run.program": ("find_command",),
    "patchcore.builtin.run.roles": ("MAIN", "RANK", "present_role"),
    "patchcore.builtin.run.timeline": ("COMPARED", "TIMELINE"),
    "patchcore.builtin.doctor.probe": ("PATIENCE", "PYTHON", "Probe", "Sight", "in_python", "look"),
    "patchcore.builtin.verify.framework": ("CPU", "Execution", "Framework", "GRADIENT", "Outcome", "flatten", "judge"),
    "patchcore.builtin.new.about": ("About",),
    "patchcore.builtin.new.names": ("Names",),
    "patchcore.builtin.new.source": ("PluginSource", "Table"),
    "patchcore.builtin.new.templates": ("package_docstring", "pyproject"),
    "patchcore.builtin.verify.verify": ("verify",),
    "patchcore.builtin.run.session": ("Session",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
