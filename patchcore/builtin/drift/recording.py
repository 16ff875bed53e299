"""Takes the fingerprints of the targets of a plugin, for its file."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from patchcore.builtin.drift.drift import fingerprinted
from patchcore.builtin.drift.fingerprint import Originals
from patchcore.builtin.drift.recorded import UNSEEN, Fingerprint, Library, Recorded
from patchcore.builtin.drift.replacements.reads import name_fingerprints, names_read
from patchcore.declare.changes import SlotChange
from patchcore.errors import Unseen, describe_error
from patchcore.planning.candidates import Candidate
from patchcore.planning.conditions import Environment

__all__ = ["Recording", "Row"]


class Row(NamedTuple):
    """One target with its library and the result: ``new``, ``changed``, an error and so on."""

    library: str
    target: str
    result: str


class Recording:
    """The fingerprints of one plugin as they are in its file, and as they are now.

    Args:
        recorded: the content of its file, to which :meth:`update` adds.
        whole: true if all patches of the plugin are read: other entries of the file for a version are then out of date.
        libraries: the names of those to look at, all when empty.
    """

    def __init__(self, recorded: Recorded, *, whole: bool, libraries: Collection[str] = ()) -> None:
        self.whole = whole
        self.libraries = libraries
        self.recorded = recorded
        self.now: dict[Library, dict[str, Fingerprint]] = {}
        self.names: dict[Library, dict[str, Fingerprint]] = {}
        self.reviewed: dict[str, dict[str, str]] = {}
        self.failures: list[Row] = []
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
                self.failures.append(Row(str(library), str(target), f"failed: {describe_error(error)}"))

    def rows(self, *, check: bool) -> list[Row]:
        """Return a row for each target that differs from the file; with ``check``, for those that contradict it."""
        rows = list(self.failures)
        failed = {row.target for row in rows}
        for library, now in self.now.items():
            before = self.recorded.entries(library)
            for target, fingerprint in now.items():
                if target not in before:
                    result = "unseen" if fingerprint == UNSEEN else "new"
                    rows.append(Row(str(library), target, result))
                elif before[target] != fingerprint and not (check and before[target] == UNSEEN):
                    rows.append(Row(str(library), target, "changed"))
            gone = [target for target in before if target not in now and target not in failed] if self.whole else []
            rows += (Row(str(library), target, "not a target any more") for target in gone)
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
