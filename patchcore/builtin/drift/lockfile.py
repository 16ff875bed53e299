"""``patchcore.lock``: what an environment would patch, and into what, written down to be reviewed and compared.

The file is sorted JSON without paths and times, so that it is the same wherever the same is installed. It has a line
for each fact that can change what is applied: the patches to be applied, their options, changes and replacements, the
sources of the replacements, the versions of plugins and libraries, and the fingerprints of targets, which do not change
with comments and layout. What is not applied, and why, is kept behind a hash: the file has it in one compressed line,
so that a difference can be named without the environment that was locked.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from patchcore import __version__
from patchcore.builtin.drift.drift import fingerprinted
from patchcore.builtin.drift.fingerprint import Originals
from patchcore.builtin.files import write_whole
from patchcore.builtin.manifest import Difference, as_text, hash_of_file, library_version, without_addresses
from patchcore.builtin.stdlib.standard import is_standard
from patchcore.declare.target import Target
from patchcore.errors import PatchError, SettingsError, TargetNotFound, Unseen
from patchcore.objects.modules import module_file
from patchcore.planning.conditions import APPLY, OFF
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.report import FAILED

__all__ = [
    "FILE",
    "SCHEMA_VERSION",
    "Lock",
    "differences",
    "find_lock",
    "make_lock",
    "read_lock",
    "refuse_differences",
    "to_text",
    "write_lock",
]

#: What the file is called.
FILE = "patchcore.lock"

#: Version of what is in the file.
SCHEMA_VERSION = 2

_ABOUT = (
    "Written by `patchcore lock`. `patchcore lock --check` and `patchcore run --locked` compare it with what is "
    "installed; `patchcore lock --explain` shows what the hash at the end stands for."
)

#: A lock: tables of texts by name, each entry a line of the file, and the texts ``patchcore`` and ``python``.
#: ``not applied`` and ``unused plugins`` are those behind the hash.
Lock = dict[str, Any]

#: The tables of the file, in this order, with what stands in front of an entry in a message.
_TABLES = {
    "patches": "patch",
    "options": "option",
    "changes": "change",
    "sources": "source of module",
    "plugins": "plugin",
    "libraries": "library",
    "targets": "target",
}

#: The tables behind the hash.
_REST = ("not applied", "unused plugins")

#: Its patches stand for options of a run, such as --brake.
_OPTIONS_OF_RUNS = "patchcore."

#: What stands for the fingerprint of a target that is gone.
_GONE = "not there"

#: How long the tables behind the hash may be, so that a file of a few kilobytes cannot fill the memory.
_LONGEST = 50_000_000

#: The folders of an absolute path, which differ from machine to machine.
_FOLDERS = re.compile(r"(?<![\w:/.])(?:[A-Za-z]:)?[\\/](?:[^\s\\/:]+[\\/])*")


def make_lock(plan: Plan) -> Lock:
    """Return the lock of ``plan``; reads sources, imports nothing."""
    entries = [entry for entry in plan if not entry.provenance.plugin.startswith(_OPTIONS_OF_RUNS)]
    applied = [entry for entry in entries if entry.verdict == APPLY]
    used = {entry.provenance.plugin for entry in applied}
    origins = [entry.provenance for entry in entries]
    plugins = {each.plugin: f"{each.distribution} {each.version}" for each in origins if each.distribution}
    tables: dict[str, Mapping[str, str]] = {
        "patches": dict(_verdicts(entries)),
        "options": {
            f"{entry.patch.name} {key}": as_text(value)
            for entry in applied
            for key, value in entry.patch.options.items()
        },
        "changes": _changes(applied),
        "sources": {name: hash_of_file(module_file(name)) or "none" for name in _modules(applied)},
        "plugins": {name: text for name, text in plugins.items() if name in used},
        "libraries": {root: library_version(root) or "none" for root in _libraries(applied)},
        "targets": _fingerprints(applied),
        "not applied": {entry.patch.name: _verdict(entry) for entry in entries if entry.verdict not in (APPLY, FAILED)},
        "unused plugins": {name: text for name, text in plugins.items() if name not in used},
    }
    versions = {"patchcore": __version__, "python": ".".join(map(str, sys.version_info[:2]))}
    return {**versions, **{key: _sorted(table) for key, table in tables.items()}}


def _verdicts(entries: Iterable[PlannedPatch]) -> Iterator[tuple[str, str]]:
    """Yield the patches that are to be applied, or that fail, each with its verdict and, if it counts, its order."""
    first: dict[Target, str] = {}
    for entry in entries:
        if entry.verdict == APPLY:
            under = dict.fromkeys(first[target] for target in entry.targets if target in first)
            first.update((target, entry.patch.name) for target in entry.targets)
            order = f", on top of {', '.join(under)}" if under else ""
            yield entry.patch.name, f"to be applied{order}, of plugin {entry.provenance.plugin}"
        elif entry.verdict == FAILED:
            yield entry.patch.name, _verdict(entry)


def _verdict(entry: PlannedPatch) -> str:
    """Return why a patch is not applied, without what differs from machine to machine."""
    if entry.verdict == OFF:  # the origin of the choice is a path at times
        return "skipped: by choice"
    return f"{entry.verdict}: {_FOLDERS.sub('', without_addresses(entry.reason))}"


def _changes(entries: Iterable[PlannedPatch]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for entry in entries:
        for change, target in zip(entry.patch.changes, entry.targets):
            found.setdefault(f"{entry.patch.name} {change.kind} {target}", []).append(as_text(change.source))
    return {change: "; ".join(sources) for change, sources in found.items()}


def _modules(entries: Iterable[PlannedPatch]) -> set[str]:
    """Return the modules of plugins that patches and their replacements are in."""
    found = set()
    for entry in entries:
        own = (entry.provenance.value or "").partition(":")[0]
        sources = map(_module_of, (change.source for change in entry.patch.changes))
        for module in {own, *filter(None, sources)} - {""}:
            root = module.partition(".")[0]
            if root == own.partition(".")[0] or (not _is_ours(root) and library_version(root) is None):
                found.add(module)
    return found


def _libraries(entries: Iterable[PlannedPatch]) -> set[str]:
    """Return the libraries that patches change, and those that have replacements."""
    found = {target.root for entry in entries for target in entry.targets}
    for entry in entries:
        for module in filter(None, map(_module_of, (change.source for change in entry.patch.changes))):
            root = module.partition(".")[0]
            if not _is_ours(root) and library_version(root) is not None:
                found.add(root)
    return found


def _is_ours(root: str) -> bool:
    """Return true for modules of which the versions of Python and patchcore say enough."""
    return root == "patchcore" or is_standard(root)


def _module_of(source: Any) -> Optional[str]:
    """Return the module that a replacement is in, ``None`` where it does not say."""
    if isinstance(source, Target):
        return source.pin().module
    module = getattr(source, "__module__", None)
    return module if isinstance(module, str) else None


def _fingerprints(entries: Iterable[PlannedPatch]) -> dict[str, str]:
    """Return the fingerprints of the targets of patches.

    Those that only an import would show (functions in C) are left out, also where something has imported the library:
    a lock says what is installed, whatever else this process does.
    """
    originals = Originals(from_sources=True)
    found: dict[str, str] = {}
    for entry in entries:
        for change, target in fingerprinted(entry.patch, entry.targets):
            try:
                fingerprint = originals.fingerprint(change, target)
            except TargetNotFound:
                found[str(target)] = _GONE
            except Unseen:
                continue
            else:
                found[str(target)] = f"{fingerprint.source} {fingerprint.signature}".strip()
    return found


def to_text(lock: Lock) -> str:
    """Return a lock as the text of its file, which ends with a line feed."""
    rest = json.dumps({key: lock[key] for key in _REST}, sort_keys=True).encode()
    content = {
        "about": _ABOUT,
        "schema_version": SCHEMA_VERSION,
        "patchcore": lock["patchcore"],
        "python": lock["python"],
        **{key: lock[key] for key in _TABLES},
        "not_applied": {
            "patches": str(len(lock["not applied"])),
            "hash": _digest(rest),
            "details": binascii.b2a_base64(zlib.compress(rest, 9), newline=False).decode("ascii"),
        },
    }
    return json.dumps(content, indent=1) + "\n"


def find_lock(*starts: Optional[Path]) -> Optional[Path]:
    """Return the nearest lock file at or above the first of some folders that has one."""
    for start in filter(None, starts):
        folder = start.absolute()
        for candidate in (folder, *folder.parents):
            path = candidate / FILE
            if os.path.isfile(path):  # Path.is_file raises where a parent may not be entered
                return path
    return None


def read_lock(path: Path) -> Lock:
    """Return what the lock file ``path`` holds.

    Raises:
        SettingsError: there is none, it cannot be read, it is of a newer patchcore, or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"there is no lock file {path}; write it: patchcore lock --file {path}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read: {error}; write it anew: patchcore lock --file {path}") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise SettingsError(
            f"{path} has schema_version {version}, this patchcore reads up to {SCHEMA_VERSION}: it was written by "
            f"patchcore {content.get('patchcore')}; install that one, or write the file anew: patchcore lock"
        )
    try:
        if version != SCHEMA_VERSION:
            raise ValueError(f"schema_version is {version!r}")
        return _checked(content)
    except ValueError as error:
        raise SettingsError(
            f"{path} is not what patchcore lock writes: {error}; write it anew: patchcore lock"
        ) from error


