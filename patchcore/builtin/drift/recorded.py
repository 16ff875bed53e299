"""The fingerprints that a plugin carries: the file ``fingerprints.json``, which ``patchcore fingerprint`` writes.

By library, target and version. Most targets are the same in many versions: each fingerprint stands there once, with the
versions that have it.
"""

from __future__ import annotations

import binascii
import functools
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Optional

from patchcore.builtin.shared.files import write_whole
from patchcore.declare.target import Target
from patchcore.errors import PluginError, describe_error
from patchcore.planning.conditions import Environment
from patchcore.planning.provenance import Provenance

__all__ = [
    "ABSENT_SOURCE",
    "DEFINED",
    "UNSEEN",
    "UNVERSIONED",
    "Fingerprint",
    "Library",
    "Recorded",
    "file_of",
    "recorded_by",
    "version_key",
]

SCHEMA_VERSION = 1

#: The source of an entry that is not there.
ABSENT_SOURCE = "absent"

#: The source of a name that is there.
DEFINED = "defined"

#: The version of a library that has none.
UNVERSIONED = "unversioned"

#: Matches a digest of :func:`patchcore.builtin.drift.syntax.digest`, but no word for a missing source.
_DIGEST = re.compile("[0-9a-f]{16}")

#: So many different sources of a target are kept.
_KEPT = 8

#: Between the first and the last of several versions that follow one another.
_TO = " - "


class Fingerprint(NamedTuple):
    """The recorded state of a target.

    Args:
        source: the digest of its normalised source; ``compiled`` where there is none, ``a dict`` for an object that is
            made at run time, ``absent``, or ``of torch`` where another library defines it. Of an attribute that a class
            inherits from another library, the digest of the class, which decides what the attribute does.
        signature: of a function, or of the ``__init__`` of a class, as text; ``""`` if there is none to be seen.
        members: of a class or module, the digests of its own definitions, by name.
    """

    source: str
    signature: str = ""
    members: Mapping[str, str] = MappingProxyType({})


