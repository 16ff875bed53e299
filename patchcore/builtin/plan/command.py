"""``patchcore plan``: what would be applied here, in which order, and why the rest would not."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from patchcore.builtin.command_line import describe_problems, print_problems
from patchcore.builtin.rows import print_counts, print_rows, print_text
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line
from patchcore.objects.printable import counted
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.report import Remark

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Show what would be applied here, in which order, and why the rest would not. Patches that nobody asked for "
        "are counted. Changes nothing."
    )
    parser.add_argument("--all", action="store_true", help="list everything that would not be applied, too")
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="every change of a patch")
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the plan."""
    patcher = shared.patcher_from(options)
    plan = patcher.plan()
    remarks = {entry.patch.name: plan.remarks(entry) for entry in plan}
    if options.format == "json":
        origins = dict(patcher.settings.origins)
        patches = [{**_describe_entry(entry), **_describe(remarks[entry.patch.name])} for entry in plan]
        described = {"settings": origins, "patches": patches, "notes": list(plan.notes)}
        print_json({**described, "problems": describe_problems(patcher)})
    elif len(plan):
        _print(plan, remarks, options)
    else:
        print_line("no patches")
    print_problems(patcher)
    return 0


def _print(plan: Plan, remarks: Mapping[str, Sequence[Remark]], options: argparse.Namespace) -> None:
    going = [entry for entry in plan if entry.go]
    if going:
        print_line(f"{counted(len(going), 'patch')} to apply, in this order", style="bold")
    width = max((len(entry.patch.name) for entry in going), default=0)
    for number, entry in enumerate(going, 1):
        changes = [change.phrase(target) for change, target in zip(entry.patch.changes, entry.targets)]
        more = f" (+{len(changes) - 1})" if len(changes) > 1 and not options.verbose else ""
        print_rows([(f"{number:>3}", entry.patch.name.ljust(width), "".join([*changes[:1], more]))], whole=True)
        details = changes[1:] if options.verbose else []
        details += [f"chosen by {entry.chosen_by}"] if entry.chosen_by else []
        details += [remark.text for remark in remarks[entry.patch.name] if remark.text]
        for detail in details:
            print_text(f"       {detail}", indent=9)
    left = [entry for entry in plan if not entry.go]
    if going and left:
        print_line()
    shown = [(e.patch.name, e.status, e.reason) for e in left if options.all or _was_wanted(e)]
    if left:
        rest = "" if len(shown) == len(left) else "; --all lists them"
        print_line(f"{counted(len(left), 'patch')} not to be applied{rest}", style="bold")
    print_rows(shown, whole=True)
    print_counts(_why(entry) for entry in left if not (options.all or _was_wanted(entry)))
    for note in plan.notes:
        print_text(f"note: {note}", indent=2)


def _was_wanted(entry: PlannedPatch) -> bool:
    """Return true if a user has to know why: the patch was asked for, or disabled by name."""
    return entry.asked_for or entry.chosen_by is not None


def _why(entry: PlannedPatch) -> str:
    """Return why a patch is not applied, in the same words for all that nobody has chosen."""
    return "off by default; --enable NAME applies one, patchcore list shows them" if entry.unwanted else entry.reason


def _describe_entry(entry: PlannedPatch) -> dict[str, Any]:
    """Return an entry for JSON."""
    return {
        "name": entry.patch.name,
        "verdict": "apply" if entry.go else entry.status,
        "reason": entry.reason,
        "chosen_by": entry.chosen_by,
        "plugin": entry.provenance.plugin,
        "distribution": entry.provenance.distribution,
        "version": entry.provenance.version,
        "changes": [{"kind": c.kind, "target": str(t)} for c, t in zip(entry.patch.changes, entry.targets)],
    }


def _describe(remarks: list[Remark]) -> dict[str, Any]:
    """Return remarks for JSON: the texts, and what is for programs by its topic."""
    described: dict[str, Any] = {"remarks": [remark.text for remark in remarks if remark.text]}
    for remark in remarks:
        if remark.data:
            described.setdefault(remark.topic, []).extend(remark.data)
    return described
