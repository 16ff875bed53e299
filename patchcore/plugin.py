"""The names that authors of plugins import, besides those of ``patchcore``; everything else in the package is private.

Each name is imported from its own module when it is first used, so that a plugin that is only listed loads little::

    from patchcore.plugin import SlotChange, find_module, print_table

docs/reference.md lists the names by task; ``tools/public_names.py`` writes that list from :data:`TASKS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchcore.objects.lazy_names import lazy_names

if TYPE_CHECKING:
    from patchcore.builtin.call.snapshot import Snapshot as Snapshot
    from patchcore.builtin.doctor.probe import PROBE_TIMEOUT as PROBE_TIMEOUT
    from patchcore.builtin.doctor.probe import Probe as Probe
    from patchcore.builtin.doctor.probe import ProbeResult as ProbeResult
    from patchcore.builtin.doctor.probe import probe_process as probe_process
    from patchcore.builtin.doctor.probe import probe_python as probe_python
    from patchcore.builtin.drift.fingerprint import source_fingerprint as source_fingerprint
    from patchcore.builtin.explain.layers import patches_behind as patches_behind
    from patchcore.builtin.html import TablesPage as TablesPage
    from patchcore.builtin.html import TextTable as TextTable
    from patchcore.builtin.html import need_jinja as need_jinja
    from patchcore.builtin.imports.following import follow_imports as follow_imports
    from patchcore.builtin.imports.stubs import StubModule as StubModule
    from patchcore.builtin.new.about import PluginMetadata as PluginMetadata
    from patchcore.builtin.new.names import PluginNames as PluginNames
    from patchcore.builtin.new.source import PluginSource as PluginSource
    from patchcore.builtin.new.source import TitledRows as TitledRows
    from patchcore.builtin.new.templates import render_package as render_package
    from patchcore.builtin.new.templates import render_pyproject as render_pyproject
    from patchcore.builtin.run.activation import RunError as RunError
    from patchcore.builtin.run.activation import raise_failures as raise_failures
    from patchcore.builtin.run.activation import run_role as run_role
    from patchcore.builtin.run.compat import Compat as Compat
    from patchcore.builtin.run.logs import log_to_stderr as log_to_stderr
    from patchcore.builtin.run.process_report import ProcessReport as ProcessReport
    from patchcore.builtin.run.program import find_command as find_command
    from patchcore.builtin.run.roles import Engine as Engine
    from patchcore.builtin.run.session import Session as Session
    from patchcore.builtin.run.timeline import note_event as note_event
    from patchcore.builtin.shared.command_line import print_problems as print_problems
    from patchcore.builtin.shared.compilers import CompilerError as CompilerError
    from patchcore.builtin.shared.compilers import compiler_jobs as compiler_jobs
    from patchcore.builtin.shared.compilers import find_compiler as find_compiler
    from patchcore.builtin.shared.compilers import run_compiler as run_compiler
    from patchcore.builtin.shared.files import UntrustedPath as UntrustedPath
    from patchcore.builtin.shared.files import append_text as append_text
    from patchcore.builtin.shared.files import private_folder as private_folder
    from patchcore.builtin.shared.files import refuse_shared as refuse_shared
    from patchcore.builtin.shared.files import user_cache as user_cache
    from patchcore.builtin.shared.files import write_whole as write_whole
    from patchcore.builtin.shared.manifest import compare_manifests as compare_manifests
    from patchcore.builtin.shared.progress import progress as progress
    from patchcore.builtin.shared.rows import print_table as print_table
    from patchcore.builtin.shared.rows import print_text as print_text
    from patchcore.builtin.shared.sources import parse_source as parse_source
    from patchcore.builtin.upgrade.releases import unpack_sources as unpack_sources
    from patchcore.builtin.verify.framework import CPU_DEVICE as CPU_DEVICE
    from patchcore.builtin.verify.framework import GRADIENT_PREFIX as GRADIENT_PREFIX
    from patchcore.builtin.verify.framework import CallOutcome as CallOutcome
    from patchcore.builtin.verify.framework import Execution as Execution
    from patchcore.builtin.verify.framework import Framework as Framework
    from patchcore.builtin.verify.framework import flatten_values as flatten_values
    from patchcore.builtin.verify.framework import judge_difference as judge_difference
    from patchcore.builtin.verify.verify import verify as verify
    from patchcore.cli import EXIT_FINDINGS as EXIT_FINDINGS
    from patchcore.cli import EXIT_OK as EXIT_OK
    from patchcore.cli import main as main
    from patchcore.cli.options import SETTING_PREFIX as SETTING_PREFIX
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
    from patchcore.declare.patch import ANY_PATCH as ANY_PATCH
    from patchcore.declare.registries import find_table as find_table
    from patchcore.declare.slots import ClassSlot as ClassSlot
    from patchcore.declare.slots import ItemSlot as ItemSlot
    from patchcore.declare.slots import NamespaceSlot as NamespaceSlot
    from patchcore.declare.slots import Slot as Slot
    from patchcore.declare.slots import find_slot as find_slot
    from patchcore.declare.slots import slot_of as slot_of
    from patchcore.declare.target import Item as Item
    from patchcore.engine.context import WriteContext as WriteContext
    from patchcore.engine.context import Writer as Writer
    from patchcore.errors import describe_error as describe_error
    from patchcore.errors import did_you_mean as did_you_mean
    from patchcore.objects import type_slots as type_slots
    from patchcore.objects.binding import bind_like as bind_like
    from patchcore.objects.binding import copy_metadata as copy_metadata
    from patchcore.objects.binding import held_value as held_value
    from patchcore.objects.binding import make_dispatcher as make_dispatcher
    from patchcore.objects.binding import wrap_raw as wrap_raw
    from patchcore.objects.binding import wrapped_callable as wrapped_callable
    from patchcore.objects.counting import Counter as Counter
    from patchcore.objects.generated import signature_of as signature_of
    from patchcore.objects.lazy_names import private_name_getter as private_name_getter
    from patchcore.objects.modules import ABSENT as ABSENT
    from patchcore.objects.modules import StubSpec as StubSpec
    from patchcore.objects.modules import ask_finders as ask_finders
    from patchcore.objects.modules import closed_over as closed_over
    from patchcore.objects.modules import dotted_prefixes as dotted_prefixes
    from patchcore.objects.modules import executed_module as executed_module
    from patchcore.objects.modules import find_module as find_module
    from patchcore.objects.modules import is_class as is_class
    from patchcore.objects.modules import is_initializing as is_initializing
    from patchcore.objects.modules import missing_ancestor as missing_ancestor
    from patchcore.objects.modules import module_file as module_file
    from patchcore.objects.modules import namespace_of as namespace_of
    from patchcore.objects.modules import qualified_name as qualified_name
    from patchcore.objects.printable import counted as counted
    from patchcore.planning.candidates import Candidate as Candidate
    from patchcore.planning.candidates import select_patches as select_patches
    from patchcore.planning.conditions import Environment as Environment
    from patchcore.planning.distributions import version_of as version_of
    from patchcore.planning.distributions import version_of_provider as version_of_provider
    from patchcore.planning.plan import PlannedPatch as PlannedPatch
    from patchcore.planning.provenance import LOCAL_PROVENANCE as LOCAL_PROVENANCE
    from patchcore.planning.provenance import Provenance as Provenance
    from patchcore.plugins import Plugins as Plugins
    from patchcore.process import parse_decimal as parse_decimal
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
    from patchcore.stderr import print_message as print_message
    from patchcore.stdlib import add_own as add_own

#: The tasks of an author, and the names for each, with their modules.
TASKS = {
    "Declare a kind of change": {
        "patchcore.declare.changes": ("Change", "SlotChange", "resolve"),
        "patchcore.declare.declaration": ("Declaration", "as_tuple", "check_callables"),
        "patchcore.declare.target": ("Item",),
        "patchcore.declare.patch": ("ANY_PATCH",),
    },
    "Put a kind of change in force": {
        "patchcore.engine.context": ("WriteContext", "Writer"),
        "patchcore.declare.slots": ("ClassSlot", "ItemSlot", "NamespaceSlot", "Slot", "find_slot", "slot_of"),
        "patchcore.declare.registries": ("find_table",),
        "patchcore.objects.modules": ("ABSENT",),
    },
    "Build the object that takes the place of an original": {
        "patchcore.objects.binding": (
            "bind_like",
            "copy_metadata",
            "make_dispatcher",
            "held_value",
            "wrap_raw",
            "wrapped_callable",
        ),
        "patchcore.objects.counting": ("Counter",),
        "patchcore.objects.generated": ("signature_of",),
        "patchcore.builtin.shared.sources": ("parse_source",),
        "patchcore.builtin.drift.fingerprint": ("source_fingerprint",),
        "patchcore.builtin.upgrade.releases": ("unpack_sources",),
    },
    "Look at modules and objects without running their code": {
        "patchcore.objects.modules": (
            "StubSpec",
            "ask_finders",
            "closed_over",
            "executed_module",
            "find_module",
            "is_class",
            "is_initializing",
            "dotted_prefixes",
            "missing_ancestor",
            "module_file",
            "namespace_of",
            "qualified_name",
        ),
        "patchcore.objects.lazy_names": ("private_name_getter",),
        "patchcore.objects": ("type_slots",),
        "patchcore.builtin.explain.layers": ("patches_behind",),
        "patchcore.builtin.call.snapshot": ("Snapshot",),
        "patchcore.builtin.imports.following": ("follow_imports",),
        "patchcore.builtin.imports.stubs": ("StubModule",),
        "patchcore.stdlib": ("add_own",),
    },
    "Use plans, settings and reports, as hooks get and return them": {
        "patchcore.plugins": ("Plugins",),
        "patchcore.planning.candidates": ("Candidate", "select_patches"),
        "patchcore.planning.plan": ("PlannedPatch",),
        "patchcore.planning.conditions": ("Environment",),
        "patchcore.planning.distributions": ("version_of", "version_of_provider"),
        "patchcore.planning.provenance": ("LOCAL_PROVENANCE", "Provenance"),
        "patchcore.settings": ("Choice", "check_names", "check_path"),
        "patchcore.report": ("APPLIED", "ChangeRecord", "FAILED", "PENDING", "PatchRecord", "SKIPPED"),
    },
    "Add a command": {
        "patchcore.cli": ("EXIT_FINDINGS", "EXIT_OK", "main"),
        "patchcore.cli.options": ("SETTING_PREFIX", "add_format", "add_selection", "patcher_from"),
        "patchcore.cli.output": ("print_json", "print_line"),
        "patchcore.builtin.shared.command_line": ("print_problems",),
        "patchcore.builtin.shared.rows": ("print_table", "print_text"),
        "patchcore.builtin.shared.progress": ("progress",),
        "patchcore.builtin.html": ("TablesPage", "TextTable", "need_jinja"),
        "patchcore.stderr": ("print_message",),
        "patchcore.errors": ("describe_error", "did_you_mean"),
        "patchcore.objects.printable": ("counted",),
        "patchcore.process": ("parse_decimal",),
    },
    "Write files and compile code": {
        "patchcore.builtin.shared.files": (
            "UntrustedPath",
            "append_text",
            "private_folder",
            "refuse_shared",
            "user_cache",
            "write_whole",
        ),
        "patchcore.builtin.shared.compilers": ("CompilerError", "compiler_jobs", "find_compiler", "run_compiler"),
    },
    "Take part in `patchcore run`": {
        "patchcore.builtin.run.activation": ("RunError", "raise_failures", "run_role"),
        "patchcore.builtin.run.roles": ("Engine",),
        "patchcore.builtin.run.session": ("Session",),
        "patchcore.builtin.run.process_report": ("ProcessReport",),
        "patchcore.builtin.run.timeline": ("note_event",),
        "patchcore.builtin.run.program": ("find_command",),
        "patchcore.builtin.run.logs": ("log_to_stderr",),
        "patchcore.builtin.run.compat": ("Compat",),
        "patchcore.builtin.shared.manifest": ("compare_manifests",),
        "patchcore.process": ("process_rank", "rank_variable"),
    },
    "Extend `patchcore doctor`, `verify` and `new`": {
        "patchcore.builtin.doctor.probe": ("PROBE_TIMEOUT", "Probe", "ProbeResult", "probe_process", "probe_python"),
        "patchcore.builtin.verify.framework": (
            "CPU_DEVICE",
            "CallOutcome",
            "Execution",
            "Framework",
            "GRADIENT_PREFIX",
            "flatten_values",
            "judge_difference",
        ),
        "patchcore.builtin.verify.verify": ("verify",),
        "patchcore.builtin.new.about": ("PluginMetadata",),
        "patchcore.builtin.new.names": ("PluginNames",),
        "patchcore.builtin.new.source": ("PluginSource", "TitledRows"),
        "patchcore.builtin.new.templates": ("render_package", "render_pyproject"),
    },
}
_MODULES = {name: module for modules in TASKS.values() for module, names in modules.items() for name in names}

__all__ = sorted(_MODULES)

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