#: Of a target that the source does not show, in a version that was recorded without importing it.
UNSEEN = Fingerprint("unseen")


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
        """Return the library that ``target`` is in.

        A package that no distribution provides has no version, even if it has a ``__version__``: the stand-in of an
        emulator has that of the library that it imitates.
        """
        return cls(target.root, (environment.released_version(target.root) or UNVERSIONED).partition("+")[0])

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Recorded:
    """The fingerprints that a plugin carries, by library, version and target.

    Args:
        path: of the file.
        libraries: the fingerprints by library, version and target.
        sources: normalised sources by their digests, compressed: of each target in the last versions that differ.
        names: in the same form as ``libraries``, the names of a library that replacements read, and those that patches
            add with ``create=True``; their source is ``absent`` or ``defined``.
        reviewed: by library and target, the version up to which the author has looked at a replacement that is a copy.
    """

    def __init__(
        self,
        path: Path,
        libraries: dict[str, dict[str, dict[str, Fingerprint]]],
        sources: Optional[dict[str, str]] = None,
        names: Optional[dict[str, dict[str, dict[str, Fingerprint]]]] = None,
        reviewed: Optional[dict[str, dict[str, str]]] = None,
    ) -> None:
        self.path = path
        self.libraries = libraries
        self.names = names or {}
        self.reviewed = reviewed or {}
        self._sources = sources or {}

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """Read ``path``, where there need not be a file.

        Raises:
            PluginError: it is no file of ``patchcore fingerprint``.
        """
        from patchcore.stdlib import json  # many plugins carry no fingerprints

        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls(path, {})
        try:
            content = json.loads(text)
            if content["schema_version"] != SCHEMA_VERSION:
                raise ValueError(f"schema_version {content['schema_version']!r}, expected {SCHEMA_VERSION}")
            found = content["libraries"]
            libraries = {name: _expanded(library, "targets") for name, library in found.items()}
            names = {name: _expanded(library, "names") for name, library in found.items()}
            reviewed = {name: dict(library.get("reviewed", {})) for name, library in found.items()}
            return cls(path, libraries, dict(content.get("sources", {})), names, reviewed)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise PluginError(
                f"{path} cannot be read ({describe_error(error)}); delete it and record it again: patchcore fingerprint"
            ) from error

    def entries(self, library: Library) -> dict[str, Fingerprint]:
        """Return the fingerprints for one version of a library, by target."""
        return self.libraries.get(library.name, {}).get(library.version, {})

    def has(self, library: Library, target: Target) -> bool:
        """Return whether ``target`` is recorded for this version."""
        return str(target) in self.entries(library)

    def nearest(self, library: Library, target: Target) -> Optional[tuple[str, Target]]:
        """Return the recorded version to compare with: this one, else the last before it, else the first after it.

        With it comes the target as it is recorded: in ``shop.core.price``, ``shop.core`` may have been a module in that
        version that the installed one lacks. There is none for a library without a version.
        """
        return self._nearest(self.libraries, library, target)

    def nearest_name(self, library: Library, target: Target) -> Optional[tuple[str, Fingerprint]]:
        """Return the same for a name that a replacement reads or a patch adds, with its entry."""
        found = self._nearest(self.names, library, target)
        return None if found is None else (found[0], self.names[library.name][found[0]][str(found[1])])

    def _nearest(
        self, table: Mapping[str, Mapping[str, Mapping[str, Fingerprint]]], library: Library, target: Target
    ) -> Optional[tuple[str, Target]]:
        spelling = _dotted(str(target))
        having = {
            version: recorded
            for version, entries in table.get(library.name, {}).items()
            if (recorded := next(_spelt(entries, target, spelling), None)) is not None
        }
        if library.version not in having and (library.version == UNVERSIONED or not having):
            return None
        versions = sorted(having, key=version_key)
        before = [version for version in versions if version_key(version) < version_key(library.version)]
        version = library.version if library.version in having else before[-1] if before else versions[0]
        recorded = having[version]
        return version, target if recorded == str(target) else Target.parse(recorded)

    def was_defined(self, fingerprint: Fingerprint, target: Target) -> bool:
        """Return whether a source of its own library defined a target when ``fingerprint`` was recorded.

        A method that came from a class of another library has the digest of the class that inherits it.
        """
        if not _DIGEST.fullmatch(fingerprint.source):
            return False
        if fingerprint.signature or len(target.path) < 2:
            return True
        source = self.source(fingerprint.source)
        return bool(source) and not re.search(rf"^class {re.escape(str(target.path[-2]))}\b", source, re.MULTILINE)

    def source(self, digest: str) -> str:
        """Return the normalised source that has this digest, ``""`` where the file does not have it.

        An older source of a target is compressed with the next newer one as the dictionary.
        """
        chain: list[str] = []
        while digest:
            base, _, data = self._sources.get(digest, "").rpartition(":")
            if not data or len(chain) > _KEPT:
                return ""
            chain.append(data)
            digest = base
        text = b""
        try:
            for data in reversed(chain):
                stream = zlib.decompressobj(zdict=text) if text else zlib.decompressobj()
                text = stream.decompress(binascii.a2b_base64(data)) + stream.flush()
            return text.decode()
        except (ValueError, TypeError, zlib.error):
            return ""

    def releases(self, library: str, target: Target) -> list[tuple[str, str]]:
        """Return the versions whose source of ``target`` is known, the oldest first, each with its source.

        Of versions with the same source the last one stands there.
        """
        found: dict[str, str] = {}
        for version in sorted(self.libraries.get(library, {}), key=version_key):
            one = self.libraries[library][version].get(str(target))
            if one is not None and _DIGEST.fullmatch(one.source):
                found.pop(one.source, None)
                found[one.source] = version
        listed = ((version, self.source(digest)) for digest, version in found.items())
        return [(version, source) for version, source in listed if source]

    def add_sources(self, sources: Mapping[str, str]) -> bool:
        """Add normalised sources by their digests; return true if any of them is new and must be kept."""
        wanted = self._wanted()
        new = {digest: text for digest, text in sources.items() if digest in wanted and not self.source(digest)}
        for digest, text in new.items():
            self._sources[digest] = _compressed(text)
        return bool(new)

    def _wanted(self) -> dict[str, str]:
        """Return the digests whose sources are kept, each with that of the next newer source of its target, or ``""``.

        A newer version is compared with the last one, and a replacement that is a copy with those before, too.
        """
        wanted: dict[str, str] = {}
        for versions in self.libraries.values():
            digests: dict[str, dict[str, None]] = {}
            for version in sorted(versions, key=version_key, reverse=True):
                for target, one in versions[version].items():
                    if _DIGEST.fullmatch(one.source):
                        digests.setdefault(target, {})[one.source] = None
            for found in digests.values():
                newer = ""
                for digest in list(found)[:_KEPT]:
                    if not newer:
                        wanted[digest] = ""  # whole, also if it is an older one of another target
                    wanted.setdefault(digest, newer)
                    newer = digest
        return wanted

    def _packed(self) -> dict[str, str]:
        """Return the sources that are kept, as they are written."""
        packed: dict[str, str] = {}
        wanted = self._wanted()
        texts = {digest: text for digest in sorted(wanted) if (text := self.source(digest))}
        for digest, text in texts.items():
            base, known = wanted[digest], self._sources[digest]
            if base not in texts or _leads_to(base, digest, wanted):
                base = ""
            # the same source stays the same text: what zlib returns depends on its version
            packed[digest] = known if known.rpartition(":")[0] == base else _compressed(text, base, texts.get(base, ""))
        return packed

    def write(self) -> None:
        """Write the file: one line for each fingerprint, in order, so that differences can be reviewed."""
        write_whole(self.path, self.to_text())

    def to_text(self) -> str:
        """Return the content of the file."""
        from patchcore.stdlib import json

        libraries = []
        for name in sorted({*self.libraries, *self.names}):
            versions, names = self.libraries.get(name, {}), self.names.get(name, {})
            every = {version for table in (versions, names) for version in table if table[version]}
            kept = sorted(every, key=version_key)
            targets, read = _blocks(versions, kept), _blocks(names, kept)
            reviewed = [
                f"{json.dumps(key)}: {json.dumps(at)}" for key, at in sorted(self.reviewed.get(name, {}).items())
            ]
            if targets or read:
                recorded = [f'"versions": {json.dumps(kept)}', _block('"targets"', targets, 6)]
                recorded += [_block('"names"', read, 6)] if read else []
                recorded += [_block('"reviewed"', reviewed, 6)] if reviewed else []
                libraries.append(_block(json.dumps(name), recorded, 4))
        whole = [f'"schema_version": {SCHEMA_VERSION}', _block('"libraries"', libraries, 2)]
        kept_sources = [f'"{digest}": "{text}"' for digest, text in sorted(self._packed().items())]
        if kept_sources:
            whole.append(_block('"sources"', kept_sources, 2))
        return "{\n  " + ",\n  ".join(whole) + "\n}\n"


