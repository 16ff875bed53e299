"""``patchcore outdated``: patches that are no longer needed here; exit 1 when there are any."""

from __future__ import annotations

import argparse
from typing import Any

from patchcore.builtin.command_line import describe_problems, print_problems
from patchcore.builtin.drift.outdated import Age, review
from patchcore.builtin.rows import print_table
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line
from patchcore.objects.printable import counted

__all__ = ["COLUMNS", "add_arguments", "main"]

COLUMNS = ("PATCH", "VERDICT", "REMOVE WHEN", "WHY", "UPSTREAM")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Show the patches whose remove_when holds here, and those whose upstream link is worth a look. "
        "Exit with 1 when some can go. Imports nothing, asks no server."
    )
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the patches that say when they end; 1 when that is now, or cannot be told."""
    patcher = shared.patcher_from(options)
    ages = sorted(review(patcher.plan()), key=lambda age: not age.is_finding)
    if options.format == "json":
        print_json({"patches": [_describe(age) for age in ages], "problems": describe_problems(patcher)})
    elif ages:
        print_table("Patches with remove_when or upstream", COLUMNS, [_row(age) for age in ages])
        count = sum(age.is_finding for age in ages)
        print_line(f"\n{counted(count, 'finding')}" if count else "\nno findings")
    else:
        print_line("no patch declares remove_when or upstream")
    print_problems(patcher)
    return 1 if any(age.is_finding for age in ages) else 0


def _describe(age: Age) -> dict[str, Any]:
    patch, who = age.entry.patch, age.entry.provenance
    return {
        "name": patch.name,
        "verdict": age.verdict,
        "reason": age.reason,
        "remove_when": patch.remove_when,
        "upstream": patch.upstream,
        "plugin": who.plugin,
        "distribution": who.distribution,
        "version": who.version,
    }


def _row(age: Age) -> tuple[str, ...]:
    patch = age.entry.patch
    return (patch.name, age.verdict, patch.remove_when or "", age.reason, patch.upstream or "")
