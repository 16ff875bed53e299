"""``patchcore fingerprint``: record the fingerprints of a plugin's targets; ``check`` reports later changes of them."""

from __future__ import annotations

import argparse
import sysconfig
from pathlib import Path
from typing import Optional

from patchcore.builtin.drift.fingerprint import Originals
from patchcore.builtin.drift.recorded import UNSEEN, Fingerprint, Recorded, file_of
from patchcore.builtin.drift.recording import Recording, Row
from patchcore.builtin.shared.command_line import print_problems
from patchcore.builtin.shared.rows import print_table, print_text
from patchcore.cli import options as shared
from patchcore.cli.output import print_json
from patchcore.errors import UnknownName
from patchcore.objects.extensions import using
from patchcore.objects.printable import counted
from patchcore.planning.candidates import Candidate, select_patches

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Record the fingerprints of the targets of a plugin, for the versions of libraries that are "
        "installed here, in the file fingerprints.json of the plugin's package. What it has for other versions stays. "
        "Imports a library where its source does not show a target, unless told not to."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="PLUGIN|PATCH",
        help="whose fingerprints; by default those of every plugin outside of site-packages",
    )
    parser.add_argument(
        "--library",
        action="append",
        default=[],
        metavar="NAME",
        dest="libraries",
        help="only targets in this top-level package; may be repeated",
    )
    parser.add_argument(
        "--no-import", action="store_true", help="import no library; targets that its source does not show are unseen"
    )
    parser.add_argument(
        "--reviewed",
        action="store_true",
        help="also mark copies of originals as compared with this version: check is silent until the next change",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is out of date")
    shared.add_selection(parser)
    shared.add_format(parser)
    parser.set_defaults(command=main)


def main(options: argparse.Namespace) -> int:
    """Record or compare; 1 when a target could not be looked at, or with ``--check`` when something differs."""
    patcher = shared.patcher_from(options)
    candidates = patcher.collect()
    environment = patcher.make_environment()
    chosen = _chosen(options.names, candidates)
    plugins = _plugins(options, chosen, candidates)
    originals = Originals(import_missing=not options.no_import)
    for candidate in chosen:
        path = file_of(candidate.provenance)
        plugin = None if path is None else plugins.get(path)
        if plugin is not None and environment.has_libraries_of(candidate.patch):
            with using(patcher.plugins.extensions):
                plugin.take(candidate, originals, environment)
    rows = {path: plugin.rows(check=options.check) for path, plugin in plugins.items()}
    if not options.check:
        for path, plugin in plugins.items():
            before = plugin.recorded.to_text()
            plugin.update(reviewed=options.reviewed)
            if plugin.recorded.to_text() != before or any(not row.result.startswith("failed") for row in rows[path]):
                plugin.recorded.write()
    _print(options, plugins, rows)
    print_problems(patcher)
    found = [row for listed in rows.values() for row in listed]
    return 1 if any(options.check or row.result.startswith("failed") for row in found) else 0


def _chosen(names: list[str], candidates: list[Candidate]) -> list[Candidate]:
    if not names:
        return candidates
    wanted = {candidate.patch.name for name in names for candidate in select_patches(name, candidates)}
    return [candidate for candidate in candidates if candidate.patch.name in wanted]


def _plugins(
    options: argparse.Namespace, chosen: list[Candidate], candidates: list[Candidate]
) -> dict[Path, Recording]:
    """The plugins to look at, by file.

    Raises:
        UnknownName: a patch was named that no plugin contributes.
        PluginError: a file cannot be read.
    """
    names = {candidate.patch.name for candidate in chosen}
    found: dict[Path, Recording] = {}
    for candidate in chosen:
        path = file_of(candidate.provenance)
        if path is None:
            if options.names:
                raise UnknownName(f"{candidate.patch.name} is of no plugin that has a file of its own")
            continue
        if path in found or (not options.names and not options.check and _is_installed(path)):
            continue
        siblings = [c.patch.name for c in candidates if file_of(c.provenance) == path]
        if path.is_file() or not options.check:
            found[path] = Recording(Recorded.read(path), whole=names.issuperset(siblings), libraries=options.libraries)
    return found


def _is_installed(path: Path) -> bool:
    """Return whether a plugin lies where pip has put it, and is not its author's."""
    folders = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")]
    return any(folder in path.resolve().parents for folder in folders)


def _print(options: argparse.Namespace, plugins: dict[Path, Recording], rows: dict[Path, list[Row]]) -> None:
    if options.format == "json":
        files = [
            {
                "file": str(path),
                "libraries": {str(library): len(now) for library, now in plugin.now.items()},
                "unseen": {str(library): _unseen(now) for library, now in plugin.now.items()},
                "differences": [row._asdict() for row in rows[path]],
            }
            for path, plugin in plugins.items()
        ]
        print_json({"files": files})
        return
    for path, plugin in plugins.items():
        counts = ", ".join(f"{library} ({_counted(now)})" for library, now in plugin.now.items() if now)
        print_text(f"{path}: {counts or 'nothing that is installed here'}", indent=2)
        if rows[path]:
            print_table("Out of date" if options.check else "Recorded", ("LIBRARY", "TARGET", "RESULT"), rows[path])
    if not plugins:
        print_text(str(_nothing(options)), indent=2)


def _counted(now: dict[str, Fingerprint]) -> str:
    targets = counted(len(now), "target")
    return f"{targets}, {_unseen(now)} unseen" if _unseen(now) else targets


def _unseen(now: dict[str, Fingerprint]) -> int:
    return sum(fingerprint == UNSEEN for fingerprint in now.values())


def _nothing(options: argparse.Namespace) -> Optional[str]:
    if options.check:
        return "no plugin carries fingerprints"
    return "no plugin to record; those in site-packages have to be named"
