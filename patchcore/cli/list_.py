"""``patchcore list``: which plugins and patches are installed, and whether they fit here."""

from __future__ import annotations

import argparse
from typing import Any

from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_table
from patchcore.conditions import Environment
from patchcore.report import PENDING

__all__ = ["add_parser", "main"]


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("list", help="show plugins and patches", description=__doc__)
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="show every target and legacy name")
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the plugins and the patches."""
    patcher = shared.patcher_from(options)
    candidates = sorted(patcher.collect(), key=lambda candidate: candidate.provenance.plugin)
    environment = Environment()
    verdicts = [environment.judge(candidate.patch) for candidate in candidates]
    plugins = [
        {
            "name": p.plugin,
            "distribution": p.distribution,
            "version": p.version,
            "origin": p.value,
            "file": p.file,
            "patches": sum(c.provenance.plugin == p.plugin for c in candidates),
        }
        for p in patcher.plugins.provenances.values()
    ]
    patches = [
        {
            "name": c.patch.name,
            "summary": c.patch.summary,
            "plugin": c.provenance.plugin,
            "distribution": c.provenance.distribution,
            "version": c.provenance.version,
            "default": c.patch.default,
            "fits": v.status == PENDING,
            "reason": v.reason,
            "requires": [*c.patch.requires, *c.patch.needs],
            "targets": [str(change.target) for change in c.patch.changes],
            "legacy_names": list(c.patch.legacy_names),
        }
        for c, v in zip(candidates, verdicts)
    ]
    if options.format == "json":
        problems = [{"plugin": p.plugin, "where": p.where, "message": p.message} for p in patcher.plugins.problems]
        print_json({"plugins": plugins, "patches": patches, "problems": problems})
    else:
        _print(plugins, patches, verbose=options.verbose)
    shared.report_problems(patcher)
    return 0


def _print(plugins: list[dict[str, Any]], patches: list[dict[str, Any]], *, verbose: bool) -> None:
    if not plugins:
        print("no plugins are installed; a plugin is a distribution with entry points in the group npu_patches")
    else:
        rows = [
            (
                p["name"],
                f"{p['distribution'] or '(local)'} {p['version'] or ''}".rstrip(),
                str(p["patches"]),
                p["origin"],
            )
            for p in plugins
        ]
        print_table("Plugins", ("NAME", "DISTRIBUTION", "PATCHES", "ORIGIN"), rows)
    if patches:
        print()
        table = [
            (
                p["name"],
                p["plugin"],
                "yes" if p["default"] else "no",
                "yes" if p["fits"] else p["reason"],
                _what(p, verbose),
            )
            for p in patches
        ]
        print_table("Patches", ("NAME", "PLUGIN", "DEFAULT", "FITS HERE", "TARGETS"), table)


def _distribution(plugin: dict[str, Any]) -> str:
    return f"{plugin['distribution']} {plugin['version']}" if plugin["distribution"] else "(local module)"


def _what(patch: dict[str, Any], verbose: bool) -> str:
    targets = patch["targets"]
    if not verbose:
        more = f" (+{len(targets) - 1})" if len(targets) > 1 else ""
        return f"{targets[0]}{more}" if targets else ""
    names = f"\nalso called {', '.join(patch['legacy_names'])}" if patch["legacy_names"] else ""
    return "\n".join([patch["summary"], *targets]).strip() + names
