"""Kernels on disk: each source is compiled once, by the first process that needs it.

An entry is a folder named by its key, ``VENDOR/ab/abcd...``. It is made under another name and moved into place whole,
under a lock, so that no process sees half of one; its manifest has the digest of every file, so that a damaged one is
noticed and made again, and describes the kernel. The lock is that of the first two digits: it is never removed,
unlike the entries, so that nobody holds one that others do not see. For removal see :mod:`npu_graph.housekeeping`.

A kernel is code. The folder of a vendor is refused if others can enter it: the digests are no help there, because
whoever can change the kernel can change the manifest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Optional

from patchcore.plugin import private_folder, refuse_shared, write_whole

__all__ = ["BUILT", "HIT", "LOCK", "MANIFEST", "REBUILT", "Cache", "Entry", "in_use", "key_of"]

HIT, BUILT, REBUILT = "hit", "built", "rebuilt"
#: In each entry: its description and the digests of its files. It is touched when the kernel is loaded.
MANIFEST = "manifest.json"
#: Beside the entries whose keys begin with the same two digits.
LOCK = "entries.lock"

#: The entries that this process has kernels of.
_LOADED: set[Path] = set()


@dataclass(frozen=True)
class Entry:
    """A kernel that has been loaded.

    Args:
        kernel: the object that the loader returned.
        source: the source it was compiled from.
        outcome: ``hit``, ``built`` or ``rebuilt``.
        remark: why it was rebuilt.
    """

    kernel: Callable[..., Any]
    source: Path
    outcome: str
    remark: str = ""


def key_of(source: str, facts: Mapping[str, str]) -> str:
    """Return the key of a kernel: a digest of its source and of the versions that decide how it compiles.

    Args:
        source: as generated.
        facts: the vendor's name and version, the versions of torch and of this package. Python and machine are added.
    """
    decisive = {**facts, "python": sys.implementation.cache_tag or "", "machine": platform.machine(), "source": source}
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def in_use(place: Path) -> bool:
    """Return whether this process has loaded the kernel of an entry."""
    return Path(os.path.realpath(place)) in _LOADED


class Cache:
    """The kernels of one vendor.

    Args:
        folder: of this vendor; made when something is put there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(
        self,
        key: str,
        name: str,
        source: str,
        compile: Callable[[Path], None],
        load: Callable[[Path], Callable[..., Any]],
        about: Mapping[str, Any] = {},
    ) -> Entry:
        """Return the kernel of ``key``, compiled now unless a complete entry exists that can be loaded.

        Args:
            key: see :func:`key_of`.
            name: file name of the source.
            source: its text.
            compile: takes the path of the source, writes its output beside it.
            load: takes the path of the source, returns the kernel.
            about: the description of the kernel, for the manifest.

        Raises:
            OSError: the folder cannot be written to, or other users can enter it.
            Exception: from ``compile``, or from ``load`` on the result of ``compile``; nothing is kept.
        """
        from filelock import FileLock

        place = refuse_shared(self.folder) / key[:2] / key
        kernel, damage = _load(place, name, load)
        if kernel is not None:
            return Entry(kernel, place / name, HIT)
        private_folder(self.folder)
        place.parent.mkdir(exist_ok=True)
        with FileLock(place.parent / LOCK):
            kernel, damage = _load(place, name, load)  # another process may have been first
            if kernel is not None:
                return Entry(kernel, place / name, HIT)
            _make(place, name, source, compile, about)
            try:
                kernel = load(place / name)
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise
            _LOADED.add(place)
        return Entry(kernel, place / name, BUILT if damage == _ABSENT else REBUILT, "" if damage == _ABSENT else damage)


_ABSENT = "absent"


def _load(place: Path, name: str, load: Callable[[Path], Any]) -> tuple[Optional[Callable[..., Any]], str]:
    """Return the kernel of an entry, or the fault of the entry."""
    damage = _damage(place)
    if damage is None:
        try:
            kernel = load(place / name)
            _LOADED.add(place)
            with contextlib.suppress(OSError):  # somebody else's, or read-only
                os.utime(place / MANIFEST)
            return kernel, ""
        except Exception as error:  # whole, but not for this process: built where a library was of another version
            damage = f"it could not be loaded: {error}"
    return None, damage


def _damage(place: Path) -> Optional[str]:
    """The fault of an entry, ``None`` if it has none."""
    if not place.is_dir():
        return _ABSENT
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        for name, digest in manifest["files"].items():
            if _digest(place / name) != digest:
                return f"{name} was damaged"
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        return f"could not be read: {error}"
    return None


def _make(place: Path, name: str, source: str, compile: Callable[[Path], None], about: Mapping[str, Any]) -> None:
    work = Path(tempfile.mkdtemp(prefix=f"{place.name[:8]}-", dir=place.parent))
    try:
        path = work / name
        write_whole(path, source)
        compile(path)
        files = {file.relative_to(work).as_posix(): _digest(file) for file in sorted(work.rglob("*")) if file.is_file()}
        made = datetime.now(timezone.utc).isoformat(timespec="seconds")
        manifest = {**about, "source": name, "made": made, "files": files}
        write_whole(work / MANIFEST, json.dumps(manifest, indent=2))
        if place.exists():
            old = Path(tempfile.mkdtemp(prefix="old-", dir=place.parent))
            os.replace(place, old / "entry")
            shutil.rmtree(old, ignore_errors=True)
        os.replace(work, place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
