"""``patchcore.lock``: what an environment would patch, and into what, written down to be reviewed and compared.

The file is the manifest of a plan as TOML: sorted, without paths and times, so that it is the same wherever the same
is installed, and a change of it is a change of what is patched. :mod:`patchcore.builtin.manifest` says what is in it.
In the place of whole files of libraries it has the fingerprints of targets, which do not change with comments and
layout.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Optional, Union

from patchcore.builtin.drift.drift import fingerprinted
from patchcore.builtin.drift.fingerprint import Originals
from patchcore.builtin.files import write_whole
from patchcore.builtin.manifest import Difference, compare, make_manifest
from patchcore.builtin.suiting import suits
from patchcore.errors import PatchError, SettingsError, TargetNotFound, Unseen
from patchcore.planning.conditions import Environment
from patchcore.planning.plan import Plan, PlannedPatch

__all__ = [
    "FILE",
    "SCHEMA_VERSION",
    "differences",
    "find_lock",
    "make_lock",
    "read_lock",
    "refuse_differences",
    "to_toml",
    "write_lock",
]

#: What the file is called.
FILE = "patchcore.lock"

#: Version of what is in the file.
SCHEMA_VERSION = 1

_HEADER = f"""\
# Written by `patchcore lock`; `patchcore lock --check` and `patchcore run --locked` compare it with what is installed.
schema_version = {SCHEMA_VERSION}
"""

#: What a patch of a file has, in this order, and the types that the values have.
_PATCH = {
    "verdict": str,
    "reason": str,
    "plugin": str,
    "distribution": str,
    "file": str,
    "changes": list,
    "options": dict,
}

#: Its patches stand for options of a run, such as --brake.
_OPTIONS_OF_RUNS = "patchcore."

#: What stands for the fingerprint of a target that is gone.
_GONE = "not there"

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
#: The folders of an absolute path, which differ from machine to machine.
_FOLDERS = re.compile(r"(?<![\w:/.])(?:[A-Za-z]:)?[\\/](?:[^\s\\/:]+[\\/])*")


def make_lock(plan: Plan) -> dict[str, Any]:
    """Return what a lock file of ``plan`` holds, as :func:`read_lock` reads it; reads sources, imports nothing."""
    entries = {e.patch.name: e for e in plan if not e.provenance.plugin.startswith(_OPTIONS_OF_RUNS)}
    manifest = make_manifest(Plan(tuple(entries.values())))
    patches = {}
    for name, described in sorted(manifest["patches"].items()):
        who = entries[name].provenance
        patches[name] = {
            "verdict": described["verdict"],
            "reason": _FOLDERS.sub("", _text(described["reason"])),
            "plugin": _text(who.plugin),
            "distribution": _text(f"{who.distribution} {who.version}" if who.distribution else None),
            "file": _text(described["file"]),
            "changes": [_text(change) for change in described["changes"]],
            "options": _sorted(described["options"]),
        }
    return {
        "patchcore": manifest["patchcore"],
        "python": ".".join(manifest["python"].split(".")[:2]),
        "patches": patches,
        "libraries": _sorted(manifest["libraries"]),
        "targets": _sorted(_fingerprints(entries.values())),
    }


def _fingerprints(entries: Iterable[PlannedPatch]) -> dict[str, str]:
    """The fingerprints, as text, of the targets of those patches that are for what is installed here.

    Those that only an import would show (functions in C) are left out, also where something has imported the library:
    a lock says what is installed, whatever else this process does.
    """
    environment, originals = Environment(), Originals(from_sources=True)
    found: dict[str, str] = {}
    for entry in entries:
        if not suits(entry.patch, environment):
            continue
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


def to_toml(lock: Mapping[str, Any]) -> str:
    """Return a lock as the text of its file, which ends with a line feed."""
    return "\n".join([_HEADER + "\n".join(_pairs(lock, ("patchcore", "python"))), *_tables(lock), ""])


def find_lock(*starts: Optional[Path]) -> Optional[Path]:
    """Return the nearest lock file at or above the first of some folders that has one."""
    for start in filter(None, starts):
        folder = start.absolute()
        for candidate in (folder, *folder.parents):
            path = candidate / FILE
            if os.path.isfile(path):  # Path.is_file raises where a parent may not be entered
                return path
    return None


def read_lock(path: Path) -> dict[str, Any]:
    """Return what the lock file ``path`` holds.

    Raises:
        SettingsError: there is none, it cannot be read, it is of a newer patchcore, or holds something else.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"there is no lock file {path}; write it: patchcore lock --file {path}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} cannot be read: {error}; write it anew: patchcore lock --file {path}") from error
    version = content.pop("schema_version", None)
    patches = content.setdefault("patches", {})
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise SettingsError(
            f"{path} has schema_version {version}, this patchcore reads up to {SCHEMA_VERSION}: it was written by "
            f"patchcore {content.get('patchcore')}; install that one, or write the file anew: patchcore lock"
        )
    for patch in patches.values() if isinstance(patches, dict) else ():
        if isinstance(patch, dict):
            patch.setdefault("options", {})  # not written where there are none
    wrong = _fault(content) if version == SCHEMA_VERSION else f"schema_version is {version!r}"
    if wrong is not None:
        raise SettingsError(f"{path} is not what patchcore lock writes: {wrong}; write it anew: patchcore lock")
    return content


