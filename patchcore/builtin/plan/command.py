"""``patchcore plan``: what would be applied here, in which order, and why the rest would not."""

from __future__ import annotations

import argparse
from typing import Any

from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line, print_table
from patchcore.planning.plan import PlannedPatch
from patchcore.report import Remark

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "Show what would be applied here, in which order, and why the rest would not. Changes nothing."
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the plan."""
    patcher = shared.patcher_from(options)
    plan = patcher.plan()
    remarks = {entry.patch.name: plan.remarks(entry) for entry in plan}
    if options.format == "json":
        origins = dict(patcher.settings.origins)
        view = plan.to_dict()
        for entry, described in zip(plan, view["patches"]):
            described.update(_describe(remarks[entry.patch.name]))
        print_json({"settings": origins, **view, "problems": shared.describe_problems(patcher)})
    elif len(plan):
        rows = [
            (
                str(number),
                e.patch.name,
                _verdict(e),
                "\n".join([_what(e), *(remark.text for remark in remarks[e.patch.name] if remark.text)]),
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


def _describe(remarks: list[Remark]) -> dict[str, Any]:
    """Return remarks for JSON: the texts, and what is for programs by its topic."""
    described: dict[str, Any] = {"remarks": [remark.text for remark in remarks if remark.text]}
    for remark in remarks:
        if remark.data:
            described.setdefault(remark.topic, []).extend(remark.data)
    return described


def _verdict(entry: PlannedPatch) -> str:
    return "apply" if entry.go else entry.status


def _what(entry: PlannedPatch) -> str:
    if not entry.go:
        return entry.reason
    changes = [change.phrase(target) for change, target in zip(entry.patch.changes, entry.targets)]
    return "\n".join([*changes, *([f"chosen by {entry.chosen_by}"] if entry.chosen_by else [])])
