"""``patchcore plan``: what would be applied here, in which order, and why the rest would not."""

from __future__ import annotations

import argparse
from typing import Any

from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_table

__all__ = ["add_parser", "main"]


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("plan", help="show what would happen, and why", description=__doc__)
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the plan."""
    patcher = shared.patcher_from(options)
    plan = patcher.plan()
    if options.format == "json":
        print_json({"settings": dict(patcher.settings.origins), **plan.to_dict()})
    else:
        rows = []
        for number, entry in enumerate(plan, 1):
            changes = "\n".join(f"{c.kind} {t}" for c, t in zip(entry.patch.changes, entry.targets))
            chosen = f"chosen by {entry.chosen_by}" if entry.go and entry.chosen_by else ""
            what = "\n".join(filter(None, (changes if entry.go else "", entry.reason, chosen)))
            rows.append((str(number), entry.patch.name, "apply" if entry.go else entry.status, what))
        print_table("Plan", ("#", "PATCH", "VERDICT", "CHANGES OR REASON"), rows)
    shared.report_problems(patcher)
    return 0
