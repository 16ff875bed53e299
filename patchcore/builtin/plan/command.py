"""``patchcore plan``: what would be applied here, in which order, and why the rest would not."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from patchcore.builtin.rows import print_rows
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line
from patchcore.planning.conditions import BY_CONFLICT
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.report import FAILED, Remark

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
        view = plan.to_dict()
        for entry, described in zip(plan, view["patches"]):
            described.update(_describe(remarks[entry.patch.name]))
        print_json({"settings": origins, **view, "problems": shared.describe_problems(patcher)})
    elif len(plan):
        _print(plan, remarks, options)
    else:
        print_line("no patches")
    shared.print_problems(patcher)
    return 0


def _print(plan: Plan, remarks: Mapping[str, Sequence[Remark]], options: argparse.Namespace) -> None:
    going = [entry for entry in plan if entry.go]
    if going:
        print_line(f"{_patches(len(going))} to apply, in this order", style="bold")
    width = max((len(entry.patch.name) for entry in going), default=0)
    for number, entry in enumerate(going, 1):
        changes = [change.phrase(target) for change, target in zip(entry.patch.changes, entry.targets)]
        more = f" (+{len(changes) - 1})" if len(changes) > 1 and not options.verbose else ""
        print_rows([(f"{number:>3}", entry.patch.name.ljust(width), f"{changes[0]}{more}")])
        details = [*(changes[1:] if options.verbose else ()), *_chosen(entry)]
        details += [remark.text for remark in remarks[entry.patch.name] if remark.text]
        for detail in details:
            print_line(f"       {detail}")
    left = [entry for entry in plan if not entry.go]
    if going and left:
        print_line()
    shown = [entry for entry in left if options.all or _was_wanted(entry)]
    if left:
        rest = "" if len(shown) == len(left) else "; --all lists them"
        print_line(f"{_patches(len(left))} not to be applied{rest}", style="bold")
    print_rows([(entry.patch.name, entry.status, "; ".join([entry.reason, *_chosen(entry)])) for entry in shown])
    counted = Counter(_why(entry) for entry in left if entry not in shown)
    for why, count in counted.items():
        print_line(f"  {count} {why}")
    for note in plan.notes:
        print_line(f"note: {note}")


def _was_wanted(entry: PlannedPatch) -> bool:
    """Return true if a user has to know why: the patch was chosen, is required, has failed, or gave way to another."""
    chosen = entry.chosen_by is not None
    return chosen or entry.patch.required or entry.status == FAILED or entry.cause == BY_CONFLICT


def _why(entry: PlannedPatch) -> str:
    """Return why a patch is not applied, in words that are the same for all patches that need the same step."""
    if entry.unwanted:
        return "off by default; --enable NAME applies one, patchcore list shows them"
    return "for other versions of what is installed" if ", found " in entry.reason else entry.reason


def _chosen(entry: PlannedPatch) -> list[str]:
    return [f"chosen by {entry.chosen_by}"] if entry.chosen_by and entry.go else []


def _patches(count: int) -> str:
    return f"{count} patch{'' if count == 1 else 'es'}"


def _describe(remarks: list[Remark]) -> dict[str, Any]:
    """Return remarks for JSON: the texts, and what is for programs by its topic."""
    described: dict[str, Any] = {"remarks": [remark.text for remark in remarks if remark.text]}
    for remark in remarks:
        if remark.data:
            described.setdefault(remark.topic, []).extend(remark.data)
    return described
