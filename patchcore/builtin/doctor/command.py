"""``patchcore doctor``: everything about this environment that decides how patches behave."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from patchcore import __version__
from patchcore.builtin.check import command as check
from patchcore.builtin.doctor.probe import UNPATCHED
from patchcore.builtin.imports.askers import askers
from patchcore.builtin.imports.changes import DummyImport, StubImport
from patchcore.builtin.run.session import Session
from patchcore.builtin.shared.finding import Finding
from patchcore.builtin.shared.rows import print_table
from patchcore.cli import options as shared
from patchcore.cli.output import print_error, print_json, print_line
from patchcore.errors import PatchError
from patchcore.objects.modules import find_module
from patchcore.objects.printable import counted, printable
from patchcore.patcher import Patcher
from patchcore.planning.conditions import APPLY, Environment
from patchcore.planning.plan import Plan
from patchcore.process import process_rank, rank_variable

__all__ = ["add_arguments", "main"]

#: The values of libraries that are not installed and of modules that are not there, and the name of all the latter.
_NOT_INSTALLED = "not installed"
_NOT_THERE = "neither installed nor emulated: patches that need it are skipped"
_NEEDED = "missing"

#: Topic, name and value.
Fact = tuple[str, str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "Show what in this environment affects patches, and what patchcore check finds."
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument(
        "--apply", action="store_true", help="also import every target, apply the patches and look for stale references"
    )
    parser.add_argument(
        "--workers",
        action="store_true",
        help="also start child processes of each kind, as patchcore run does, and show which are patched",
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="show each missing library and each default setting on its own line",
    )
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the facts; return 1 if a fact needs attention."""
    patcher = shared.patcher_from(options)
    plan = patcher.plan()
    late = list(_late(plan))  # before check imports the targets
    facts = [
        *_interpreter(),
        *_plugins(patcher, plan),
        *_libraries(patcher),
        *_emulated_devices(patcher),
        *_settings(patcher),
        *_imports(),
        *_sections(patcher),
    ]
    found = check.look(patcher, apply=options.apply)
    found.findings.extend(late)
    workers = _workers(patcher) if options.workers else []
    found.findings.extend(Finding("worker", w["kind"], w["detail"]) for w in workers if w["result"] == UNPATCHED)
    stale = _stale_references(patcher) if options.apply else []
    if options.format == "json":
        print_json(
            {
                "facts": [dict(zip(("topic", "name", "value"), fact)) for fact in facts],
                **found.to_dict(),
                "workers": workers,
                "stale_references": [dict(zip(("patch", "target", "place"), reference)) for reference in stale],
            }
        )
    else:
        print_table("Environment", ("TOPIC", "NAME", "VALUE"), facts if options.verbose else _in_short(facts))
        print_line()
        if workers:
            rows = [(worker["kind"], worker["result"], worker["detail"]) for worker in workers]
            print_table("Child processes", ("KIND", "RESULT", "DETAIL"), rows)
            print_line()
        if stale:
            title = "Stale references: they refer to the original while the patch is applied"
            print_table(title, ("PATCH", "TARGET", "PLACE"), stale)
            print_line()
        check.print_findings(found)
    return 1 if found.findings else 0


def _late(plan: Plan) -> Iterator[Finding]:
    """Yield a finding for each stub and dummy that comes too late: modules are imported already that asked for it."""
    for entry in plan:
        changes = entry.patch.changes if entry.verdict == APPLY else ()
        names = [change.target.module for change in changes if isinstance(change, (DummyImport, StubImport))]
        asked = {name: modules for name, modules in ((name, askers(name)) for name in names) if modules}
        for name, modules in asked.items():
            if not any(other.startswith(f"{name}.") for other in asked):  # the package of another one
                yield Finding(
                    "late",
                    entry.patch.name,
                    f"{', '.join(modules)}, imported before the patches are applied, asked for {name}: it was missing "
                    "then. Import that later, or apply the patches earlier",
                )


