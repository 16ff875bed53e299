"""``patchcore.lock``: the patches of an environment and their replacements, in a file for review and comparison.

The file is a manifest as sorted JSON, without paths and times, so that it is the same wherever the same is installed.
It has the facts that can change what is applied: the patches to be applied, the versions of plugins and libraries, the
sources of replacements, and the fingerprints of targets, which do not change with comments and layout. Of a patch that
is not applied it has only the reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Optional, TypedDict

import msgspec

from patchcore.builtin.drift.drift import fingerprinted
from patchcore.builtin.drift.fingerprint import Originals
from patchcore.builtin.shared.files import write_whole
from patchcore.builtin.shared.manifest import (
    Difference,
    Manifest,
    as_text,
    compare_manifests,
    hash_of_file,
    library_version,
    make_manifest,
    verdict_of,
)
from patchcore.builtin.stdlib.standard import is_standard
from patchcore.declare.target import Target
from patchcore.errors import PatchError, SettingsError, TargetNotFound, Unseen
from patchcore.objects.modules import module_file
from patchcore.planning.conditions import APPLY
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.report import FAILED

if TYPE_CHECKING:
    from patchcore.patcher import Patcher

__all__ = [
    "FILE",
    "SCHEMA_VERSION",
    "Lock",
    "differences",
    "find_lock",
    "make_lock",
    "read_lock",
    "refuse_differences",
    "settings_to_lock",
    "to_text",
    "write_lock",
]

#: The name of the file.
FILE = "patchcore.lock"

#: Version of the file's format.
SCHEMA_VERSION = 3

_ABOUT = "Written by patchcore lock; compared by patchcore lock --check and patchcore run --locked."

#: Written instead of the fingerprint of a target that is gone.
_GONE = "not there"


class _LockedSettings(TypedDict, total=False):
    settings: dict[str, str]


class Lock(Manifest, _LockedSettings):
    """The manifest of the patches of an environment that are to be applied, or that fail.

    It has two numbers of Python's version. ``libraries`` also has those of replacements, and ``files`` has the modules
    of replacements that no version covers.

    Args:
        schema_version: of the file.
        targets: the fingerprints of targets.
        not_applied: the verdict of each other patch.
        settings: the values of the plugins' settings that change which edits patches make; missing if there are none.
    """

    schema_version: int
    targets: dict[str, str]
    not_applied: dict[str, str]


def settings_to_lock(patcher: Patcher) -> dict[str, str]:
    """Return the values, as text, of the settings of plugins that change which edits ``patcher``'s patches make."""
    found = (setting for setting in patcher.plugins.settings() if setting.affects_patches)
    return {setting.key: as_text(patcher.settings.get(setting.key)) for setting in found}


def make_lock(plan: Plan, settings: Mapping[str, str] = MappingProxyType({})) -> Lock:
    """Return the lock of ``plan``; reads sources, imports nothing.

    Args:
        plan: of an environment.
        settings: see :func:`settings_to_lock`.
    """
    entries = [entry for entry in plan if not entry.provenance.extends_patchcore]
    applied = [entry for entry in entries if entry.verdict == APPLY]
    shown = {entry.patch.name for entry in entries if entry.verdict in (APPLY, FAILED)}
    manifest = make_manifest(entries)
    patches = manifest["patches"].items()
    lock: Lock = {
        "schema_version": SCHEMA_VERSION,
        "patchcore": manifest["patchcore"],
        "python": manifest["python"].rpartition(".")[0],
        "patches": {name: facts for name, facts in patches if name in shown},
        "libraries": {root: library_version(root) for root in _libraries(applied)},
        "files": {name: hash_of_file(module_file(name)) for name in _modules(applied)},
        "targets": _fingerprints(applied),
        "not_applied": {name: verdict_of(facts) for name, facts in patches if name not in shown},
    }
    if settings:
        lock["settings"] = dict(settings)
    return lock


def _modules(entries: Iterable[PlannedPatch]) -> set[str]:
    """Return the modules of replacements, except those that the version of a library stands for."""
    found = set()
    for entry in entries:
        own = (entry.provenance.value or "").partition(":")[0].partition(".")[0]
        sources = map(_module_of, (change.source for change in entry.patch.changes))
        for module in filter(None, sources):
            root = module.partition(".")[0]
            if root == own or (not _is_ours(root) and library_version(root) is None):
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
    """True for modules whose content follows from the versions of Python and patchcore."""
    return root == "patchcore" or is_standard(root)


def _module_of(source: Any) -> Optional[str]:
    """Return the module that a replacement is in, ``None`` if its attributes do not name one."""
    if type(source) is Target:
        return source.pin().module
    module = getattr(source, "__module__", None)
    return module if isinstance(module, str) else None


def _fingerprints(entries: Iterable[PlannedPatch]) -> dict[str, str]:
    """Return the fingerprints of the targets of patches.

    Those that only an import would show (functions in C) are left out, also where something has imported the library:
    a lock depends on the installed files, not on the modules that this process has imported.
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
    return json.dumps({"about": _ABOUT, **lock}, indent=1, sort_keys=True) + "\n"


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
    """Return the content of the lock file ``path``.

    Raises:
        SettingsError: there is none, it cannot be read, it is of a newer patchcore, or it is no lock file.
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
    if version is not None and version != SCHEMA_VERSION:
        raise SettingsError(
            f"{path} has schema_version {version!r}, this patchcore reads {SCHEMA_VERSION}; write it anew: "
            f"patchcore lock"
        )
    try:
        lock: Lock = msgspec.convert(content, Lock)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # the second: a text has half of a surrogate pair
        raise SettingsError(
            f"{path} is not what patchcore lock writes: {error}; write it anew: patchcore lock"
        ) from error
    return lock


def write_lock(path: Path, lock: Lock) -> bool:
    """Write a lock file, whole or not at all; return whether that changed anything.

    Raises:
        SettingsError: it cannot be written.
    """
    text = to_text(lock)
    try:
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return False
    except (OSError, ValueError):  # it is written anew
        pass
    try:
        write_whole(path, text)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror or error}") from error
    return True


def differences(path: Path, plan: Plan, settings: Mapping[str, str] = MappingProxyType({})) -> list[Difference]:
    """Return the differences between a lock file, the one, and ``plan`` with ``settings``, the other.

    Raises:
        SettingsError: see :func:`read_lock`.
    """
    return compare_manifests(read_lock(path), make_lock(plan, settings))


def refuse_differences(path: Optional[Path], plan: Plan, settings: Mapping[str, str]) -> None:
    """Raise an error if ``plan`` differs from a lock file.

    Args:
        path: of the file, ``None`` when there is none.
        plan: of this environment.
        settings: see :func:`settings_to_lock`.

    Raises:
        PatchError: they differ; the message lists every difference.
        SettingsError: there is no lock file, or it cannot be used.
    """
    if path is None:
        raise SettingsError(
            f"--locked: there is no {FILE}, neither at or above the program's folder nor the current one; write it: "
            f"patchcore lock"
        )
    found = differences(path, plan, settings)
    if found:
        lines = "".join(f"\n  {d.subject}: locked: {d.one}; here: {d.other}" for d in found)
        raise PatchError(
            f"nothing was started: this environment is not what {path} says:{lines}\n"
            f"if it is as it should be, write that down and review it: patchcore lock"
        )
