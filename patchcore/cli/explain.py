"""``patchcore explain``: who changes a target, from where, how, and what that means for names bound to it.

Imports the library of the target, applies the plan, looks, and takes everything back.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import textwrap
from typing import Any, Optional

from patchcore.binding import reference, wrapped_callable
from patchcore.changes import resolve
from patchcore.cli import options as shared
from patchcore.cli.output import print_json
from patchcore.engine import ENGINE
from patchcore.errors import TargetError, UnknownName, describe_error
from patchcore.patcher import Patcher
from patchcore.plan import Plan, PlannedPatch, select
from patchcore.report import ChangeRecord, Report
from patchcore.target import Target, find_slot

__all__ = ["add_parser", "main"]


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("explain", help="explain a target or a patch", description=__doc__)
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
        failures = _import({target.module for target in targets})
        report = patcher.report(unreachable=True)
        explained = [_target(target, plan, report, failures, diff=not options.no_diff) for target in targets]
    if options.format == "json":
        print_json({"patches": [_patch(entry) for entry in entries], "targets": explained})
        return 0
    for entry in entries:
        _print_patch(_patch(entry))
    for explanation in explained:
        _print_target(explanation)
    shared.report_problems(patcher)
    return 0


def _meant(name: str, patcher: Patcher, plan: Plan) -> tuple[list[PlannedPatch], list[Target]]:
    try:
        names = {candidate.patch.name for candidate in select(name, patcher.collect())}
        entries = [entry for entry in plan if entry.patch.name in names]
    except UnknownName as unknown:
        try:
            target = Target.parse(name).pin()
        except TargetError:
            raise unknown from None
        entries = [e for e in plan if any(t.covers(target) or target.covers(t) for t in e.targets)]
        if not entries:
            raise
    targets = [t for e in entries for t in e.targets if ":" not in name or Target.parse(name).pin() in (t, None)]
    return entries, list(dict.fromkeys(targets or [t for e in entries for t in e.targets]))


def _import(modules: set[str]) -> dict[str, str]:
    failures = {}
    for module in sorted(modules):
        try:
            importlib.import_module(module)
        except Exception as error:
            failures[module] = describe_error(error)
    return failures


def _patch(entry: PlannedPatch) -> dict[str, Any]:
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


def _target(target: Target, plan: Plan, report: Report, failures: dict[str, str], *, diff: bool) -> dict[str, Any]:
    explanation: dict[str, Any] = {"target": str(target), "error": failures.get(target.module), "layers": []}
    records = [(r, c) for r in report.patches for c in r.changes if c.target == str(target)]
    explanation["changes"] = [
        {"patch": r.name, "status": c.status, "reason": c.reason or r.reason, **_references(c)} for r, c in records
    ]
    try:
        record = ENGINE.journal.find(find_slot(target, importlib.import_module(target.module), may_be_absent=True))
    except Exception as error:
        explanation["error"] = explanation["error"] or describe_error(error)
        return explanation
    if record is None:
        return explanation
    original = wrapped_callable(record.original)
    explanation["original"] = _place(original)
    for layer in reversed(record.layers):
        if layer.owner is None:
            explanation["layers"].append(
                {"patch": None, "what": "put there by somebody else", "place": _place(layer.product)}
            )
            continue
        source = wrapped_callable(reference(resolve(layer.change.source)))
        explanation["layers"].append(
            {
                "patch": layer.owner.patch.name,
                "what": layer.change.kind,
                "provenance": str(layer.owner.provenance),
                "place": _place(source),
                "diff": _diff(original, source) if diff and layer.change.kind == "replace" else "",
            }
        )
    return explanation


def _references(change: ChangeRecord) -> dict[str, Any]:
    return {"rebound": list(change.rebound), "kept": list(change.kept), "unreachable": list(change.unreachable)}


def _place(obj: Any) -> str:
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


def _print_patch(patch: dict[str, Any]) -> None:
    print(f"{patch['name']}: {patch['summary']}" if patch["summary"] else patch["name"])
    print(f"  from      {patch['provenance']} ({patch['file']})")
    reason = f": {patch['reason']}" if patch["reason"] else ""
    print(f"  verdict   {patch['verdict']}{reason} (decided by {patch['chosen_by']})")
    for key in ("requires", "after", "before", "conflicts", "legacy_names"):
        if patch[key]:
            print(f"  {'also' if key == 'legacy_names' else key:<9} {', '.join(patch[key])}")
    if patch["upstream"]:
        print(f"  upstream  {patch['upstream']}")


def _print_target(explanation: dict[str, Any]) -> None:
    print(f"\n{explanation['target']}")
    if explanation["error"]:
        print(f"  cannot be looked at: {explanation['error']}")
    for number, layer in enumerate(explanation["layers"]):
        where = "outermost" if number == 0 else "below it "
        print(f"  {where} {layer['what']} {layer['place']}")
        if layer["patch"]:
            print(f"            by {layer['patch']} ({layer['provenance']})")
    if "original" in explanation:
        print(f"  original  {explanation['original']}")
    for change in explanation["changes"]:
        print(f"  {change['patch']}: {change['status']}{' (' + change['reason'] + ')' if change['reason'] else ''}")
        for kind in ("rebound", "kept", "unreachable"):
            for place in change[kind]:
                print(f"    {kind:<11} {place}")
    for layer in explanation["layers"]:
        if layer.get("diff"):
            print("    " + layer["diff"].replace("\n", "\n    "))
