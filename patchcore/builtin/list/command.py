"""``patchcore list``: the plan for people: every patch with its verdict here and the reason."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from patchcore.builtin.shared.command_line import describe_problems, print_problems
from patchcore.builtin.shared.rows import print_counts, print_rows, print_text
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line
from patchcore.objects.printable import counted
from patchcore.patcher import Patcher
from patchcore.planning.conditions import APPLY, OFF, Environment
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.report import FAILED, SKIPPED

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Show the patches of the installed plugins: which would be applied here, in which order, which are off, and "
        "why the rest is skipped. Patches that are not for this environment are counted by what they need. Changes "
        "nothing and imports no target."
    )
    parser.add_argument(
        "text",
        nargs="?",
        default="",
        metavar="TEXT",
        help="only patches with TEXT in their name, targets or summary, whatever their verdict",
    )
    parser.add_argument("--all", action="store_true", help="show every patch that is not applied, and why")
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also show every change, and what plugins remark on patches; reads the sources of targets",
    )
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the plugins and the plan."""
    patcher = shared.patcher_from(options)
    plan = patcher.plan()
    every = list(_patches(plan, patcher.make_environment(), verbose=options.verbose))
    patches = [patch for patch in every if _has(patch, options.text)]
    plugins = _plugins(patcher, every)
    sections = patcher.plugins.sections("list_sections", plugins=patcher.plugins)
    if options.format == "json":
        print_json(
            {
                "plugins": plugins,
                "patches": [{key: value for key, value in patch.items() if key != "shown"} for patch in patches],
                "sections": {section.title: section.data for section in sections},
                "settings": dict(patcher.settings.origins),
                "notes": list(plan.notes),
                "problems": describe_problems(patcher),
            }
        )
    else:
        if not plugins:
            print_text(_why_no_plugins(patcher), indent=2)
        _print(plugins, patches, options)
        for section in sections if not options.text else ():
            print_line(f"\n{section.title}")
            for line in section.lines:
                print_text(f"  {line}", indent=4)
        for note in plan.notes:
            print_text(f"note: {note}", indent=2)
    print_problems(patcher)
    return 0


def _patches(plan: Plan, environment: Environment, *, verbose: bool) -> Iterator[dict[str, Any]]:
    """Yield the patches in the order of the plan, as JSON has them; ``shown`` is false for those that are counted."""
    order = 0
    for entry in plan:
        patch, who = entry.patch, entry.provenance
        order += entry.verdict == APPLY
        unmet = environment.judge(patch).reason if entry.verdict == OFF else ""
        yield {
            "name": patch.name,
            "summary": patch.summary,
            "verdict": entry.verdict,
            "reason": entry.reason,
            "unmet": unmet,
            "order": order if entry.verdict == APPLY else None,
            "chosen_by": entry.chosen_by,
            "default": patch.default,
            "plugin": who.plugin,
            "distribution": who.distribution,
            "version": who.version,
            "requires": [*patch.requires, *patch.needs, *(f"patch {name}" for name in patch.needs_patches)],
            "legacy_names": list(patch.legacy_names),
            "changes": [
                {"kind": change.kind, "target": str(target), "text": change.phrase(target)}
                for change, target in zip(patch.changes, entry.targets)
            ],
            **(_remarks(plan, entry) if verbose else {}),
            "shown": entry.asked_for or entry.chosen_by is not None or (entry.verdict in (APPLY, OFF) and not unmet),
        }


def _remarks(plan: Plan, entry: PlannedPatch) -> dict[str, Any]:
    """Return the remarks of plugins on a patch: the texts, and the data for programs by topic."""
    remarks = plan.remarks(entry)
    found: dict[str, Any] = {"remarks": [remark.text for remark in remarks if remark.text]}
    for remark in remarks:
        if remark.data:
            found.setdefault(remark.topic, []).extend(remark.data)
    return found


def _plugins(patcher: Patcher, patches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "name": p.plugin,
            "distribution": p.distribution,
            "version": p.version,
            "origin": p.value,
            "file": p.file,
            "patches": sum(patch["plugin"] == p.plugin for patch in patches),
        }
        for p in patcher.plugins.provenances.values()
    ]