def recorded_by(provenance: Provenance) -> Optional[Recorded]:
    """Return the fingerprints that a plugin carries, ``None`` where it has no file of them.

    Many patches have one file, which is read again only when it has changed. The result is shared: do not add to it.

    Raises:
        PluginError: as :meth:`Recorded.read`.
    """
    path = file_of(provenance)
    if path is None or not path.is_file():
        return None
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size, state.st_ino)


@functools.lru_cache(maxsize=16)
def _read(path: Path, *_state: int) -> Recorded:
    return Recorded.read(path)


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


def _blocks(versions: Mapping[str, Mapping[str, Fingerprint]], kept: Sequence[str]) -> list[str]:
    """Return the lines of each target of a table, with its fingerprints."""
    from patchcore.stdlib import json

    blocks = []
    for target in sorted({target for version in kept for target in versions.get(version, ())}):
        listed = _by_fingerprint(target, kept, versions)
        entries = [f"{json.dumps(where)}: {json.dumps(_entry(one))}" for where, one in listed]
        blocks.append(_block(json.dumps(target), entries, 8))
    return blocks


def _compressed(text: str, base: str = "", dictionary: str = "") -> str:
    """Return a source as the file has it: of an older one only what the newer one, ``base``, does not have."""
    stream = zlib.compressobj(9, zdict=dictionary.encode()) if base else zlib.compressobj(9)
    data = stream.compress(text.encode()) + stream.flush()
    return f"{base}:" * bool(base) + binascii.b2a_base64(data, newline=False).decode()


