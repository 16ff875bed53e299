"""Drift: have the targets of a patch changed since its author recorded their fingerprints?

The fingerprints are in a file next to the plugin, ``fingerprints.json``, by library, version and target; ``patchcore
fingerprint`` writes it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from patchcore.changes import Call, SlotChange
from patchcore.conditions import Environment
from patchcore.errors import PatchError, PluginError, TargetNotFound, Unseen, describe_error
from patchcore.patch import Patch
from patchcore.plan import PlannedPatch
from patchcore.provenance import Provenance
from patchcore.target import Slot, Target

if TYPE_CHECKING:
    from patchcore.fingerprint import Originals

__all__ = [
    "ABSENT_SOURCE",
    "BODY_CHANGED",
    "GONE",
    "SIGNATURE_CHANGED",
    "UNCHANGED",
    "UNKNOWN",
    "Comparison",
    "Drift",
    "Fingerprint",
    "Library",
    "Recorded",
    "file_of",
    "remarks",
    "watched",
]

SCHEMA_VERSION = 1

UNCHANGED = "unchanged"
BODY_CHANGED = "body changed"
SIGNATURE_CHANGED = "signature changed"
GONE = "gone"
UNKNOWN = "unknown"

#: The source of an entry that is not there.
ABSENT_SOURCE = "absent"

#: The version of a library that has none.
UNVERSIONED = "unversioned"


class Fingerprint(NamedTuple):
    """What a target looked like.

    Args:
        source: the digest of its normalised source; ``compiled`` where there is none, ``a dict`` for an object that is
            made at run time, ``absent``, or ``of torch`` where another library defines it. Of an attribute that a class
            inherits from another library, the digest of the class, which says what it does there.
        signature: of a function, or of the ``__init__`` of a class, as text; ``""`` where there is none to be seen.
        members: of a class or module, the digests of what it defines itself, by name.
    """

    source: str
    signature: str = ""
    members: Mapping[str, str] = MappingProxyType({})


class Library(NamedTuple):
    """The installed version of a library.

    Args:
        name: top-level package.
        version: without the local part, ``2.1.0`` of ``2.1.0+cpu``.
    """

    name: str
    version: str

    @classmethod
    def of(cls, target: Target, environment: Environment) -> Library:
        """Return the library that ``target`` is in."""
        return cls(target.root, (environment.version(target.root) or UNVERSIONED).partition("+")[0])

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Comparison(NamedTuple):
    """What has become of one target.

    Args:
        target: with its module.
        status: ``unchanged``, ``body changed``, ``signature changed``, ``gone`` or ``unknown``.
        library: where it was looked at.
        recorded: the version that it is compared with, ``None`` where there is none.
        detail: what has changed, or why that is unknown.
    """

    target: Target
    status: str
    library: Library
    recorded: Optional[str] = None
    detail: str = ""

    @property
    def drifted(self) -> bool:
        """True where it is known to have changed."""
        return self.status in (BODY_CHANGED, SIGNATURE_CHANGED, GONE)

    def to_dict(self) -> dict[str, Any]:
        """Return it as a plain dictionary."""
        return {
            "target": str(self.target),
            "status": self.status,
            "library": self.library.name,
            "version": self.library.version,
            "recorded": self.recorded,
            "detail": self.detail,
        }

    def __str__(self) -> str:
        since = f" since {self.library.name} {self.recorded}" if self.drifted else ""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.target}: {self.status}{since}{detail}"


class Recorded:
    """The fingerprints that a plugin carries, by library, version and target.

    Args:
        path: of the file.
        libraries: what is in it.
    """

    def __init__(self, path: Path, libraries: dict[str, dict[str, dict[str, Fingerprint]]]) -> None:
        self.path = path
        self.libraries = libraries

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """Read ``path``, where there need not be a file.

        Raises:
            PluginError: it is not what ``patchcore fingerprint`` writes.
        """
        import json  # for those plugins that carry fingerprints

        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls(path, {})
        try:
            content = json.loads(text)
            if content["schema_version"] != SCHEMA_VERSION:
                raise ValueError(f"schema_version {content['schema_version']!r}, expected {SCHEMA_VERSION}")
            return cls(
                path,
                {
                    name: {
                        version: {target: Fingerprint(**entry) for target, entry in entries.items()}
                        for version, entries in versions.items()
                    }
                    for name, versions in content["libraries"].items()
                },
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PluginError(
                f"{path} cannot be read ({describe_error(error)}); delete it and record it again: patchcore fingerprint"
            ) from error

    def entries(self, library: Library) -> dict[str, Fingerprint]:
        """Return what is recorded for one version of a library, by target."""
        return self.libraries.get(library.name, {}).get(library.version, {})

    def has(self, library: Library, target: Target) -> bool:
        """Tell whether ``target`` is recorded for this version."""
        return str(target) in self.entries(library)

    def nearest(self, library: Library, target: Target) -> Optional[str]:
        """Return the recorded version to compare with: this one, else the last before it, else the first after it."""
        versions = self.libraries.get(library.name, {})
        having = sorted((v for v, entries in versions.items() if str(target) in entries), key=_version_key)
        if library.version in having or not having:
            return library.version if having else None
        before = [version for version in having if _version_key(version) < _version_key(library.version)]
        return before[-1] if before else having[0]

    def write(self) -> None:
        """Write the file: one line for each target, in order, so that differences can be reviewed."""
        self.path.write_text(self.to_text(), encoding="utf-8")

    def to_text(self) -> str:
        """Return what is to be in the file."""
        import json

        lines = ["{", f'  "schema_version": {SCHEMA_VERSION},', '  "libraries": {']
        libraries = {name: versions for name, versions in sorted(self.libraries.items()) if any(versions.values())}
        for name, versions in libraries.items():
            lines.append(f"    {json.dumps(name)}: {{")
            kept = {version: versions[version] for version in sorted(versions, key=_version_key) if versions[version]}
            for version, entries in kept.items():
                lines.append(f"      {json.dumps(version)}: {{")
                for target, fingerprint in sorted(entries.items()):
                    lines.append(f"        {json.dumps(target)}: {json.dumps(_entry(fingerprint))},")
                lines[-1] = lines[-1].rstrip(",")
                lines.append("      },")
            lines[-1] = lines[-1].rstrip(",")
            lines.append("    },")
        lines[-1] = lines[-1].rstrip(",")
        return "\n".join([*lines, "  }", "}", ""])


class Drift:
    """Compares what is installed with the fingerprints that plugins carry.

    Args:
        original_of: returns what a slot held before anybody patched it; by default it holds that now.
    """

    def __init__(self, original_of: Optional[Callable[[Slot], Any]] = None) -> None:
        self._environment = Environment()
        self._original_of = original_of
        self._known: Optional[Originals] = None
        self._files: dict[Provenance, Optional[Recorded]] = {}

    def of(self, entry: PlannedPatch, *, trusting: bool = False) -> list[Comparison]:
        """Return what has become of the targets of one patch, nothing where its plugin carries no fingerprints.

        Args:
            entry: planned or not to be applied; its library is installed.
            trusting: believe that an installed version is what it was when it was recorded, and leave it out.

        Raises:
            PluginError: the file cannot be read.
        """
        recorded = self._recorded(entry.provenance)
        if recorded is None:
            return []
        found = []
        for change, target in watched(entry.patch, entry.targets):
            library = Library.of(target, self._environment)
            if trusting and recorded.has(library, target):
                continue
            version = recorded.nearest(library, target)
            if version is None:
                why = f"no version of {library.name} is recorded; run patchcore fingerprint {entry.patch.name}"
                found.append(Comparison(target, UNKNOWN, library, None, why))
                continue
            before = recorded.entries(Library(library.name, version))[str(target)]
            try:
                status, detail = _compare(before, self._originals().fingerprint(change, target))
            except TargetNotFound as error:
                status, detail = GONE, str(error)
            except Unseen as error:
                status, detail = UNKNOWN, f"seen only once it is imported ({error})"
            found.append(Comparison(target, status, library, version, detail))
        return found

    def remarks(self, entry: PlannedPatch) -> tuple[tuple[str, ...], int]:
        """Return what there is to say about a patch that is applied, and how loud, as a level of :mod:`logging`.

        Of a library of a version that is recorded there is nothing to say: it is believed to be what it was.
        """
        try:
            comparisons = self.of(entry, trusting=True)
        except PluginError as error:
            return (str(error),), logging.WARNING
        drifted = any(comparison.drifted for comparison in comparisons)
        return remarks(comparisons), logging.WARNING if drifted else logging.INFO

    def refuse(self, entry: PlannedPatch) -> None:
        """Raise :class:`PatchError` where a target has changed."""
        try:
            drifted = [str(comparison) for comparison in self.of(entry) if comparison.drifted]
        except PluginError as error:
            drifted = [str(error)]
        if drifted:
            raise PatchError(
                f"patch {entry.patch.name} ({entry.provenance}) cannot be applied: {'; '.join(drifted)}. "
                f"Adapt the patch and run patchcore fingerprint {entry.provenance.plugin}, "
                f"or leave it out with --disable {entry.patch.name}"
            )

    def _originals(self) -> Originals:
        if self._known is None:
            from patchcore.fingerprint import Originals  # reads sources: for those who compare

            self._known = Originals(self._original_of)
        return self._known

    def _recorded(self, provenance: Provenance) -> Optional[Recorded]:
        if provenance not in self._files:
            path = file_of(provenance)
            self._files[provenance] = Recorded.read(path) if path is not None and path.is_file() else None
        return self._files[provenance]


def file_of(provenance: Provenance) -> Optional[Path]:
    """Return where a plugin carries its fingerprints, ``None`` for patches of no plugin.

    ``fingerprints.json`` in the package of the plugin's module; next to a module that is in no package,
    ``<module>.fingerprints.json``.
    """
    if provenance.file is None:
        return None
    file = Path(provenance.file)
    in_package = os.path.exists(file.with_name("__init__.py"))
    return file.with_name("fingerprints.json" if in_package else f"{file.stem}.fingerprints.json")


def watched(patch: Patch, targets: Sequence[Target]) -> Iterator[tuple[Any, Target]]:
    """Yield the changes of ``patch`` that change something that is there, each with its target."""
    return (
        (change, target)
        for change, target in zip(patch.changes, targets)
        if isinstance(change, Call) or (isinstance(change, SlotChange) and not change.adds)
    )


def remarks(comparisons: Iterable[Comparison]) -> tuple[str, ...]:
    """Return what there is to say about the targets of a patch, in a line each: drift, and versions not recorded."""
    listed = list(comparisons)
    lines = [str(comparison) for comparison in listed if comparison.drifted]
    for library in dict.fromkeys(comparison.library for comparison in listed):
        others = [c for c in listed if c.library == library and not c.drifted and c.recorded != library.version]
        versions = sorted({c.recorded for c in others if c.recorded is not None}, key=_version_key)
        if versions:
            same = sum(c.status == UNCHANGED for c in others)
            unseen = f", {len(others) - same} not seen" if same != len(others) else ""
            lines.append(
                f"{library} is not recorded; compared with {', '.join(versions)}: {_count(same)} unchanged{unseen}"
            )
        elif others:
            lines.append(f"{library}: {others[0].detail}")
    return tuple(lines)


def _count(number: int) -> str:
    return "1 target" if number == 1 else f"{number} targets"


def _compare(before: Fingerprint, now: Fingerprint) -> tuple[str, str]:
    """Return the status and what has changed."""
    if before.source == ABSENT_SOURCE:  # whether it is there is up to the machine: NCCL, an environment variable
        return UNCHANGED, ""
    if now.source == ABSENT_SOURCE:
        return GONE, "there is no such entry"
    if before.signature and now.signature and before.signature != now.signature:
        return SIGNATURE_CHANGED, f"{before.signature} -> {now.signature}"
    if before.source != now.source:
        return BODY_CHANGED, _members(before.members, now.members)
    return UNCHANGED, ""


def _members(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    changed = [name for name in before if name in now and before[name] != now[name]]
    parts = (
        ("changed", changed),
        ("new", [name for name in now if name not in before]),
        ("gone", [name for name in before if name not in now]),
    )
    return "; ".join(f"{word} {', '.join(names)}" for word, names in parts if names) if before or now else ""


def _entry(fingerprint: Fingerprint) -> dict[str, Any]:
    entry = {"source": fingerprint.source, "signature": fingerprint.signature, "members": dict(fingerprint.members)}
    return {key: value for key, value in entry.items() if value}


def _version_key(version: str) -> Any:
    from packaging.version import InvalidVersion, Version

    try:
        return (1, Version(version), version)
    except InvalidVersion:
        return (0, version, version)
