"""``patchcore explain``: who changes a target, from where, how, and what that means for names bound to it.

Imports the library of the target, applies the plan, looks, and takes everything back.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import textwrap
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Optional

from patchcore.binding import reference, wrapped_callable
from patchcore.changes import Replace, resolve
from patchcore.cli import options as shared
from patchcore.cli.output import print_json
from patchcore.engine import ENGINE
from patchcore.errors import TargetError, UnknownName, describe_error
from patchcore.journal import Layer, Record
from patchcore.modules import find_module
from patchcore.patcher import Patcher
from patchcore.plan import Plan, PlannedPatch, select
from patchcore.report import Report
from patchcore.target import ABSENT, Slot, Target, find_slot

__all__ = ["add_parser", "main"]


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "explain",
        help="explain a target or a patch",
        description="Show who changes a target, from where and how, and which names are bound to it. Imports the "
        "library of the target, applies the plan, looks, and takes everything back.",
    )
    parser.add_argument("name", metavar="TARGET|PATCH", help="a target, or a patch, legacy name or plugin")
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument("--no-diff", action="store_true", help="leave out the source differences")
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the explanation of every target that the name means."""
    patcher = shared.patcher_from(options)
    plan = patcher.plan()
    entries, targets = _meant(options.name, patcher, plan)
    with patcher:
        failures = _import(target.module for target in targets)
        report = patcher.report(unreachable=True)
        explained = [_explain(target, report, failures, diff=not options.no_diff) for target in targets]
    if not entries:
        (asked,) = explained
        if asked["error"]:
            raise UnknownName(asked["error"])
        entries = [entry for entry in plan if entry.patch.name in {layer["patch"] for layer in asked["layers"]}]
    if options.format == "json":
        print_json({"patches": [_describe(entry) for entry in entries], "targets": explained})
    else:
        _print(entries, explained)
    shared.print_problems(patcher)
    return 0


def _meant(name: str, patcher: Patcher, plan: Plan) -> tuple[list[PlannedPatch], list[Target]]:
    """The patches and the targets that ``name`` means; no patches for a target that none of them names."""
    try:
        asked: Optional[Target] = Target.parse(name).pin()
    except TargetError:
        asked = None
    try:
        names = {candidate.patch.name for candidate in select(name, patcher.collect())}
    except UnknownName:
        if asked is None or not find_module(asked.module):
            raise
        touching = [e for e in plan if any(t.covers(asked) or asked.covers(t) for t in e.targets)]
        if not touching and ":" not in name:  # may well be the misspelt name of a patch
            raise
        names = {entry.patch.name for entry in touching}
    entries = [entry for entry in plan if entry.patch.name in names]
    targets = list(dict.fromkeys(target for entry in entries for target in entry.targets))
    if asked is not None and (not targets or asked in targets):
        targets = [asked]
    return entries, targets


def _import(modules: Iterable[str]) -> dict[str, str]:
    failures = {}
    for module in dict.fromkeys(modules):
        try:
            importlib.import_module(module)
        except Exception as error:
            failures[module] = describe_error(error)
    return failures


def _explain(target: Target, report: Report, failures: dict[str, str], *, diff: bool) -> dict[str, Any]:
    changes = [(p, c) for p in report.patches for c in p.changes if c.target == str(target)]
    explanation: dict[str, Any] = {
        "target": str(target),
        "error": failures.get(target.module),
        "follows": None,
        "original": None,
        "layers": [],
        "changes": [
            {
                "patch": patch.name,
                "status": change.status,
                "reason": change.reason or patch.reason,
                "rebound": list(change.rebound),
                "kept": list(change.kept),
                "unreachable": list(change.unreachable),
            }
            for patch, change in changes
        ],
    }
    if explanation["error"] or not target.path:  # of an import there is nothing more to see
        return explanation
    try:
        slot = find_slot(target, importlib.import_module(target.module), may_be_absent=bool(changes))
    except Exception as error:
        explanation["error"] = describe_error(error)
        return explanation
    record = _record_of(slot)
    if record is None:
        explanation["original"] = _place(wrapped_callable(slot.lookup()))
        return explanation
    if record.slot.identity != slot.identity:
        explanation["follows"] = record.slot.name
    original = wrapped_callable(record.original)
    explanation["original"] = _place(original)
    explanation["layers"] = [_describe_layer(layer, original, diff=diff) for layer in reversed(record.layers)]
    return explanation


