"""``patchcore suggest``: the distributions to install for a project, the patches to enable, and matching versions."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from patchcore.builtin.install.command import install_command
from patchcore.builtin.install.distributions import known_distributions
from patchcore.builtin.shared.command_line import describe_problems, print_problems
from patchcore.builtin.shared.rows import print_rows, print_text
from patchcore.builtin.suggest.imports import Imports, find_imports
from patchcore.cli import options as shared
from patchcore.cli.output import print_json, print_line
from patchcore.declare.patch import Patch
from patchcore.errors import SettingsError
from patchcore.objects.modules import find_module
from patchcore.objects.printable import counted
from patchcore.planning.conditions import APPLY, Environment

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Say what a project can use, from what its files import: distributions to install, patches that fit and are "
        "off by default, and whether the libraries here have versions that patches are for. Runs nothing of the "
        "project."
    )
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="a file or folder (default: this folder)")
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Print the suggestions.

    Raises:
        SettingsError: there is no such file or folder.
    """
    path = Path(options.path)
    if not path.exists():
        raise SettingsError(f"there is no file or folder {options.path}")
    imports = find_imports(path)
    patcher = shared.patcher_from(options, start=path if path.is_dir() else path.parent)
    patches = [candidate.patch for candidate in patcher.collect()]
    environment = patcher.make_environment()
    distributions = list(_distributions(imports))
    needed = _needed_libraries(distributions)
    missing = [requirement for requirement, _ in needed]
    missing += [found["name"] for found in distributions if found["version"] is None]
    command = install_command(*missing) if missing else ""
    off = [
        {"name": patch.name, "summary": patch.summary}
        for patch in patches
        if not patch.default and _libraries(patch) & imports.roots and environment.judge(patch).word == APPLY
    ]
    versions = list(_versions(patches, imports.roots, environment))
    if options.format == "json":
        described = {"distributions": distributions, "install": command, "off_by_default": off, "libraries": versions}
        unreadable = [str(file) for file in imports.unreadable]
        files = {"path": str(path), "files": imports.files, "unreadable": unreadable}
        print_json({**files, **described, "problems": describe_problems(patcher)})
    else:
        _print(path, imports, distributions, needed, command, off, versions)
    print_problems(patcher)
    return 0


def _distributions(imports: Imports) -> Iterator[dict[str, Any]]:
    for distribution in known_distributions():
        found = distribution.matching(imports.names)
        if found and (distribution.version or distribution.has_room):
            yield {
                "name": distribution.name,
                "version": distribution.version,
                "imports": found,
                "brings": distribution.brings,
            }


def _needed_libraries(distributions: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the requirements of libraries that are missing, each with the suggested distribution that needs it."""
    suggested = {found["name"] for found in distributions}
    return [
        (requirement, distribution.name)
        for distribution in known_distributions()
        for library, requirement in distribution.uses.items()
        if distribution.name in suggested and not find_module(library)
    ]


def _libraries(patch: Patch) -> frozenset[str]:
    """Return the libraries that a patch is for: those that it requires and those of its targets."""
    required = (re.split(r"[^\w.-]", requirement.strip())[0].replace("-", "_") for requirement in patch.requires)
    return frozenset((*required, *(change.target.root for change in patch.changes)))


def _versions(patches: Collection[Patch], roots: Collection[str], environment: Environment) -> Iterator[dict[str, Any]]:
    """Yield each imported library that patches are for, those of distributions that are not installed included."""
    known = {name: spec for distribution in known_distributions() for name, spec in distribution.versions.items()}
    for library in sorted(roots):
        own = [patch for patch in patches if library in _libraries(patch)]
        spec = known.get(library, "")
        if own or spec:
            yield {
                "name": library,
                "version": environment.version(library),
                "found": environment.is_module(library),
                "supported": spec,
                "in_range": environment.unmet(f"{library}{spec}") is None if spec else None,
                "patches": len(own),
                "for_version": sum(map(environment.has_libraries_of, own)),
            }


def _print(
    path: Path,
    imports: Imports,
    distributions: list[dict[str, Any]],
    needed: list[tuple[str, str]],
    command: str,
    off: list[dict[str, Any]],
    versions: list[dict[str, Any]],
) -> None:
    files = counted(imports.files, "Python file")
    print_text(f"{path}: {files}{_unreadable(imports)}", indent=2)
    if not distributions:
        print_text("nothing to suggest: the project imports no library that a plugin of patchcore patches", indent=2)
    rows = [(d["name"], f"for {', '.join(d['imports'])}", d["brings"], d["version"]) for d in distributions]
    for title, shown in (
        (
            "install",
            [*((library, f"for {name}", "") for library, name in needed), *(row[:3] for row in rows if row[3] is None)],
        ),
        ("installed already", [row[:3] for row in rows if row[3] is not None]),
    ):
        if shown:
            print_line(f"\n{title}", style="bold")
            print_rows(shown, whole=True)
    if command:
        print_line(f"\n  {command}")
    if versions:
        print_line("\nversions", style="bold")
        print_rows([(library["name"], *_fitness(library)) for library in versions], whole=True)
    if off:
        print_line(f"\n{counted(len(off), 'patch')} off by default that would apply; --enable NAME", style="bold")
        print_rows([(patch["name"], patch["summary"]) for patch in off], whole=True)


def _unreadable(imports: Imports) -> str:
    some = ", ".join(map(str, imports.unreadable[:3])) + (", ..." if len(imports.unreadable) > 3 else "")
    return f", {len(imports.unreadable)} cannot be read ({some})" if some else ""


def _fitness(library: dict[str, Any]) -> tuple[str, str]:
    """Return the version of a library, and how many patches are for it, for people."""
    found = library["version"] or ("found" if library["found"] else "not installed")
    patches = f"{library['for_version']} of {counted(library['patches'], 'patch')} for it" if library["patches"] else ""
    supported = f"supported: {library['supported']}" if library["supported"] else ""
    if library["found"] and library["in_range"] is False:
        supported = f"not {supported}"
    return found, "; ".join(filter(None, (patches if library["found"] else "", supported)))
