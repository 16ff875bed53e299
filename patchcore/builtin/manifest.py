"""Manifests: what a process would patch, and into what, so that the processes of a job can be compared.

A manifest holds what must be the same everywhere: patches with their verdicts, targets and options, who contributes
them, the versions of the libraries, and fingerprints of the files that patches and targets are in. What differs rightly
is left out: process, host, paths, and how far imports have come.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Optional, TypedDict

from patchcore import __version__
from patchcore.declare.target import Target
from patchcore.objects.modules import find_module, module_file
from patchcore.planning.conditions import APPLY, OFF
from patchcore.planning.distributions import version_of, version_of_provider
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.report import SKIPPED

__all__ = [
    "Difference",
    "Manifest",
    "PatchFacts",
    "as_text",
    "compare",
    "digest",
    "hash_of_file",
    "library_version",
    "make_manifest",
    "without_addresses",
]


_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


class Difference(NamedTuple):
    """One thing that two processes do not have in common.

    Args:
        subject: a patch, a library or a file, as text.
        one: what the one process has.
        other: what the other has.
    """

    subject: str
    one: str
    other: str


#: What a process would do with one patch. ``changes`` has a text for each: kind, target, ``<-``, replacement. ``file``
#: is the hash of the file of its plugin.
PatchFacts = TypedDict(
    "PatchFacts",
    {
        "verdict": str,
        "reason": str,
        "changes": list[str],
        "options": dict[str, str],
        "contributed by": str,
        "file": Optional[str],
    },
)


class Manifest(TypedDict):
    """What a process would patch, and into what.

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


def make_manifest(plan: Plan) -> Manifest:
    """Return the manifest of ``plan``; imports nothing."""
    targets = {target for entry in plan for target in entry.targets}
    roots = sorted({target.root for target in targets})
    modules = sorted({target.module for target in targets if target.module is not None})
    fingerprint = functools.cache(hash_of_file)  # many patches are of one file
    return {
        "patchcore": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "patches": {entry.patch.name: _describe(entry, fingerprint(entry.provenance.file)) for entry in plan},
        "libraries": {root: library_version(root) for root in roots},
        "files": {name: fingerprint(module_file(name)) for name in modules},
    }


def digest(manifest: Mapping[str, Any]) -> str:
    """Return the hash of a manifest: 16 hexadecimal digits."""
    return _hash(json.dumps(manifest, sort_keys=True).encode())


def compare(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Difference]:
    """Return what differs between two manifests, patches first."""
    found = list(_compare_tables("patch ", one["patches"], other["patches"], missing="no plugin contributes it"))
    for prefix, table in (("", "libraries"), ("file of ", "files")):
        for difference in _compare_tables("", one[table], other[table], missing="not patched"):
            name = difference.subject
            found.append(difference._replace(subject=f"{prefix}{name}, of {_patches_on(name, one, other)}"))
    found += (Difference(key, one[key], other[key]) for key in ("python", "patchcore") if one[key] != other[key])
    return found


def _patches_on(place: str, *manifests: Mapping[str, Any]) -> str:
    """Name the patches that change something in ``place``: a module or, for a library, below it."""
    names = {
        name: None
        for manifest in manifests
        for name, patch in manifest["patches"].items()
        if any(_is_in(change.split(" ")[1], place) for change in patch["changes"])
    }
    return f"patch {', '.join(names)}"


def _is_in(target: str, place: str) -> bool:
    return target == place or f"{target.partition(':')[0]}.".startswith(f"{place}.")


def library_version(library: str) -> Optional[str]:
    """Return the version of an installed library; ``None`` where it is not installed or has none."""
    version = version_of(library)
    if version is None and find_module(library) and library not in getattr(sys, "stdlib_module_names", ()):
        version = version_of_provider(library)  # reads the files of every distribution
    return version


def _describe(entry: PlannedPatch, fingerprint: Optional[str]) -> PatchFacts:
    return {
        "verdict": {APPLY: "to be applied", OFF: SKIPPED}.get(entry.verdict, entry.verdict),
        # the origin of a choice is a path at times
        "reason": "by choice" if entry.verdict == OFF else without_addresses(entry.reason),
        "changes": [f"{c.kind} {t} <- {as_text(c.source)}" for c, t in zip(entry.patch.changes, entry.targets)],
        "options": {key: as_text(value) for key, value in sorted(entry.patch.options.items())},
        "contributed by": str(entry.provenance),
        "file": fingerprint,
    }


def _compare_tables(
    prefix: str, one: Mapping[str, Any], other: Mapping[str, Any], *, missing: str
) -> Iterator[Difference]:
    for name in dict.fromkeys((*one, *other)):
        mine, theirs = one.get(name, missing), other.get(name, missing)
        if mine == theirs:
            continue
        if not isinstance(mine, Mapping) or not isinstance(theirs, Mapping):
            yield Difference(prefix + name, _text(mine), _text(theirs))
        elif (mine["verdict"], mine["reason"]) != (theirs["verdict"], theirs["reason"]):
            yield Difference(prefix + name, _verdict(mine), _verdict(theirs))
        else:
            for key in (key for key in mine if mine[key] != theirs.get(key)):
                yield Difference(prefix + name, f"{key} {_text(mine[key])}", f"{key} {_text(theirs.get(key))}")


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and "verdict" in value:
        return _verdict(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(value)
    return "none" if value is None else str(value)


def _verdict(patch: Mapping[str, Any]) -> str:
    return f"{patch['verdict']}: {patch['reason']}" if patch["reason"] else str(patch["verdict"])


def as_text(value: Any) -> str:
    """Return a value as the same text in every process."""
    if isinstance(value, Target):
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


def without_addresses(text: str) -> str:
    """Return ``text`` without the addresses of objects, which differ from process to process."""
    return _ADDRESS.sub("", text)


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
