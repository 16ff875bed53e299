"""``patchcore explain``: which patches change a target, which module they wait for, and why a patch is not applied.

With ``--apply``, import the library of the target, apply the plan, read the journal, and revert everything: that shows
the layers on the target, and the objects that names are bound to.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Sequence
from typing import Optional

from patchcore.builtin.explain.explaining import Explainer
from patchcore.builtin.explain.explanation import PatchExplanation, TargetExplanation, what_of
from patchcore.builtin.shared.command_line import describe_problems, print_problems
from patchcore.builtin.shared.rows import STYLES, print_text
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line
from patchcore.declare.target import Target
from patchcore.errors import CONTAINED, TargetError, UnknownName, describe_error, did_you_mean
from patchcore.objects.modules import find_module, submodule_names
from patchcore.patcher import Patcher
from patchcore.planning.candidates import select_patches
from patchcore.planning.conditions import OFF
from patchcore.planning.plan import Plan, PlannedPatch

__all__ = ["add_arguments", "main"]

#: How lines of a difference are shown on a terminal.
_DIFF = {"+": "green", "-": "red", "@": "cyan"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Show which patches change a target, where each comes from, and why it is not applied or which import it waits "
        "for. Imports no target; with --apply also show what lies on the target, and which names refer to it."
    )
    parser.add_argument("name", metavar="TARGET|PATCH", help="a target, or a patch, legacy name or plugin")
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument(
        "--apply",
        action="store_true",
        help="also import the target, apply the patches and look at what is there, with source differences",
    )
    parser.add_argument("--no-diff", action="store_true", help="leave out the source differences")
    parser.set_defaults(command=main, usage_error=parser.error)


def main(options: argparse.Namespace) -> int:
    """Print the explanation of every target that the name means."""
    module, colon, path = options.name.partition(":")
    if not module or (colon and not path):
        options.usage_error(
            f"{options.name!r} is neither a patch nor a target; a target is written package.module:Class.attribute"
        )
    patcher = shared.patcher_from(options)
    plan = patcher.plan()
    entries, targets = _meant(options.name, patcher, plan)
    modules = dict.fromkeys(target.module for target in targets)
    with patcher:
        failures = _import(modules) if options.apply else _absent(modules)
        explainer = Explainer(patcher, plan, failures, diff=not options.no_diff)
        explained = [explainer.target(target) for target in targets]
        if not entries:
            (asked,) = explained
            if asked.error:
                raise UnknownName(asked.error)
            involved = {change.patch for change in asked.changes}
            entries = [entry for entry in plan if entry.patch.name in involved]
        patches = [explainer.patch(entry) for entry in entries]
    if options.format == "json":
        print_json(
            {
                "patches": [patch.to_dict() for patch in patches],
                "targets": [target.to_dict() for target in explained],
                "settings": dict(patcher.settings.origins),
                "notes": list(plan.notes),
                "problems": describe_problems(patcher),
            }
        )
    else:
        _print(patches, explained)
        for note in plan.notes:
            print_text(f"note: {note}", indent=2)
    print_problems(patcher, [*failures.values(), *(patch.record.reason for patch in patches)])
    return 0


def _meant(name: str, patcher: Patcher, plan: Plan) -> tuple[list[PlannedPatch], list[Target]]:
    """The patches and the targets that ``name`` means; no patches for a target that none of them names."""
    try:
        asked: Optional[Target] = Target.parse(name).pin()
    except TargetError:
        asked = None
    try:
        names = {candidate.patch.name for candidate in select_patches(name, patcher.collect())}
    except UnknownName as error:
        if asked is None or not find_module(asked.module):
            module = name.partition(":")[0]
            if ":" in name and not find_module(module):
                advice = patcher.plugins.advice(module, "import")
                raise UnknownName("; ".join(filter(None, (_missing(module), advice)))) from None
            if "." in name and not str(error).endswith("?"):  # a target written with dots, and no misspelt name
                lines = patcher.plugins.advice_on_modules([name.partition(".")[0]])
                raise UnknownName("; ".join([str(error), *lines]), error.name) from None
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


def _missing(module: str) -> str:
    """Return which part of a module's name cannot be found here, and the nearest one that can."""
    root, *parts = module.split(".")
    if not find_module(root):
        return f"the module {root} is not installed, so there is nothing to explain in {module}"
    found = root
    for part in parts:
        if not find_module(f"{found}.{part}"):
            break
        found = f"{found}.{part}"
    nearest = did_you_mean(f"{found}.{part}", submodule_names(found))
    return f"there is no module {module}: {found} has no module {part}{nearest}"