def write_lock(path: Path, lock: Mapping[str, Any]) -> bool:
    """Write a lock file, whole or not at all; return whether that changed anything.

    Raises:
        SettingsError: it cannot be written.
    """
    text = to_toml(lock)
    try:
        if path.is_file() and path.read_bytes() == text.encode("utf-8"):
            return False
        write_whole(path, text)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror or error}") from error
    return True


def differences(path: Path, plan: Plan) -> list[Difference]:
    """Return what differs between a lock file, the one, and ``plan``, the other.

    Raises:
        SettingsError: see :func:`read_lock`.
    """
    return compare(read_lock(path), make_lock(plan))


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


def _sorted(table: Mapping[str, Any]) -> dict[str, str]:
    return {_text(key): _text(table[key]) for key in sorted(table)}


def _text(value: Optional[str]) -> str:
    """Return a value that TOML can hold: it has no null, and UTF-8 no lone surrogates."""
    return "none" if value is None else value.encode("utf-8", "backslashreplace").decode("utf-8")


def _fault(content: Mapping[str, Any]) -> Optional[str]:
    """Return what is wrong with the content of a file, ``None`` for nothing."""
    for key, kind in (("patchcore", str), ("python", str), ("patches", dict), ("libraries", dict), ("targets", dict)):
        if not isinstance(content.get(key), kind):
            return f"{key} is {content.get(key)!r}"
    tables: dict[str, Any] = {key: content[key] for key in ("libraries", "targets")}
    for name, patch in content["patches"].items():
        if not isinstance(patch, dict) or patch.keys() != _PATCH.keys():
            return f"patches.{name} has not the keys {', '.join(_PATCH)}"
        wrong = next((key for key, kind in _PATCH.items() if not isinstance(patch[key], kind)), None)
        if wrong is not None:
            return f"patches.{name}.{wrong} is {patch[wrong]!r}"
        if not all(isinstance(change, str) and " " in change for change in patch["changes"]):
            return f"patches.{name}.changes are {patch['changes']!r}"
        tables[f"patches.{name}.options"] = patch["options"]
    for where, table in tables.items():
        for key, value in table.items():
            if not isinstance(value, str):
                return f"{where}.{key} is {value!r}"
    return None


def _tables(lock: Mapping[str, Any]) -> Iterator[str]:
    for key in ("libraries", "targets"):
        yield _table((key,), _pairs(lock[key], lock[key]))
    for name, patch in lock["patches"].items():
        yield _table(("patches", name), _pairs(patch, (key for key in _PATCH if key != "options")))
        if patch["options"]:
            yield _table(("patches", name, "options"), _pairs(patch["options"], patch["options"]))


def _table(names: Iterable[str], lines: Iterable[str]) -> str:
    return "\n".join([f"\n[{'.'.join(map(_key, names))}]", *lines])


def _pairs(table: Mapping[str, Any], keys: Iterable[str]) -> Iterator[str]:
    return (f"{_key(key)} = {_value(table[key])}" for key in keys)


def _value(value: Union[str, list[str]]) -> str:
    if isinstance(value, str):
        return _string(value)
    return "".join(["[", *(f"\n    {_string(item)}," for item in value), "\n]" if value else "]"])


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    """Return ``text`` as a basic string of TOML 1.0, with escapes for what may not be in one as it is."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'
