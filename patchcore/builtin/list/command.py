"""``patchcore list``: which plugins and patches are installed, and whether they fit here."""

from __future__ import annotations

import argparse
from typing import Any

from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line, print_table
from patchcore.declare.changes import Change
from patchcore.patcher import Patcher
from patchcore.planning.conditions import Environment
from patchcore.report import PENDING

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "Show which plugins and patches are installed, and whether they fit here. Imports no target."
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="show every target and legacy name")
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the plugins and the patches."""
    patcher = shared.patcher_from(options)
    patches = _patches(patcher)
    plugins = _plugins(patcher, patches)
    sections = patcher.plugins.listings()
    if options.format == "json":
        listed = {section.title: section.data for section in sections}
        problems = shared.describe_problems(patcher)
        print_json({"plugins": plugins, "patches": patches, "sections": listed, "problems": problems})
    else:
        _print(plugins, patches, verbose=options.verbose)
        for section in sections:
            print_line("\n".join([f"\n{section.title}", *(f"  {line}" for line in section.lines)]))
    shared.print_problems(patcher)
    return 0


def _patches(patcher: Patcher) -> list[dict[str, Any]]:
    environment = Environment()
    candidates = sorted(patcher.collect(), key=lambda candidate: candidate.provenance.plugin)
    return [
        {
            "name": patch.name,
            "summary": patch.summary,
            "plugin": provenance.plugin,
            "distribution": provenance.distribution,
            "version": provenance.version,
            "default": patch.default,
            "fits": verdict.status == PENDING,
            "reason": verdict.reason,
            "requires": [*patch.requires, *patch.needs],
            "targets": [_target(change) for change in patch.changes],
            "legacy_names": list(patch.legacy_names),
        }
        for patch, provenance in candidates
        for verdict in [environment.judge(patch)]
    ]


def _plugins(patcher: Patcher, patches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "name": p.plugin,
            "distribution": p.distribution,
            "version": p.version,
            "origin": p.value,
            "file": p.file,
            "patches": sum(patch["plugin"] == p.plugin for patch in patches),
        }
        for p in patcher.plugins.provenances.values()
    ]


def _print(plugins: list[dict[str, Any]], patches: list[dict[str, Any]], *, verbose: bool) -> None:
    if plugins:
        rows = [(p["name"], _distribution(p), str(p["patches"]), p["origin"]) for p in plugins]
        print_table("Plugins", ("NAME", "DISTRIBUTION", "PATCHES", "ORIGIN"), rows)
    else:
        print_line("no plugins are installed; a plugin is a distribution with entry points in the group npu_patches")
    if patches:
        print_line()
        table = [(p["name"], p["plugin"], _yes(p["default"]), _fits(p), _what(p, verbose)) for p in patches]
        print_table("Patches", ("NAME", "PLUGIN", "DEFAULT", "FITS HERE", "TARGETS"), table)


def _target(change: Change) -> str:
    """The target, or what is done about the import of a module, whose name alone says little."""
    return str(change.target) if change.target.path else str(change)


def _distribution(plugin: dict[str, Any]) -> str:
    return f"{plugin['distribution']} {plugin['version']}" if plugin["distribution"] else "(local module)"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _fits(patch: dict[str, Any]) -> str:
    return "yes" if patch["fits"] else str(patch["reason"])


def _what(patch: dict[str, Any], verbose: bool) -> str:
    targets = patch["targets"]
    if not verbose:
        more = f" (+{len(targets) - 1})" if len(targets) > 1 else ""
        return f"{targets[0]}{more}" if targets else ""
    names = [f"also called {', '.join(patch['legacy_names'])}"] if patch["legacy_names"] else []
    return "\n".join(filter(None, [patch["summary"], *targets, *names]))