def _why_no_plugins(patcher: Patcher) -> str:
    denied = [provenance.plugin for provenance in patcher.plugins.denied]
    if denied:
        origin = patcher.settings.origins.get("plugins", "")
        return f"the setting plugins ({origin}) leaves out every installed plugin: {', '.join(denied)}"
    return "no plugins are installed; a plugin is a distribution with entry points in the group npu_patches"


def _print(
    plugins: Sequence[Mapping[str, Any]], patches: Sequence[Mapping[str, Any]], options: argparse.Namespace
) -> None:
    owners = {plugin["name"]: f"{plugin['name']}  {_distribution(plugin)}" for plugin in plugins}
    everything = options.all or bool(options.text)
    width = max((len(str(patch["order"])) for patch in patches if patch["order"]), default=0)
    for name in dict.fromkeys([*owners, *(patch["plugin"] for patch in patches)]):
        own = [patch for patch in patches if patch["plugin"] == name]
        if own:
            print_line(owners.get(name, name), style="bold")
            _print_patches([p for p in own if p["shown"] or everything], width, verbose=options.verbose)
            print_counts(p["unmet"] or p["reason"] for p in own if not (p["shown"] or everything))
            print_line()
    idle = [(plugin["name"], _distribution(plugin)) for plugin in plugins if not plugin["patches"]]
    if idle and not options.text:
        print_line("plugins without patches", style="bold")
        print_rows(idle)
        if patches:
            print_line()
    if options.text and not patches:
        print_line(f"no patch has {options.text!r} in its name, targets or summary")
    if patches:
        counts = Counter(patch["verdict"] for patch in patches)
        others = [f"{counts[verdict]} {verdict}" for verdict in (OFF, SKIPPED, FAILED) if counts[verdict]]
        rest = "" if everything or all(patch["shown"] for patch in patches) else "; --all shows each"
        print_text(f"{counts[APPLY]} of {counted(len(patches), 'patch')} to apply{_after(others)}{rest}", indent=2)


def _after(texts: Sequence[str]) -> str:
    return "".join(f", {text}" for text in texts)


def _print_patches(patches: Sequence[Mapping[str, Any]], width: int, *, verbose: bool) -> None:
    """Print the patches of one plugin; ``width`` is that of the numbers in front."""
    rows = [(f"{patch['order'] or '':>{width}}", patch["name"], patch["verdict"], _what(patch)) for patch in patches]
    if not verbose:
        # a summary may be cut; a reason has the line that fixes it
        whole = any(patch["verdict"] in (SKIPPED, FAILED) for patch in patches)
        print_rows([row if width else row[1:] for row in rows], whole=whole)
        return
    for patch, row in zip(patches, rows):
        print_rows([row if width else row[1:]], whole=True)
        print_rows([(" " * width, detail) for detail in _details(patch)], whole=True)


def _has(patch: Mapping[str, Any], text: str) -> bool:
    """True if a patch has ``text`` somewhere; upper and lower case are the same."""
    changes = (change["text"] for change in patch["changes"])
    places = (patch["name"], patch["summary"], *changes, *patch["requires"], *patch["legacy_names"])
    return any(text.lower() in place.lower() for place in places)


def _what(patch: Mapping[str, Any]) -> str:
    """Return why a patch is not applied; or its summary if it is applied, or only waits to be enabled."""
    if patch["verdict"] == OFF and patch["chosen_by"] is None:
        return str(patch["unmet"] or _summary(patch))
    return str(patch["reason"] or _summary(patch))


def _summary(patch: Mapping[str, Any]) -> str:
    first: Optional[Mapping[str, str]] = next(iter(patch["changes"]), None)
    more = f" (+{len(patch['changes']) - 1})" if len(patch["changes"]) > 1 else ""
    return str(patch["summary"] or (f"{first['text']}{more}" if first else ""))


def _details(patch: Mapping[str, Any]) -> list[str]:
    return [
        *(change["text"] for change in patch["changes"]),
        *([f"legacy names: {', '.join(patch['legacy_names'])}"] if patch["legacy_names"] else []),
        *([f"chosen by {patch['chosen_by']}"] if patch["chosen_by"] else []),
        *patch["remarks"],
    ]


def _distribution(plugin: Mapping[str, Any]) -> str:
    return f"{plugin['distribution']} {plugin['version']}" if plugin["distribution"] else "(local module)"