def _record_of(slot: Slot) -> Optional[Record]:
    """The record of a slot, or of the slot that it took its value from."""
    makers = ENGINE.journal.makers(slot.lookup())
    return ENGINE.journal.find(slot) or next((record for record, _ in makers), None)


def _describe_layer(layer: Layer, original: Any, *, diff: bool) -> dict[str, Any]:
    if layer.owner is None:
        return {"patch": None, "what": "put there by somebody else", "place": _place(layer.product), "diff": ""}
    source = wrapped_callable(reference(resolve(layer.change.source)))
    replaces = isinstance(layer.change, Replace) and layer.change.factory is None
    return {
        "patch": layer.owner.patch.name,
        "what": layer.change.kind,
        "provenance": str(layer.owner.provenance),
        "place": _place(source),
        "diff": _diff(original, source) if diff and replaces else "",
    }


def _describe(entry: PlannedPatch) -> dict[str, Any]:
    patch = entry.patch
    return {
        "name": patch.name,
        "summary": patch.summary,
        "provenance": str(entry.provenance),
        "file": entry.provenance.file,
        "verdict": "apply" if entry.go else entry.status,
        "reason": entry.reason,
        "chosen_by": entry.chosen_by or "default",
        "requires": [*patch.requires, *patch.needs],
        "after": list(patch.after),
        "before": list(patch.before),
        "conflicts": list(patch.conflicts),
        "legacy_names": list(patch.legacy_names),
        "upstream": patch.upstream,
    }


def _place(obj: Any) -> str:
    if obj is ABSENT:
        return "nothing"
    if isinstance(obj, ModuleType):
        return f"module {obj.__name__} ({getattr(obj, '__file__', None) or 'no Python source'})"
    name = f"{getattr(obj, '__module__', '?')}:{getattr(obj, '__qualname__', type(obj).__name__)}"
    try:
        unwrapped = inspect.unwrap(obj) if callable(obj) else obj
        line = inspect.getsourcelines(unwrapped)[1]
        return f"{name} ({inspect.getsourcefile(unwrapped)}:{line})"
    except (TypeError, OSError):
        return f"{name} (no Python source)"


def _source(obj: Any) -> Optional[list[str]]:
    try:
        return textwrap.dedent(inspect.getsource(obj)).splitlines()
    except (TypeError, OSError):
        return None


def _diff(original: Any, replacement: Any) -> str:
    before, after = _source(original), _source(replacement)
    if before is None or after is None:
        return ""
    return "\n".join(difflib.unified_diff(before, after, "original", "replacement", lineterm="", n=2))


def _print(entries: list[PlannedPatch], explained: list[dict[str, Any]]) -> None:
    for entry in entries:
        _print_patch(_describe(entry))
    for number, explanation in enumerate(explained):
        if number or entries:
            print()
        _print_target(explanation)


def _print_patch(patch: dict[str, Any]) -> None:
    print(f"{patch['name']}: {patch['summary']}" if patch["summary"] else patch["name"])
    print(f"  from      {patch['provenance']}{' (' + patch['file'] + ')' if patch['file'] else ''}")
    reason = f": {patch['reason']}" if patch["reason"] else ""
    print(f"  verdict   {patch['verdict']}{reason} (decided by {patch['chosen_by']})")
    for key, label in (("requires", "requires"), ("after", "after"), ("before", "before"), ("conflicts", "conflicts")):
        if patch[key]:
            print(f"  {label:<9} {', '.join(patch[key])}")
    if patch["legacy_names"]:
        print(f"  also      {', '.join(patch['legacy_names'])}")
    if patch["upstream"]:
        print(f"  upstream  {patch['upstream']}")


def _print_target(explanation: dict[str, Any]) -> None:
    print(explanation["target"])
    if explanation["error"]:
        print(f"  cannot be looked at: {explanation['error']}")
    if explanation["follows"]:
        print(f"  follows   {explanation['follows']}")
    for number, layer in enumerate(explanation["layers"]):
        print(f"  {'outermost' if number == 0 else 'below it '} {layer['what']} {layer['place']}")
        if layer["patch"]:
            print(f"            by {layer['patch']} ({layer['provenance']})")
    if explanation["original"]:
        print(f"  original  {explanation['original']}")
    for change in explanation["changes"]:
        print(f"  {change['patch']}: {change['status']}{' (' + change['reason'] + ')' if change['reason'] else ''}")
        for kind in ("rebound", "kept", "unreachable"):
            for place in change[kind]:
                print(f"    {kind:<11} {place}")
    for layer in explanation["layers"]:
        if layer["diff"]:
            print(textwrap.indent(layer["diff"], "    "))
