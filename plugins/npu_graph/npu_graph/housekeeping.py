"""Lists the cache of kernels, and removes entries: on request, or to keep to a limit.

Only files of the cache itself are touched: ``VENDOR/ab/<64 digits>``, and the remains of a process that was killed
while it made an entry. Whatever else lies there is somebody else's. Entries are moved away under the lock that they are
made under, and then removed, so that no process finds half of one; loaded kernels stay loaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from npu_graph.cache import LOCK, MANIFEST, in_use

__all__ = ["Removal", "StoredKernel", "limit_size", "older_than", "remove", "stored", "vendors_in"]

_KEY = re.compile(r"[0-9a-f]{64}")
_LEFT_OVER = re.compile(r"[0-9a-f]{8}-.+|old-.+")


#: The sizes of the caches that this process has added entries to, as far as it knows.
_SIZES: dict[Path, int] = {}
#: How much of the limit is taken after a removal, so that the next entry is not the next to be too much.
_ROOM = 0.9


@dataclass(frozen=True)
class StoredKernel:
    """An entry of the cache.

    Args:
        vendor: whose folder it is in.
        place: its folder.
        size: of its files, in bytes.
        used: when it was made or last loaded, in seconds since 1970.
        about: the content of its manifest; empty if that cannot be read.
    """

    vendor: str
    place: Path
    size: int
    used: float
    about: dict[str, Any]


@dataclass(frozen=True)
class Removal:
    """The result of a removal.

    Args:
        removed: the entries that are gone.
        kept: how many of the others were asked for but could not be removed.
        remark: why.
    """

    removed: tuple[StoredKernel, ...] = ()
    kept: int = 0
    remark: str = ""

    @property
    def size(self) -> int:
        """The size of the removed files, in bytes."""
        return sum(each.size for each in self.removed)


def stored(folder: Path, vendor: Optional[str] = None, *, read: bool = True) -> list[StoredKernel]:
    """Return the entries of a cache, least recently used first.

    Args:
        folder: of the cache; that it is not there is no error.
        vendor: only that one's.
        read: the manifests, too.

    Raises:
        OSError: the folder cannot be read.
    """
    found = [
        _stored(owner.name, place, read)
        for owner, place in _places(folder)
        if vendor in (None, owner.name) and _KEY.fullmatch(place.name)
    ]
    return sorted((each for each in found if each is not None), key=lambda each: (each.used, each.place.name))


def vendors_in(folder: Path) -> list[str]:
    """Return the vendors that have entries in a cache."""
    return sorted({owner.name for owner, place in _places(folder) if _KEY.fullmatch(place.name)})


def remove(folder: Path, kernels: Iterable[StoredKernel], *, leftovers: bool = False) -> Removal:
    """Remove entries; those of whose first two digits some process makes an entry right now stay.

    Args:
        folder: of the cache.
        kernels: those to remove.
        leftovers: also remove the remains of killed processes.
    """
    wanted: dict[Path, list[StoredKernel]] = {}
    for kernel in kernels:
        wanted.setdefault(kernel.place.parent, []).append(kernel)
    if leftovers:
        for _, place in _places(folder):
            if _LEFT_OVER.fullmatch(place.name):
                wanted.setdefault(place.parent, [])
    removed: list[StoredKernel] = []
    kept, remark = 0, ""
    for shelf, listed in wanted.items():
        try:
            with _locked(shelf):
                for kernel in listed:
                    _discard(kernel.place)
                    removed.append(kernel)
                for left in shelf.iterdir() if leftovers else ():
                    if _LEFT_OVER.fullmatch(left.name):
                        shutil.rmtree(left, ignore_errors=True)
        except (OSError, TimeoutError) as error:
            gone = {id(kernel) for kernel in removed}
            kept += sum(id(kernel) not in gone for kernel in listed)
            remark = "a process is compiling" if isinstance(error, TimeoutError) else str(error)
    return Removal(tuple(removed), kept, remark)


def limit_size(folder: Path, limit: Optional[int], made: Path) -> Removal:
    """Remove the entries that have not been used for the longest where a cache takes more than ``limit`` bytes.

    Those whose kernels this process has loaded stay. Going through a large cache takes a while: it is done for the
    first entry that a process makes, and when the entries made since may exceed the limit. That something cannot be
    removed is no error: the kernel is there.

    Args:
        folder: of the cache.
        limit: ``None`` for any size.
        made: the entry that this process has just made.
    """
    if limit is None:
        return Removal()
    with contextlib.suppress(OSError):
        if folder in _SIZES:
            _SIZES[folder] += _size(made)
            if _SIZES[folder] <= limit:
                return Removal()
        kernels = stored(folder, read=False)
        size = _SIZES[folder] = sum(each.size for each in kernels)
        if size <= limit:
            return Removal()
        excess = size - limit * _ROOM
        doomed = []
        for kernel in kernels:
            if excess <= 0:
                break
            if not in_use(kernel.place):
                doomed.append(kernel)
                excess -= kernel.size
        done = remove(folder, doomed)
        _SIZES[folder] -= done.size
        return done
    return Removal()


def older_than(kernels: Iterable[StoredKernel], days: float) -> list[StoredKernel]:
    """Return the entries that have not been used for some days."""
    before = time.time() - days * 86400
    return [kernel for kernel in kernels if kernel.used <= before]


def _places(folder: Path) -> Iterator[tuple[Path, Path]]:
    """The folders that entries are in, or were to be: that of the vendor and the entry's."""
    if not folder.exists():
        return
    for owner in sorted(folder.iterdir()):
        for shelf in _folders(owner):
            if len(shelf.name) == 2:
                for place in _folders(shelf):
                    if not _KEY.fullmatch(place.name) or place.name.startswith(shelf.name):
                        yield owner, place


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.is_dir() and not each.is_symlink())
    except OSError:  # a file, a folder that may not be read, or one that has just been removed
        return []


def _stored(vendor: str, place: Path, read: bool) -> Optional[StoredKernel]:
    try:
        size = _size(place)
        manifest = place / MANIFEST
        used = (manifest if manifest.is_file() else place).stat().st_mtime
    except OSError:  # removed in the meantime
        return None
    about: Any = None
    if read:
        with contextlib.suppress(OSError, ValueError):
            about = json.loads(manifest.read_text(encoding="utf-8"))
    return StoredKernel(vendor, place, size, used, about if isinstance(about, dict) else {})


def _size(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


@contextlib.contextmanager
def _locked(shelf: Path) -> Iterator[None]:
    """Hold the lock of a shelf, if nobody else does.

    Raises:
        TimeoutError: somebody does.
        OSError: the folder is not there any more, or cannot be written to.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(shelf / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise TimeoutError(str(error)) from error
    try:
        yield
    finally:
        lock.release()


def _discard(place: Path) -> None:
    away = Path(tempfile.mkdtemp(prefix="old-", dir=place.parent))
    try:
        with contextlib.suppress(FileNotFoundError):  # another process was first
            os.replace(place, away / "entry")
    finally:
        shutil.rmtree(away, ignore_errors=True)