def _checked(content: Mapping[str, Any]) -> Lock:
    """Return the lock that the content of a file holds.

    Raises:
        ValueError: it holds none.
    """
    rest = _table(content, "not_applied")
    try:
        packed = binascii.a2b_base64(rest.get("details", ""))
        unpacked = zlib.decompressobj().decompress(packed, _LONGEST)
        behind = json.loads(unpacked)
    except (zlib.error, ValueError, RecursionError) as error:
        raise ValueError(f"not_applied.details cannot be read ({error})") from error
    if not isinstance(behind, dict) or rest.get("hash") != _digest(unpacked):
        raise ValueError("not_applied.details is not what not_applied.hash stands for")
    versions = {}
    for key in ("patchcore", "python"):
        if not isinstance(content.get(key), str):
            raise ValueError(f"{key} is {content.get(key)!r}")
        versions[key] = content[key]
    tables = {**{key: _table(content, key) for key in _TABLES}, **{key: _table(behind, key) for key in _REST}}
    odd = next((change for change in tables["changes"] if len(change.split(" ")) < 3), None)
    if odd is not None:
        raise ValueError(f"changes has {odd!r}")
    return {**versions, **tables}


def _table(content: Mapping[str, Any], key: str) -> dict[str, str]:
    table = content.get(key)
    if not isinstance(table, dict):
        raise ValueError(f"{key} is {table!r}")
    for name, value in table.items():
        if not isinstance(value, str):
            raise ValueError(f"{key}.{name} is {value!r}")
    return table


