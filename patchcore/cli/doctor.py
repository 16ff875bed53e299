"""``patchcore doctor``: everything about this environment that decides how patches behave."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import sys
from typing import Any

from patchcore import __version__
from patchcore.cli import check
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_table
from patchcore.conditions import Environment
from patchcore.modules import find_module
from patchcore.patcher import RANK_VARIABLES, Patcher, process_rank
from patchcore.report import PENDING

__all__ = ["add_parser", "main"]

#: What the plugins' kernels come from.
KERNEL_LIBRARIES = ("torch_npu", "mx_driving")


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("doctor", help="examine this environment", description=__doc__)
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument(
        "--apply", action="store_true", help="also import every target, apply the patches and look for stale references"
    )
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print what was found; 1 when something needs attention."""
    patcher = shared.patcher_from(options)
    facts = [*_interpreter(), *_libraries(patcher), *_settings(patcher), *_imports()]
    found = check.findings(patcher, apply=options.apply)
    stale = _stale_references(patcher) if options.apply else []
    if options.format == "json":
        print_json(
            {
                "facts": [dict(zip(("topic", "name", "value"), fact)) for fact in facts],
                "findings": [dict(zip(("kind", "subject", "message"), finding)) for finding in found],
                "stale_references": [dict(zip(("patch", "target", "place"), reference)) for reference in stale],
            }
        )
        return 1 if found else 0
    print_table("Environment", ("TOPIC", "NAME", "VALUE"), facts)
    if found:
        print()
        print_table("Findings", ("KIND", "SUBJECT", "MESSAGE"), found)
    if stale:
        print()
        title = "Stale references: still the original while the patch is applied"
        print_table(title, ("PATCH", "TARGET", "PLACE"), stale)
    print()
    print(f"{len(found)} findings" if found else "no findings")
    return 1 if found else 0


def _interpreter() -> list[tuple[str, str, str]]:
    rank = next((name for name in RANK_VARIABLES if os.environ.get(name, "").isdigit()), "default")
    return [
        ("interpreter", "python", f"{platform.python_version()} ({sys.executable})"),
        ("interpreter", "platform", platform.platform()),
        ("interpreter", "patchcore", __version__),
        ("interpreter", "rank", f"{process_rank()} (from {rank})"),
    ]


def _libraries(patcher: Patcher) -> list[tuple[str, str, str]]:
    environment = Environment()
    candidates = patcher.collect()
    facts = []
    for p in patcher.plugins.provenances.values():
        mine = [c for c in candidates if c.provenance.plugin == p.plugin]
        fit = sum(environment.judge(c.patch).status == PENDING for c in mine)
        who = f"{p.distribution} {p.version}" if p.distribution else "local module"
        facts.append(("plugin", p.plugin, f"{who}: {fit} of {len(mine)} patches fit here ({p.file})"))
    denied = "not in the list of plugins to load"
    facts += (("plugin", p.plugin, f"{p.distribution} {p.version}: {denied}") for p in patcher.plugins.denied)
    for root in sorted({change.target.root for c in candidates for change in c.patch.changes}):
        version = environment.version(root)
        facts.append(("library", root, version or ("found, version unknown" if find_module(root) else "not installed")))
    facts += (("kernels", name, _kernels(name)) for name in KERNEL_LIBRARIES)
    return facts


def _kernels(name: str) -> str:
    if not find_module(name):
        return "neither installed nor emulated: patches that need it are skipped"
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.find_spec(name)  # a top-level name: nothing is imported
        return f"found at {spec.origin if spec else '?'}"
    return "emulated" if getattr(module, "__emulated__", False) else f"imported from {getattr(module, '__file__', '?')}"


def _settings(patcher: Patcher) -> list[tuple[str, str, str]]:
    settings = patcher.settings
    facts = [
        ("setting", key, f"{value} (from {settings.origins.get(key, 'default')})")
        for key, value in (
            ("plugins", "all" if settings.plugins is None else ", ".join(settings.plugins) or "none"),
            ("on_failure", settings.on_failure),
            ("report_dir", settings.report_dir or "none"),
        )
    ]
    facts += (("setting", "enable" if c.enable else "disable", f"{c.name} (from {c.origin})") for c in settings.choices)
    return facts


def _imports() -> list[tuple[str, str, str]]:
    hooks = [finder for finder in sys.meta_path if not isinstance(finder, type)]
    names = ", ".join(f"{type(finder).__module__}.{type(finder).__qualname__}" for finder in hooks)
    return [("imports", "hooks of others", names or "none")]


def _stale_references(patcher: Patcher) -> list[tuple[str, str, str]]:
    with patcher:
        report = patcher.report(unreachable=True)
    return [(p.name, c.target, place) for p in report.patches for c in p.changes for place in c.unreachable]
