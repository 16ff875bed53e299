"""``patchcore plan``: what would be applied here, in which order, and why the rest would not."""

from __future__ import annotations

import argparse
from typing import Any

from patchcore.builtin.drift.drift import Comparison, remarks
from patchcore.cli import options as shared
from patchcore.cli.output import print_error, print_json, print_line, print_table
from patchcore.errors import PluginError
from patchcore.patcher import Patcher
from patchcore.planning.plan import Plan, PlannedPatch

__all__ = ["add_parser", "main"]


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "plan",
        help="show what would happen, and why",
        description="Show what would be applied here, in which order, and why the rest would not. Changes nothing.",
    )
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the plan."""
    patcher = shared.patcher_from(options)
    plan = patcher.plan()
    drift = _drift(patcher, plan)
    if options.format == "json":
        origins = dict(patcher.settings.origins)
        view = plan.to_dict()
        for entry, described in zip(plan, view["patches"]):
            described["remarks"] = plan.remarks(entry)
            described["drift"] = [comparison.to_dict() for comparison in drift.get(entry.patch.name, ())]
        print_json({"settings": origins, **view, "problems": shared.describe_problems(patcher)})
    elif len(plan):
        rows = [
            (
                str(number),
                e.patch.name,
                _verdict(e),
                "\n".join([_what(e), *plan.remarks(e), *remarks(drift.get(e.patch.name, ()))]),
            )
            for number, e in enumerate(plan, 1)
        ]
        print_table("Plan", ("#", "PATCH", "VERDICT", "CHANGES OR REASON"), rows)
        for note in plan.notes:
            print_line(f"note: {note}")
    else:
        print_line("no patches")
    shared.print_problems(patcher)
    return 0


def _drift(patcher: Patcher, plan: Plan) -> dict[str, list[Comparison]]:
    """What has become of the targets of the patches that are to be applied, by patch; plugins' errors go to stderr."""
    found = {}
    for entry in plan:
        if entry.go:
            try:
                found[entry.patch.name] = patcher.compare(entry)
            except PluginError as error:
                print_error(str(error))
    return found


def _verdict(entry: PlannedPatch) -> str:
    return "apply" if entry.go else entry.status


def _what(entry: PlannedPatch) -> str:
    if not entry.go:
        return entry.reason
    changes = [change.phrase(target) for change, target in zip(entry.patch.changes, entry.targets)]
    return "\n".join([*changes, *([f"chosen by {entry.chosen_by}"] if entry.chosen_by else [])])
