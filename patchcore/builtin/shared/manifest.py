"""Manifests: the patches of a process and their replacements, so that the processes of a job can be compared.

A manifest holds the facts that must be the same everywhere: patches with their verdicts, targets, options and plugins,
the versions of the libraries, and fingerprints of the files that patches and targets are in. Facts that may differ are
left out: process, host, paths, and the progress of imports.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional, TypedDict

from patchcore import __version__
from patchcore.declare.target import Target
from patchcore.objects.modules import find_module, module_file
from patchcore.objects.printable import without_addresses
from patchcore.planning.conditions import APPLY, OFF
from patchcore.planning.distributions import version_of, version_of_provider
from patchcore.planning.plan import PlannedPatch

__all__ = [
    "Difference",
    "Manifest",
    "PatchFacts",
    "as_text",
    "compare_manifests",
    "digest",
    "hash_of_file",
    "library_version",
    "make_manifest",
    "verdict_of",
]


#: The folders of an absolute path, which differ from machine to machine.
_FOLDERS = re.compile(r"(?<![\w:/.])(?:[A-Za-z]:)?[\\/](?:[^\s\\/:]+[\\/])*")

#: Tables of a manifest or lock besides the patches, with the word of a message for an entry.
_TABLES = {"libraries": "library", "files": "file of", "targets": "target"}

_NOT_PATCHED = "not patched"

_NO_SETTING = "no plugin has it"


class Difference(NamedTuple):
    """One fact that differs between two processes.

    Args:
        subject: a patch, a library or a file, as text.
        one: the value in the one process.
        other: the value in the other.
    """

    subject: str
    one: str
    other: str


#: The facts of one patch. ``on top of``: the patches of the same targets that are applied before it.
#: ``changes``: a text for each, kind, target, ``<-``, replacement. ``file``: the hash of the file of its plugin.
PatchFacts = TypedDict(
    "PatchFacts",
    {
        "verdict": str,
        "reason": str,
        "on top of": list[str],
        "changes": list[str],
        "options": dict[str, str],
        "contributed by": str,
        "file": Optional[str],
    },
)


class Manifest(TypedDict):
    """The facts of an environment that decide which patches apply and with which replacements.

    Args:
        patchcore, python: versions.
        patches: by name.
        libraries: the version of each library that patches are for, ``None`` if it is not installed or has none.
        files: the hash of each module that targets are in, ``None`` if it has no file.
    """

    patchcore: str
    python: str
    patches: dict[str, PatchFacts]
    libraries: dict[str, Optional[str]]
    files: dict[str, Optional[str]]


def make_manifest(entries: Iterable[PlannedPatch]) -> Manifest:
    """Return the manifest of the entries of a plan; imports nothing."""
    entries = list(entries)
    targets = {target for entry in entries for target in entry.targets}
    roots = sorted({target.root for target in targets})
    modules = sorted({target.module for target in targets if target.module is not None})
    fingerprint = functools.cache(hash_of_file)  # many patches are of one file
    patches: dict[str, PatchFacts] = {}
    first: dict[Target, str] = {}
    for entry in entries:
        targets_applied = entry.targets if entry.verdict == APPLY else ()
        below = dict.fromkeys(first[target] for target in targets_applied if target in first)
        first.update(dict.fromkeys(targets_applied, entry.patch.name))
        patches[entry.patch.name] = {
            "verdict": entry.verdict,
            # the origin of a choice is a path at times
            "reason": "" if entry.verdict == OFF else _FOLDERS.sub("", without_addresses(entry.reason)),
            "on top of": list(below),
            "changes": [f"{c.kind} {t} <- {as_text(c.source)}" for c, t in zip(entry.patch.changes, entry.targets)],
            "options": {key: as_text(value) for key, value in sorted(entry.patch.options.items())},
            "contributed by": str(entry.provenance),
            "file": fingerprint(entry.provenance.file),
        }
    return {
        "patchcore": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "patches": patches,
        "libraries": {root: library_version(root) for root in roots},
        "files": {name: fingerprint(module_file(name)) for name in modules},
    }


def digest(manifest: Manifest) -> str:
    """Return the hash of a manifest: 16 hexadecimal digits."""
    return _hash(json.dumps(manifest, sort_keys=True).encode())


def compare_manifests(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Difference]:
    """Return the differences between two manifests or two locks, patches first.

    Patches with the same difference are one subject. If a patch is applied on one side only, the difference is not
    repeated for every library and file of the patch.

    Examples:
        >>> from patchcore.plugin import compare_manifests
        >>> one = {"patchcore": "1", "python": "3.9.1", "patches": {}, "libraries": {}, "files": {}}
        >>> [difference.subject for difference in compare_manifests(one, {**one, "python": "3.9.2"})]
        ['python']
    """
    found = list(_compare_patches(*({**m.get("not_applied", {}), **m["patches"]} for m in (one, other))))
    patches_differ = bool(found)
    both = one["patches"].keys() & other["patches"].keys()
    for table, label in _TABLES.items():
        mine, theirs = one.get(table, {}), other.get(table, {})
        for name in dict.fromkeys((*mine, *theirs)):
            pair = mine.get(name, _NOT_PATCHED), theirs.get(name, _NOT_PATCHED)
            if pair[0] == pair[1]:
                continue
            users = _patches_on(name, one, other)
            if not both.intersection(users) if users else _NOT_PATCHED in pair and patches_differ:
                continue  # a difference of a patch has it
            of = f", of patch {', '.join(users)}" if users else ""
            found.append(Difference(f"{label} {name}{of}", *map(_text, pair)))
    mine, theirs = one.get("settings", {}), other.get("settings", {})
    found += (
        Difference(f"setting {key}", mine.get(key, _NO_SETTING), theirs.get(key, _NO_SETTING))
        for key in dict.fromkeys((*mine, *theirs))
        if mine.get(key) != theirs.get(key)
    )
    found += (Difference(key, one[key], other[key]) for key in ("python", "patchcore") if one[key] != other[key])
    return found


def _patches_on(place: str, *manifests: Mapping[str, Any]) -> list[str]:
    """Name the patches that change something in ``place``, a library, module or target, or replace by it."""
    inside = f"{place}.", f"{place}:", f"{place}["
    return sorted(
        {
            name
            for manifest in manifests
            for name, patch in manifest["patches"].items()
            if any(f"{word}.".startswith(inside) for change in patch["changes"] for word in change.split(" ")[1:])
        }
    )


def _compare_patches(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    found: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys((*one, *other)):
        for pair in _compare_facts(one.get(name), other.get(name)):
            found.setdefault(pair, []).append(name)
    for pair, names in found.items():
        yield Difference(f"patch {', '.join(sorted(names))}", *pair)


def _compare_facts(mine: Any, theirs: Any) -> Iterator[tuple[str, str]]:
    """Yield the differences between two patches: of each only the options and changes that the other does not have."""
    verdicts = verdict_of(mine), verdict_of(theirs)
    if verdicts[0] != verdicts[1]:
        yield verdicts
    elif isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        for key in (key for key in mine if mine[key] != theirs[key]):
            yield f"{key} {_text(mine[key], theirs[key])}", f"{key} {_text(theirs[key], mine[key])}"


def verdict_of(patch: Any) -> str:
    """Return the verdict of a patch with its reason.

    Args:
        patch: its :class:`PatchFacts`, its entry in a lock, or ``None`` if there is no such patch.
    """
    if patch is None:
        return "no plugin contributes it"
    if isinstance(patch, str):
        return patch  # a lock has no more of a patch that is not applied
    return f"{patch['verdict']}: {patch['reason']}" if patch["reason"] else str(patch["verdict"])


def library_version(library: str) -> Optional[str]:
    """Return the version of an installed library; ``None`` where it is not installed or has none."""
    version = version_of(library)
    if version is None and find_module(library) and library not in getattr(sys, "stdlib_module_names", ()):
        version = version_of_provider(library)  # reads the files of every distribution
    return version


def _text(value: Any, other: Any = None) -> str:
    """Return one of two different values as text; of options and changes only those that the other has not."""
    if isinstance(value, Mapping):
        value, other = ([f"{key}={item}" for key, item in each.items()] for each in (value, other))
    if isinstance(value, list):
        value = [each for each in value if each not in other] if set(value) != set(other) else value
        return ", ".join(value) or "none"
    return "none" if value is None else str(value)


def as_text(value: Any) -> str:
    """Return a value as the same text in every process."""
    if type(value) is Target:
        return str(value)
    if hasattr(value, "__qualname__"):
        return f"{getattr(value, '__module__', None) or 'builtins'}.{value.__qualname__}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(as_text, value)))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_text, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{as_text(key)}: {as_text(item)}' for key, item in value.items())}}}"
    return without_addresses(repr(value))


def hash_of_file(path: Optional[str]) -> Optional[str]:
    """Return a hash of a Python file, the size of any other, ``None`` when there is nothing to read."""
    if path is None:
        return None
    try:
        if not path.endswith(".py"):
            return f"{os.path.getsize(path)} bytes"
        with open(path, "rb") as file:
            return _hash(file.read())
    except OSError:
        return None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