def _in_short(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts with one line for missing libraries, one for missing modules, one for settings at defaults."""
    together: dict[tuple[str, str], list[str]] = {}
    for topic, name, value in facts:
        together.setdefault((topic, _shared(topic, value)), []).append(name)
    short: dict[tuple[str, str], Fact] = {}  # the first of those that go together stands for all
    for topic, name, value in facts:
        label = _shared(topic, value)
        names = ", ".join(together[topic, label])
        fact = (topic, label, names if label != _NEEDED else f"{names}: {value}") if label else (topic, name, value)
        short.setdefault((topic, label or f"{name} {value}"), fact)
    return list(short.values())


def _shared(topic: str, value: str) -> str:
    """Return the heading of the line that a fact shares with others; empty for a fact with a line of its own."""
    if topic == "setting":
        return "at defaults" if value.endswith("(from default)") else ""
    return {_NOT_INSTALLED: _NOT_INSTALLED, _NOT_THERE: _NEEDED}.get(value, "")


def _interpreter() -> list[Fact]:
    return [
        ("interpreter", "python", f"{platform.python_version()} ({sys.executable})"),
        ("interpreter", "platform", platform.platform()),
        ("interpreter", "patchcore", __version__),
        ("interpreter", "rank", f"{process_rank()} (from {rank_variable() or 'default'})"),
    ]


def _plugins(patcher: Patcher, plan: Plan) -> list[Fact]:
    facts = []
    for plugin in patcher.plugins.installed:
        mine = [entry.verdict for entry in plan if entry.provenance.plugin == plugin.plugin]
        who = f"{plugin.distribution} {plugin.version}" if plugin.distribution else "local module"
        patches = f"{mine.count(APPLY)} of {counted(len(mine), 'patch')} to apply" if mine else "no patches"
        facts.append(("plugin", plugin.plugin, f"{who}: {patches} ({plugin.file})"))
    denied = "not loaded: not in the setting plugins"
    return [*facts, *(("plugin", p.plugin, f"{p.distribution} {p.version}: {denied}") for p in patcher.plugins.denied)]


def _libraries(patcher: Patcher) -> list[Fact]:
    """Return the libraries that the patches change, and the modules that they need."""
    environment = patcher.make_environment()
    patches = [candidate.patch for candidate in patcher.collect()]
    facts = []
    for root in sorted({change.target.root for patch in patches for change in patch.changes}):
        version = environment.version(root) or ("found, version unknown" if find_module(root) else _NOT_INSTALLED)
        if root in patcher.settings.library_versions and version != _NOT_INSTALLED:
            version = f"counts as {version} (library_versions), is {Environment().version(root) or 'unknown'}"
        facts.append(("library", root, version))
    facts += (("needed", name, _whereabouts(name)) for name in sorted({name for p in patches for name in p.needs}))
    return facts


def _emulated_devices(patcher: Patcher) -> Iterator[Fact]:
    for provenance, devices in patcher.plugins.collect("emulated_devices"):
        yield from (("device", device, f"emulated by plugin {provenance.plugin}") for device in devices)


def _whereabouts(name: str) -> str:
    if not find_module(name):
        return _NOT_THERE
    module = sys.modules.get(name)
    if module is not None:
        return f"imported from {getattr(module, '__file__', '?')}"
    # of a submodule, asking for the file would import the packages around it
    spec = importlib.util.find_spec(name) if "." not in name else None
    return f"found at {spec.origin}" if spec is not None else "found"


def _text(value: Any) -> str:
    """Return the value of a plugin's setting as it may be written."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={each}" for key, each in value.items()) or "none"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _settings(patcher: Patcher) -> list[Fact]:
    settings = patcher.settings
    values = {
        "plugins": "all" if settings.plugins is None else ", ".join(settings.plugins) or "none",
        "modules": ", ".join(module.name for module in settings.modules) or "none",
        "variant": settings.variant or "none",
        "on_failure": settings.on_failure,
        "count": "yes" if settings.count else "no",
        **{key: _text(value) for key, value in settings.values.items()},
    }
    facts = [
        ("setting", key, f"{value} (from {settings.origins.get(key, 'default')})") for key, value in values.items()
    ]
    facts += (("setting", "enable" if c.enable else "disable", f"{c.name} (from {c.origin})") for c in settings.choices)
    facts += (("setting", f"options of {name}", repr(dict(options))) for name, options in settings.options.items())
    return facts


def _imports() -> list[Fact]:
    hooks = [finder for finder in sys.meta_path if not isinstance(finder, type)]
    names = ", ".join(f"{type(finder).__module__}.{type(finder).__qualname__}" for finder in hooks)
    return [("imports", "hooks of others", names or "none")]


def _sections(patcher: Patcher) -> list[Fact]:
    return [(section.title, section.mark, line) for section in patcher.plugins.sections() for line in section.lines]


def _workers(patcher: Patcher) -> list[dict[str, str]]:
    """Start a program as ``patchcore run`` would, which starts each kind of child process and tells of them."""
    quiet = patcher.settings.with_values(report_dir=None)  # these are no processes of a run of the user's
    environment = Session.of(patcher, patcher.plan())._replace(settings=quiet).environment(os.environ)
    environment["PYTHONIOENCODING"] = "utf-8:backslashreplace"  # this process may be told another one
    command = [sys.executable, "-m", "patchcore.builtin.doctor.probe"]
    utf_8: Any = {"encoding": "utf-8", "errors": "replace"}
    workers = []
    with (
        tempfile.TemporaryFile("w+", **utf_8) as said,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=said, **utf_8) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            workers.append(json.loads(line))
            print_error(f"{workers[-1]['kind']}: {workers[-1]['result']}")
        if process.wait() or any(worker["result"] == UNPATCHED for worker in workers):
            said.seek(0)
            sys.stderr.write(printable(said.read()))
    return workers


def _stale_references(patcher: Patcher) -> list[tuple[str, str, str]]:
    try:
        with patcher:
            report = patcher.report(unreachable=True)
    except PatchError:  # is among the findings
        return []
    return [(p.name, c.target, place) for p in report.patches for c in p.changes for place in c.unreachable]
