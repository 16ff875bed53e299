"""``patchcore list``: which plugins and patches are installed, and whether they fit here."""

from __future__ import annotations

import argparse
import gc
from typing import Any

from patchcore.builtin.command_line import describe_problems, print_problems
from patchcore.builtin.rows import print_counts, print_rows, print_text
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line
from patchcore.declare.changes import Change
from patchcore.objects.printable import counted, inflected
from patchcore.patcher import Patcher
from patchcore.planning.conditions import Environment
from patchcore.report import PENDING

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Show the patches of the installed plugins that fit here, and count the others by what they need. Imports "
        "no target."
    )
    parser.add_argument(
        "text",
        nargs="?",
        default="",
        metavar="TEXT",
        help="only patches with TEXT in their name, targets or summary, also those that do not fit here",
    )
    parser.add_argument("--all", action="store_true", help="also show patches that do not fit here, and why")
    parser.add_argument("--fits", action="store_true", help="show only patches that fit here")
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="also show every target and legacy name")
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the plugins and the patches."""
    collects = gc.isenabled()
    gc.disable()  # most objects live until everything is printed; the collector took a twentieth of the time
    try:
        return _list(options)
    finally:
        if collects:
            gc.enable()


def _list(options: argparse.Namespace) -> int:
    patcher = shared.patcher_from(options)
    every = _patches(patcher)
    patches = [patch for patch in every if _has(patch, options.text) and (patch["fits"] or not options.fits)]
    plugins = _plugins(patcher, every)
    sections = patcher.plugins.sections("list_sections", plugins=patcher.plugins)
    if options.format == "json":
        listed = {section.title: section.data for section in sections}
        problems = describe_problems(patcher)
        print_json({"plugins": plugins, "patches": patches, "sections": listed, "problems": problems})
    else:
        _print(plugins, patches, options)
        for section in sections if not options.text else ():
            print_line(f"\n{section.title}")
            for line in section.lines:
                print_text(f"  {line}", indent=4)
    print_problems(patcher)
    return 0


def _patches(patcher: Patcher) -> list[dict[str, Any]]:
    environment = Environment()
    candidates = sorted(patcher.collect(), key=lambda candidate: candidate.provenance.plugin)
    return [
        {
            "name": patch.name,
            "summary": patch.summary,
            "plugin": provenance.plugin,
            "distribution": provenance.distribution,
            "version": provenance.version,
            "default": patch.default,
            "fits": verdict.status == PENDING,
            "reason": verdict.reason,
            "requires": [*patch.requires, *patch.needs],
            "targets": [_target(change) for change in patch.changes],
            "legacy_names": list(patch.legacy_names),
        }
        for patch, provenance in candidates
        for verdict in [environment.judge(patch)]
    ]


def _plugins(patcher: Patcher, patches: list[dict[str, Any]]) -> list[dict[str, Any]]:
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


def _print(plugins: list[dict[str, Any]], patches: list[dict[str, Any]], options: argparse.Namespace) -> None:
    if not plugins:
        print_text(
            "no plugins are installed; a plugin is a distribution with entry points in the group npu_patches", indent=2
        )
    owners = {plugin["name"]: f"{plugin['name']}  {_distribution(plugin)}" for plugin in plugins}
    everything = options.all or bool(options.text)
    for name in dict.fromkeys([*owners, *(patch["plugin"] for patch in patches)]):
        own = [patch for patch in patches if patch["plugin"] == name]
        if own:
            print_line(owners.get(name, name), style="bold")
            _print_patches([patch for patch in own if patch["fits"] or everything], verbose=options.verbose)
            print_counts(patch["reason"] for patch in own if not (patch["fits"] or everything))
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
        fitting = [patch["default"] for patch in patches if patch["fits"]]
        rest = "" if everything or len(fitting) == len(patches) else "; --all lists the others"
        every = counted(len(patches), "patch")
        fits = inflected(len(fitting), "fits", "fit")
        print_text(f"{len(fitting)} of {every} {fits} here, {sum(fitting)} on by default{rest}")


def _print_patches(patches: list[dict[str, Any]], *, verbose: bool) -> None:
    """Print the patches of one plugin."""
    rows = [(patch["name"], _state(patch), _what(patch)) for patch in patches]
    if not verbose:
        print_rows(rows)
        return
    for patch, row in zip(patches, rows):
        print_rows([row])
        print_rows([("", detail) for detail in _details(patch)], whole=True)


def _has(patch: dict[str, Any], text: str) -> bool:
    """Return true if a patch has ``text`` somewhere; upper and lower case are the same."""
    places = (patch["name"], patch["summary"], *patch["targets"], *patch["requires"], *patch["legacy_names"])
    return any(text.lower() in place.lower() for place in places)


def _state(patch: dict[str, Any]) -> str:
    return ("on" if patch["default"] else "off") if patch["fits"] else "-"


def _what(patch: dict[str, Any]) -> str:
    if not patch["fits"]:
        return str(patch["reason"])
    more = f" (+{len(patch['targets']) - 1})" if len(patch["targets"]) > 1 else ""
    return str(patch["summary"] or "".join(patch["targets"][:1]) + more)


def _details(patch: dict[str, Any]) -> list[str]:
    names = [f"legacy names: {', '.join(patch['legacy_names'])}"] if patch["legacy_names"] else []
    return [*patch["targets"], *names]


def _target(change: Change) -> str:
    """The target, or what is done about the import of a module, whose name alone says little."""
    return str(change.target) if change.target.path else str(change)


def _distribution(plugin: dict[str, Any]) -> str:
    return f"{plugin['distribution']} {plugin['version']}" if plugin["distribution"] else "(local module)"
