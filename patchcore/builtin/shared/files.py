"""Files that are written whole or not at all, and folders for code that no other user can enter.

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

__all__ = ["UntrustedPath", "append_text", "private_folder", "refuse_shared", "user_cache", "write_whole"]

# Not every system has these: Windows has no links to refuse this way, and only Windows changes line ends.
_FLAGS = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class UntrustedPath(PermissionError):
    """Others can enter a folder for code.

    Args:
        reason: the folder and its fault.
        remedy: the command that mends it, if there is one.

    Examples:
        >>> from patchcore.plugin import UntrustedPath
        >>> raise UntrustedPath("others may enter /srv/shop", "chmod 700 /srv/shop")
        Traceback (most recent call last):
        patchcore.builtin.shared.files.UntrustedPath: others may enter /srv/shop; change that: chmod 700 /srv/shop
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; change that: {remedy}" if remedy else reason)


def write_whole(path: Path, content: Union[str, bytes]) -> None:
    """Write ``path`` whole or not at all: the old file stays until the new one is complete.

    The new file is made in the same folder under a name that cannot be guessed, and then renamed. A link is replaced,
    never followed. A file of this user keeps its permissions. Text is written in UTF-8.

    Raises:
        OSError: it cannot be written, or it is a folder, a device or a pipe; nothing is left behind.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from patchcore.plugin import write_whole
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_whole(Path(folder, "prices"), "tea 3")
        ...     Path(folder, "prices").read_text()
        'tea 3'
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


def append_text(path: Path, content: str, *, new: bool) -> None:
    """Append text in UTF-8 to a file that this process has made; links are not followed.

    Args:
        path: of the file.
        content: the text.
        new: make the file now; that there is one already is an error.

    Raises:
        OSError: it cannot be written.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from patchcore.plugin import append_text
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     append_text(Path(folder, "prices"), "tea 3", new=True)
        ...     Path(folder, "prices").read_text()
        'tea 3'
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

    Examples:
        >>> from pathlib import Path
        >>> from patchcore.plugin import user_cache
        >>> home = Path.home()
        >>> user_cache({"XDG_CACHE_HOME": str(home / "caches")}) == home / "caches"
        True
    """
    named = (os.environ if environ is None else environ).get("XDG_CACHE_HOME")
    return Path(named) if named and os.path.isabs(named) else Path("~/.cache").expanduser()


def private_folder(folder: Path) -> Path:
    """Return the real path of a folder that only this user and root can enter, to keep code in; made if it is missing.

    Raises:
        UntrustedPath: see :func:`refuse_shared`.
        OSError: it cannot be made.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from patchcore.plugin import private_folder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     private_folder(Path(folder, "code")).name
        'code'
    """
    real = Path(os.path.realpath(folder))
    real.mkdir(0o700, parents=True, exist_ok=True)
    return refuse_shared(real)


def refuse_shared(folder: Path) -> Path:
    """Return the real path of a folder that only this user and root can enter: code may be loaded from its files.

    The folder belongs to this user, and its permissions are 0700 or less, so no other user can reach the files in it. A
    folder that does not exist is not refused. Use the path that is returned: links on the way to it can change.

    Raises:
        UntrustedPath: others can enter it.
        OSError: its permissions cannot be read.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from patchcore.plugin import refuse_shared
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     refuse_shared(Path(folder, "code")).name
        'code'
    """
    real = Path(os.path.realpath(folder))
    if hasattr(os, "geteuid"):  # not on Windows, whose caches are in the user's profile
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = os.lstat(real)
            if found.st_uid != os.geteuid():
                raise UntrustedPath(f"{real} belongs to {_user(found.st_uid)}")
            if found.st_mode & 0o077:
                raise UntrustedPath(f"others may enter {real}", f"chmod 700 {shlex.quote(str(real))}")
    return real


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
