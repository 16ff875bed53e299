"""``patchcore fingerprint``: record the fingerprints of a plugin's targets; ``check`` reports later changes of them."""

from __future__ import annotations

import argparse
import sysconfig
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple, Optional

from patchcore.builtin.drift.drift import fingerprinted
from patchcore.builtin.drift.fingerprint import Originals
from patchcore.builtin.drift.recorded import UNSEEN, Fingerprint, Library, Recorded, file_of
from patchcore.builtin.drift.replacements.reads import name_fingerprints, names_read
from patchcore.builtin.shared.command_line import print_problems
from patchcore.builtin.shared.rows import print_table, print_text
from patchcore.cli import options as shared
from patchcore.cli.output import print_json
from patchcore.declare.changes import SlotChange
from patchcore.errors import UnknownName, Unseen, describe_error
from patchcore.objects.extensions import using
from patchcore.objects.printable import counted
from patchcore.planning.candidates import Candidate, select_patches
from patchcore.planning.conditions import Environment

__all__ = ["add_arguments", "main"]


class _Row(NamedTuple):
    """One target with its library and the result: ``new``, ``changed``, an error and so on."""

    library: str
    target: str
    result: str


class _Plugin:
    """The fingerprints of one plugin as they are in its file, and as they are now.

    Args:
        path: of the file.
        whole: true if all patches of the plugin are read: other entries of the file for a version are then out of date.
        libraries: the names of those to look at, all when empty.
    """

    def __init__(self, path: Path, *, whole: bool, libraries: Collection[str] = ()) -> None:
        self.path = path
        self.whole = whole
        self.libraries = libraries
        self.recorded = Recorded.read(path)
        self.now: dict[Library, dict[str, Fingerprint]] = {}
        self.names: dict[Library, dict[str, Fingerprint]] = {}
        self.reviewed: dict[str, dict[str, str]] = {}
        self.failures: list[_Row] = []
        self.sources: dict[str, str] = {}

    def take(self, candidate: Candidate, originals: Originals, environment: Environment) -> None:
        """Take the fingerprints of one patch."""
        targets = [change.target.pin(environment.is_module) for change in candidate.patch.changes]
        for change, target in zip(candidate.patch.changes, targets):
            library = Library.of(target, environment)
            if isinstance(change, SlotChange) and not (self.libraries and library.name not in self.libraries):
                read = [target] if change.adds else names_read(change, target, originals.sources, environment.is_module)
                found = {str(name): one for name, one in name_fingerprints(read, originals).items()}
                self.names.setdefault(library, {}).update(found)
        for change, target in fingerprinted(candidate.patch, targets):
            library = Library.of(target, environment)
            if self.libraries and library.name not in self.libraries:
                continue
            self.reviewed.setdefault(library.name, {})[str(target)] = library.version
            found = self.now.setdefault(library, {})
            if str(target) in found:
                continue
            try:
                one = originals.fingerprint(change, target)
                found[str(target)] = one
                source = originals.source(one.source)
                if source:
                    self.sources[one.source] = source
            except Unseen:  # and not to be imported; whoever recorded it where it was has seen more
                found[str(target)] = self.recorded.entries(library).get(str(target), UNSEEN)
            except Exception as error:  # of the library's import
                self.failures.append(_Row(str(library), str(target), f"failed: {describe_error(error)}"))

    def rows(self, *, check: bool) -> list[_Row]:
        """Return a row for each target that differs from the file; with ``check``, for those that contradict it."""
        rows = list(self.failures)
        failed = {row.target for row in rows}
        for library, now in self.now.items():
            before = self.recorded.entries(library)
            for target, fingerprint in now.items():
                if target not in before:
                    result = "unseen" if fingerprint == UNSEEN else "new"
                    rows.append(_Row(str(library), target, result))
                elif before[target] != fingerprint and not (check and before[target] == UNSEEN):
                    rows.append(_Row(str(library), target, "changed"))
            gone = [target for target in before if target not in now and target not in failed] if self.whole else []
            rows += (_Row(str(library), target, "not a target any more") for target in gone)
        return rows

    def update(self, *, reviewed: bool = False) -> None:
        """Add the versions that are installed here.

        Args:
            reviewed: mark the targets as looked at.
        """
        for library, now in self.now.items():
            versions = self.recorded.libraries.setdefault(library.name, {})
            kept = {} if self.whole else versions.get(library.version, {})
            versions[library.version] = {**kept, **now}
        for library, read in self.names.items():
            names = self.recorded.names.setdefault(library.name, {})
            names[library.version] = {**({} if self.whole else names.get(library.version, {})), **read}
        if reviewed:
            for name, marks in self.reviewed.items():
                self.recorded.reviewed.setdefault(name, {}).update(marks)
        self.recorded.add_sources(self.sources)


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


def _plugins(options: argparse.Namespace, chosen: list[Candidate], candidates: list[Candidate]) -> dict[Path, _Plugin]:
    """The plugins to look at, by file.

    Raises:
        UnknownName: a patch was named that no plugin contributes.
        PluginError: a file cannot be read.
    """
    names = {candidate.patch.name for candidate in chosen}
    found: dict[Path, _Plugin] = {}
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
            found[path] = _Plugin(path, whole=names.issuperset(siblings), libraries=options.libraries)
    return found


def _is_installed(path: Path) -> bool:
    """Return whether a plugin lies where pip has put it, and is not its author's."""
    folders = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")]
    return any(folder in path.resolve().parents for folder in folders)


def _print(options: argparse.Namespace, plugins: dict[Path, _Plugin], rows: dict[Path, list[_Row]]) -> None:
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