def _leads_to(digest: str, end: str, newer: Mapping[str, str]) -> bool:
    """True if the chain of newer sources from ``digest`` reaches ``end``, or is longer than any that can be read."""
    for _ in range(_KEPT):
        if digest in (end, ""):
            return digest == end
        digest = newer.get(digest, "")
    return True


def _expanded(library: Any, table: str) -> dict[str, dict[str, Fingerprint]]:
    """Return the fingerprints that a file has for one library, by version and target; of its names, too."""
    versions: list[str] = library["versions"]
    places = {version: place for place, version in enumerate(versions)}
    found: dict[str, dict[str, Fingerprint]] = {version: {} for version in versions}
    for target, entries in (library[table] if table == "targets" else library.get(table, {})).items():
        for where, entry in entries.items():
            fingerprint = Fingerprint(**entry)
            for run in where.split(", "):
                first, _, last = run.partition(_TO)
                for version in versions[places[first] : places[last or first] + 1]:
                    found[version][target] = fingerprint
    return found


def _by_fingerprint(
    target: str, versions: Sequence[str], recorded: Mapping[str, Mapping[str, Fingerprint]]
) -> Iterator[tuple[str, Fingerprint]]:
    """Yield the fingerprints of a target, each with its versions as text, ``1.0 - 1.3, 2.0``.

    Args:
        target: as text.
        versions: all that are recorded of its library, in order; the text leaves out those between two.
        recorded: the fingerprints, by version and target.
    """
    runs: dict[str, tuple[Fingerprint, list[list[str]]]] = {}
    before = None
    for version in versions:
        one = recorded.get(version, {}).get(target)
        if one is not None:
            _, found = runs.setdefault(repr(_entry(one)), (one, []))
            if one == before:
                found[-1].append(version)
            else:
                found.append([version])
        before = one
    for one, found in runs.values():
        yield ", ".join(run[0] if len(run) == 1 else f"{run[0]}{_TO}{run[-1]}" for run in found), one


def _spelt(entries: Mapping[str, Fingerprint], target: Target, spelling: str) -> Iterator[str]:
    """Yield the recorded targets that can be ``target``, itself first."""
    if str(target) in entries:
        yield str(target)
    yield from (name for name in entries if _dotted(name) == spelling)


def _dotted(target: str) -> str:
    return target.replace(":", ".", 1)


def _block(key: str, items: Iterable[str], indent: int) -> str:
    """One key of a JSON object with an object as its value, an item a line; ``indent`` is that of the items."""
    separator = f",\n{' ' * (indent + 2)}"
    inside = separator.join(items)
    return f"{key}: {{\n{' ' * (indent + 2)}{inside}\n{' ' * indent}}}" if inside else f"{key}: {{}}"


def _entry(fingerprint: Fingerprint) -> dict[str, Any]:
    entry = {"source": fingerprint.source, "signature": fingerprint.signature, "members": dict(fingerprint.members)}
    return {key: value for key, value in entry.items() if value}


def version_key(version: str) -> Any:
    """Return the sort key of a version; texts that are no version by PEP 440 come first."""
    from packaging.version import InvalidVersion, Version

    try:
        return (1, Version(version), version)
    except InvalidVersion:
        return (0, version, version)