def write_lock(path: Path, lock: Lock) -> bool:
    """Write a lock file, whole or not at all; return whether that changed anything.

    A file with the same facts stays as it is: another zlib may compress the details in another way.

    Raises:
        SettingsError: it cannot be written.
    """
    text = to_text(lock)
    try:
        if path.is_file() and _without_details(path.read_text(encoding="utf-8")) == _without_details(text):
            return False
    except (OSError, ValueError):  # it is written anew
        pass
    try:
        write_whole(path, text)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror or error}") from error
    return True


def _without_details(text: str) -> list[str]:
    return [line for line in text.split("\n") if not line.startswith('  "details": ')]


def differences(path: Path, plan: Plan) -> list[Difference]:
    """Return what differs between a lock file, the one, and ``plan``, the other.

    Raises:
        SettingsError: see :func:`read_lock`.
    """
    return compare(read_lock(path), make_lock(plan))


def compare(one: Lock, other: Lock) -> list[Difference]:
    """Return what differs between two locks, patches first.

    What only one of them has because only there a patch is applied is not repeated for every change of the patch.
    """
    verdicts = [{**lock["not applied"], **lock["patches"]} for lock in (one, other)]
    missing = "no plugin contributes it"
    found = [Difference(f"patch {name}", *pair) for name, *pair in _unequal(*verdicts, missing=missing)]
    both = one["patches"].keys() & other["patches"].keys()
    for key, label in list(_TABLES.items())[1:]:
        for name, mine, theirs in _unequal(one[key], other[key], missing="not patched"):
            users = _users(key, name, one, other)
            one_sided = "not patched" in (mine, theirs)
            if not both.intersection(users) if users else one_sided and one["patches"] != other["patches"]:
                continue  # a difference of a patch says it
            of = f", of patch {', '.join(users)}" if users and key not in ("options", "changes") else ""
            found.append(Difference(f"{label} {name}{of}", mine, theirs))
    for name, mine, theirs in _unequal(one["unused plugins"], other["unused plugins"], missing="not installed"):
        if not any(name in lock["plugins"] for lock in (one, other)):
            found.append(Difference(f"plugin {name}", mine, theirs))
    found += (Difference(key, one[key], other[key]) for key in ("python", "patchcore") if one[key] != other[key])
    return found


def _unequal(one: Mapping[str, str], other: Mapping[str, str], *, missing: str) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys((*one, *other)):
        mine, theirs = one.get(name, missing), other.get(name, missing)
        if mine != theirs:
            yield name, mine, theirs


def _users(table: str, name: str, *locks: Lock) -> list[str]:
    """Return the patches that an entry of a table is about."""
    if table in ("options", "changes"):
        return [name.split(" ")[0]]
    if table == "plugins":
        users = (patch for lock in locks for patch, text in lock["patches"].items() if text.endswith(f" {name}"))
        return list(dict.fromkeys(users))
    found: dict[str, None] = {}
    for lock in locks:
        for change, source in lock["changes"].items():
            patch, _, target = change.split(" ", 2)
            texts = [target] if table == "targets" else [source] if table == "sources" else [target, source]
            if any(f"{text}.".startswith((f"{name}.", f"{name}:")) for text in texts):
                found[patch] = None
    return list(found)


def refuse_differences(path: Optional[Path], plan: Plan) -> None:
    """Raise where ``plan`` is not what a lock file says.

    Args:
        path: of the file, ``None`` when there is none.
        plan: of this environment.

    Raises:
        PatchError: something differs; the message has all of it.
        SettingsError: there is no lock file, or it cannot be used.
    """
    if path is None:
        raise SettingsError(
            f"--locked: there is no {FILE}, neither at or above the program's folder nor the current one; write it: "
            f"patchcore lock"
        )
    found = differences(path, plan)
    if found:
        lines = "".join(f"\n  {d.subject}: locked: {d.one}; here: {d.other}" for d in found)
        raise PatchError(
            f"nothing was started: this environment is not what {path} says:{lines}\n"
            f"if it is as it should be, write that down and review it: patchcore lock"
        )


def _sorted(table: Mapping[str, str]) -> dict[str, str]:
    return {_text(key): _text(table[key]) for key in sorted(table)}


def _text(value: str) -> str:
    """Return a text that UTF-8 can hold: it has no lone surrogates."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
