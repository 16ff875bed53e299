"""``patchcore plan``: what would be applied here, in which order, and why the rest would not."""

from __future__ import annotations

import argparse
from typing import Any

from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_table
from patchcore.plan import PlannedPatch

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
    if options.format == "json":
        origins = dict(patcher.settings.origins)
        print_json({"settings": origins, **plan.to_dict(), "problems": shared.describe_problems(patcher)})
    elif len(plan):
        rows = [(str(number), e.patch.name, _verdict(e), _what(e)) for number, e in enumerate(plan, 1)]
        print_table("Plan", ("#", "PATCH", "VERDICT", "CHANGES OR REASON"), rows)
        for note in plan.notes:
            print(f"note: {note}")
    else:
        print("no patches")
    shared.print_problems(patcher)
    return 0


def _verdict(entry: PlannedPatch) -> str:
    return "apply" if entry.go else entry.status


def _what(entry: PlannedPatch) -> str:
    if not entry.go:
        return entry.reason
    changes = [change.phrase(target) for change, target in zip(entry.patch.changes, entry.targets)]
    return "\n".join([*changes, *([f"chosen by {entry.chosen_by}"] if entry.chosen_by else [])])