def _import(modules: Iterable[str]) -> dict[str, str]:
    failures = {}
    for module in dict.fromkeys(modules):
        try:
            with CONTAINED:
                importlib.import_module(module)
        except Exception as error:
            failures[module] = describe_error(error)
    return failures


def _absent(modules: Iterable[str]) -> dict[str, str]:
    """Return the modules that cannot be found inside a package that can, and the nearest that can; imports nothing."""
    absent = [name for name in modules if find_module(name.partition(".")[0]) and not find_module(name)]
    return {name: _missing(name) for name in absent if name not in sys.modules}


def _print(patches: Sequence[PatchExplanation], targets: Sequence[TargetExplanation]) -> None:
    for patch in patches:
        _print_patch(patch)
    for number, target in enumerate(targets):
        if number or patches:
            print_line()
        _print_target(target)


def _print_patch(explanation: PatchExplanation) -> None:
    entry, patch, record = explanation.entry, explanation.entry.patch, explanation.record
    print_text(f"{patch.name}: {patch.summary}" if patch.summary else patch.name, style="bold", indent=2)
    reason = f": {entry.reason}" if entry.reason else ""
    chosen_as = f" {entry.chosen_as}" if entry.chosen_as else ""
    decided = f" (decided by {explanation.chosen_by}{chosen_as})"
    if entry.verdict == OFF and entry.chosen_as:  # the reason has it already
        decided = ""
    file = entry.provenance.file
    facts = [
        ("from", f"{entry.provenance}{f' ({file})' if file else ''}"),
        ("verdict", f"{entry.verdict}{reason}{decided}"),
    ]
    if entry.verdict == "apply" and record.status != "applied":
        facts.append(("outcome", f"{record.status}{f': {record.reason}' if record.reason else ''}"))
    facts += (("wins over", name) for name in explanation.beats)
    facts += (("requires", str(requirement)) for requirement in explanation.requires)
    facts += (("needs", str(need)) for need in explanation.needs)
    facts += (("needs", f"patch {name}") for name in patch.needs_patches)
    for label, text in (("when", explanation.when), ("upstream", patch.upstream), ("until", patch.remove_when)):
        facts += [(label, text)] if text else []
    facts += (("option", f"{option.name} = {option.value!r} ({option.source})") for option in explanation.options)
    facts += (("remark", text) for text in explanation.remarks)
    for label, names in (
        ("after", patch.after),
        ("before", patch.before),
        ("conflicts", patch.conflicts),
        ("keep", patch.keep),
        ("also", patch.legacy_names),
    ):
        facts += [(label, ", ".join(names))] if names else []
    for label, text in facts:
        style = STYLES.get(text.split()[0].rstrip(":"), "") if label in ("verdict", "outcome") else ""
        print_text(f"  {label:<9} {text}", style=style, indent=12)


def _print_target(target: TargetExplanation) -> None:
    print_line(target.target, "bold")
    if target.error:
        print_text(f"  cannot be looked at: {target.error}", style="red", indent=4)
    for label, text in (
        ("module", target.hint),
        ("waits for", target.waits),
        ("follows", target.follows),
        ("body", "is written: whoever holds the function follows" if target.body else None),
        ("holds", f"the original of {target.holds}, it was not bound to the patch" if target.holds else None),
    ):
        if text:
            print_text(f"  {label:<9} {text}", indent=12)
    for number, layer in enumerate(target.layers):
        print_text(f"  {'outermost' if number == 0 else 'below it '} {what_of(layer)} {layer.place}", indent=12)
        if layer.patch:
            print_text(f"            by {layer.patch} ({layer.provenance})", indent=15)
        if layer.when_call:
            print_text(f"            when {layer.when_call}, else what is below", indent=17)
    if target.original:
        print_text(f"  original  {target.original}", indent=12)
    for change in target.changes:
        record = change.record
        reason = f" ({record.reason})" if record.reason else ""
        print_text(f"  {change.patch}: {record.status}{reason}", style=STYLES.get(record.status, ""), indent=4)
        places = (("rebound", record.rebound), ("kept", record.kept), ("unreachable", record.unreachable))
        for kind, where in places:
            for place in where:
                print_text(f"    {kind:<11} {place}", indent=16)
        if change.drift is not None:
            print_text(f"    drift       {change.drift_text}", indent=16)
    for layer in target.layers:
        for line in layer.diff.splitlines():
            print_text(f"    {line}".rstrip(), style=_DIFF.get(line[:1], ""), indent=8)
