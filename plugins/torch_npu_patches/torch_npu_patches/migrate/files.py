"""Files of a project: which there are, what is in them, and writing them without losing either."""

from __future__ import annotations

import fnmatch
import os
import tokenize
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from patchcore.builtin.files import write_whole
from patchcore.errors import SettingsError

__all__ = ["NOT_OURS", "Source", "decode", "encode", "walk", "write"]

#: Folders that hold no source of the project, by name.
NOT_OURS = frozenset(
    (".git", ".hg", ".svn", ".tox", ".nox", ".venv", "venv", "env", ".eggs", "build", "dist", "node_modules")
    + ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", "site-packages")
)


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
        UnicodeEncodeError: the encoding does not have what the text has.
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


def walk(root: Path, exclude: Sequence[str] = (), without: Sequence[Path] = ()) -> Iterator[tuple[Path, str]]:
    """Yield the files of a tree, sorted, and their paths below ``root`` with ``/``; of a file, itself.

    Left out are the folders of :data:`NOT_OURS`, virtual environments by any name, links to folders, and what
    ``.gitignore`` files of the tree leave out.

    Args:
        root: a folder or a file.
        exclude: patterns of names, or of paths below ``root``, that are left out too.
        without: folders that are left out too.

    Raises:
        SettingsError: there is no such file or folder.
    """
    if root.is_file():
        yield root, root.name
    elif root.is_dir():
        skipped = {path.resolve() for path in without}
        yield from _below(root, "", exclude, skipped, ())
    else:
        raise SettingsError(f"there is no file or folder {root}")


def _below(
    folder: Path, prefix: str, exclude: Sequence[str], skipped: set[Path], ignoring: tuple[tuple[str, Any], ...]
) -> Iterator[tuple[Path, str]]:
    spec = _gitignore(folder)
    if spec is not None:
        ignoring = (*ignoring, (prefix, spec))
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return  # a folder that may not be read
    for entry in entries:
        path, name = Path(entry.path), f"{prefix}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if any(fnmatch.fnmatch(text, pattern.rstrip("/")) for pattern in exclude for text in (entry.name, name)):
            continue
        if any(spec.match_file(name[len(at) :] + ("/" if is_folder else "")) for at, spec in ignoring):
            continue
        if is_folder:
            is_environment = entry.name in NOT_OURS or (path / "pyvenv.cfg").exists()
            if not is_environment and not entry.name.endswith(".egg-info") and path.resolve() not in skipped:
                yield from _below(path, f"{name}/", exclude, skipped, ignoring)
        elif entry.is_file():
            yield path, name


def _gitignore(folder: Path) -> Any:
    file = folder / ".gitignore"
    if not file.is_file():
        return None
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8", errors="replace").splitlines())
