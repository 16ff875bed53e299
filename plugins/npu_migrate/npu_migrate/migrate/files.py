"""Finds, reads and writes the files of a project."""

from __future__ import annotations

import fnmatch
import os
import re
import tokenize
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Optional

from npu_migrate.migrate.extensions import SUFFIXES
from patchcore import SettingsError
from patchcore.plugin import write_whole

__all__ = ["NOT_OURS", "LeftOut", "Source", "decode", "encode", "walk", "write"]

#: Folders that hold no source of the project, by name.
NOT_OURS = frozenset(
    (".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", "env", ".eggs", "build", "dist", "node_modules")
    + ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", "site-packages")
)
#: Those of them that tools keep their own things in: nobody asks why they are left out.
_BOOKKEEPING = frozenset(
    (".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints")
)
#: Folders that mmengine's runner writes, with a copy of the configuration: Python files that the next run makes anew.
_OF_RUNS = frozenset(("work_dirs",))
#: Reports of processes, which patchcore run --report-dir writes.
_REPORT = re.compile(r"report-\d+-\d+-[0-9a-f]{6}\.json")
#: Files that would be read; others are not missed where they are left out.
_READ = (".py", ".pyw", ".ipynb", *SUFFIXES)


class LeftOut(NamedTuple):
    """A folder or file that is not looked at.

    Args:
        name: its path below the folder that is converted; a folder's ends with ``/``.
        why: as ``.gitignore`` or ``a virtual environment``.
        unreadable: whether it was to be looked at and could not be.
    """

    name: str
    why: str
    unreadable: bool = False


class Source(NamedTuple):
    """The text of a file.

    Args:
        text: without a byte order mark, line ends as they are.
        encoding: to write it with; ``utf-8-sig`` brings the byte order mark back.
    """

    text: str
    encoding: str


def decode(content: bytes) -> Source:
    """Return the text of a Python file, by its byte order mark or the encoding that it declares, UTF-8 by default.

    Raises:
        SyntaxError: it declares an encoding that there is not, or two that differ.
        UnicodeDecodeError: it is written in another encoding.
    """
    encoding, _ = tokenize.detect_encoding(BytesIO(content).readline)
    return Source(content.decode(encoding), encoding)


def encode(source: Source) -> bytes:
    """Return the content of the file; the reverse of :func:`decode`.

    Raises:
        UnicodeEncodeError: the encoding lacks a character of the text.
    """
    return source.text.encode(source.encoding)


def write(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all, with the permissions it has; a link stays one.

    Raises:
        OSError: it cannot be written.
    """
    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True)
    write_whole(real, content)


def walk(
    root: Path, exclude: Sequence[str] = (), without: Sequence[Path] = (), left_out: Optional[list[LeftOut]] = None
) -> Iterator[tuple[Path, str]]:
    """Yield the files of a tree, sorted, and their paths below ``root`` with ``/``; of a file, itself.

    Left out are the folders of :data:`NOT_OURS`, virtual environments by any name, links to folders, reports of
    ``patchcore run``, ``work_dirs`` of mmengine, and files that ``.gitignore`` files of the tree leave out.

    Args:
        root: a folder or a file.
        exclude: patterns of names, or of paths below ``root``, that are left out too.
        without: folders that are left out too.
        left_out: gets the paths that are left out, except folders of tools and files that would not be read.

    Raises:
        SettingsError: there is no such file or folder.
    """
    if root.is_file():
        yield root, root.name
    elif root.is_dir():
        skipped = {path.resolve() for path in without}
        yield from _below(root, "", exclude, skipped, (), [] if left_out is None else left_out)
    else:
        raise SettingsError(f"there is no file or folder {root}")


def _below(
    folder: Path,
    prefix: str,
    exclude: Sequence[str],
    skipped: set[Path],
    ignoring: tuple[tuple[str, Any], ...],
    left_out: list[LeftOut],
) -> Iterator[tuple[Path, str]]:
    spec = _gitignore(folder)
    if spec is not None:
        ignoring = (*ignoring, (prefix, spec))
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        left_out.append(LeftOut(prefix or "./", error.strerror or str(error), unreadable=True))
        return
    for entry in entries:
        path, name = Path(entry.path), f"{prefix}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        why = ""
        if any(fnmatch.fnmatch(text, pattern.rstrip("/")) for pattern in exclude for text in (entry.name, name)):
            why = "--exclude"
        elif any(spec.match_file(name[len(at) :] + ("/" if is_folder else "")) for at, spec in ignoring):
            why = ".gitignore"
        elif is_folder and (path / "pyvenv.cfg").exists():
            why = "a virtual environment"
        elif is_folder and (entry.name in NOT_OURS or entry.name.endswith(".egg-info")):
            why = "its name is not one of source code"
        elif is_folder and entry.name in _OF_RUNS:
            why = "written by runs"
        elif (is_folder and _has_reports(path)) or (not is_folder and _REPORT.fullmatch(entry.name)):
            why = "reports of patchcore run"
        elif is_folder and path.resolve() in skipped:
            continue  # the output
        elif entry.is_symlink() and path.is_dir():
            why = "a link to a folder"
        elif not is_folder and not entry.is_file():
            why = "a broken link, or a device"
        if why:
            if entry.name not in _BOOKKEEPING and (path.is_dir() or path.suffix in _READ):
                left_out.append(LeftOut(f"{name}/" if path.is_dir() else name, why))
        elif is_folder:
            yield from _below(path, f"{name}/", exclude, skipped, ignoring, left_out)
        else:
            yield path, name


def _has_reports(folder: Path) -> bool:
    """Return True if a folder has reports of ``patchcore run`` and no Python file."""
    try:
        names = os.listdir(folder)
    except OSError:
        return False  # said when it is read
    return any(map(_REPORT.fullmatch, names)) and not any(name.endswith((".py", ".pyw")) for name in names)


def _gitignore(folder: Path) -> Any:
    file = folder / ".gitignore"
    if not file.is_file():
        return None
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8", errors="replace").splitlines())
