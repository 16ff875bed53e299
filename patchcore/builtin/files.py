"""Files that nobody ever reads half of, and folders that nobody else can put code into.

Needs nothing but the standard library: ``tools/mmcv_wheel.py`` loads it where patchcore is not installed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Optional, Union

__all__ = ["UntrustedPath", "append", "private_folder", "refuse_shared", "user_cache", "write_whole"]

# Not every system has these: Windows has no links to refuse this way, and only Windows changes line ends.
_FLAGS = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class UntrustedPath(PermissionError):
    """Somebody else can change a file or folder.

    Args:
        reason: what is wrong with which file or folder.
        remedy: the command that mends it, if there is one.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; change that: {remedy}" if remedy else reason)
        self.reason = reason


def write_whole(path: Path, content: Union[str, bytes]) -> None:
    """Write ``path`` whole or not at all: the old file stays until the new one is complete.

    The new file is made in the same folder under a name that cannot be guessed, and then renamed. A link is replaced,
    never followed. A file of this user keeps its permissions. Text is written in UTF-8.

    Raises:
        OSError: it cannot be written, or it is a folder, a device or a pipe; nothing is left behind.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    mode = _mode_to_keep(path)
    partial = path.with_name(f".{path.name[:40]}.{os.urandom(8).hex()}.part")
    descriptor = os.open(partial, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        if mode is not None:
            os.chmod(partial, mode)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def append(path: Path, content: str, *, new: bool) -> None:
    """Append text in UTF-8 to a file that this process has made; links are not followed.

    Args:
        path: of the file.
        content: the text.
        new: make the file now; that there is one already is an error.

    Raises:
        OSError: it cannot be written.
    """
    descriptor = os.open(path, _FLAGS | (os.O_CREAT | os.O_EXCL if new else os.O_APPEND), 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode("utf-8"))


def user_cache(environ: Optional[Mapping[str, str]] = None) -> Path:
    """Return the folder of this user's caches: ``XDG_CACHE_HOME``, else ``~/.cache``.

    A relative ``XDG_CACHE_HOME`` is ignored, as the XDG Base Directory Specification says: it would name another
    folder in every current directory.

    Raises:
        RuntimeError: this user has no home.
    """
    named = (os.environ if environ is None else environ).get("XDG_CACHE_HOME")
    return Path(named) if named and os.path.isabs(named) else Path("~/.cache").expanduser()


def private_folder(folder: Path) -> Path:
    """Return the real path of a folder that only this user and root can change; it is made where it is missing.

    Folders that are made get the permissions 0700, whatever the umask says.

    Raises:
        UntrustedPath: see :func:`refuse_shared`; nothing is made then.
        OSError: it cannot be made.
    """
    real = refuse_shared(folder)
    for place in reversed((real, *real.parents)):
        if not place.is_dir():
            with contextlib.suppress(FileExistsError):  # another process was first, or it is a file
                place.mkdir(0o700)
    if not real.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(real))
    return refuse_shared(real)


def refuse_shared(path: Path) -> Path:
    """Return the real path of a file or folder that only this user and root can change, to load code from.

    The rule is that of OpenSSH for keys: the path and every folder above it belong to this user or to root, and nobody
    else may write to them. Others may write to a folder above it whose sticky bit is set (``/tmp``), because they
    cannot rename what is not theirs there. A group that has no other member (Debian and Fedora make one for each user)
    may write. What does not exist is not refused. Use the path that is returned: links on the way to it can change.

    Raises:
        UntrustedPath: somebody else can change it.
        OSError: it cannot be looked at.
    """
    real = Path(os.path.realpath(path))
    if hasattr(os, "geteuid"):  # not on Windows, whose caches are in the user's profile
        for place in (real, *real.parents):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _refuse(place, os.lstat(place), above=place != real)
    return real


def _refuse(place: Path, found: os.stat_result, *, above: bool) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise UntrustedPath(f"{place} belongs to {_user(found.st_uid)}")
    others = bool(found.st_mode & stat.S_IWOTH)
    if not others and not (found.st_mode & stat.S_IWGRP and not _has_own_group(found)):
        return
    if above and found.st_mode & stat.S_ISVTX:
        return
    who = "everybody" if others else "its group"
    raise UntrustedPath(f"{who} may write to {place}", f"chmod go-w {shlex.quote(str(place))}")


def _has_own_group(found: os.stat_result) -> bool:
    """True if the group of a file has the name of its owner, who is not root, and no other member."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    own = found.st_uid != 0 and owner.pw_gid == found.st_gid and owner.pw_name == group.gr_name
    return own and set(group.gr_mem) <= {owner.pw_name}


def _user(number: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _mode_to_keep(path: Path) -> Optional[int]:
    """Return the permissions of the file at ``path`` if it is this user's, ``None`` for those of a new file.

    Raises:
        OSError: there is something else than a file, which would be lost.
    """
    try:
        found = os.lstat(path)
        target = os.stat(path)
    except OSError:  # there is nothing, or a link that leads nowhere
        return None
    if stat.S_ISDIR(target.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(target.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == getattr(os, "geteuid", lambda: found.st_uid)()
    return stat.S_IMODE(found.st_mode) & 0o777 if is_own else None
