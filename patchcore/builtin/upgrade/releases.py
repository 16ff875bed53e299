"""The Python sources of a release of a library, from its wheel or source distribution; nothing of it is executed.

The archives of strangers are unpacked: only Python files are written, only below one folder, and only so many bytes.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from patchcore.builtin.shared.files import write_whole
from patchcore.errors import SettingsError

__all__ = ["Release", "get_release", "unpack_sources"]

#: The sources are the same for all platforms. The wheels for ARM are the smaller ones: those for x86-64 may have CUDA.
_PLATFORMS = tuple(
    f"manylinux{version}_{machine}"
    for machine in ("aarch64", "x86_64")
    for version in ("_2_35", "_2_31", "_2_28", "_2_17", "2014", "1")
)
#: Seconds for one download.
_PATIENCE = 900
#: Bytes of one Python file, and of all of a release; the sources of torch 2.13 have 67 MB.
_LARGEST_FILE = 20 * 1024**2
_LARGEST_RELEASE = 500 * 1024**2
_MOST_FILES = 200_000
_HINT = (
    "; --build lets pip download a source distribution, for which pip runs code of the library; or give the path of one"
)
#: Folders of an sdist that have its packages.
_LAYOUTS = ("src", "lib", "python")
_COMPILED = (".so", ".pyd")
_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


class Release(NamedTuple):
    """The sources of a release.

    Args:
        name: of the distribution, as it was asked for.
        version: of the release.
        trees: by top-level package, the folder that has it.
    """

    name: str
    version: str
    trees: dict[str, Path]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def get_release(text: str, folder: Path, *, build: bool = False) -> Release:
    """Return the sources of a release, unpacked into ``folder``.

    Args:
        text: ``mmdet==3.3.0``, which pip downloads, or the path of a wheel or source distribution.
        folder: empty.
        build: let pip download a source distribution if there is no wheel. pip then runs code of the library: its
            ``setup.py``, or the backend that builds it.

    Raises:
        SettingsError: there is no such release, or its archive is not safe to unpack.
    """
    if text.endswith(_ARCHIVES) or os.sep in text:
        archive = Path(text)
        if not archive.is_file():
            raise SettingsError(f"{text}: there is no such file; expected NAME==VERSION, a wheel or an sdist")
    else:
        archive = _download(text, folder, build=build)
    name, version = _name_of(archive)
    tree = folder / "tree"
    unpack_sources(archive, tree)
    trees = {_module_of(place): place.parent for place in _top_level(tree)}
    if not trees:
        raise SettingsError(f"{text}: {archive.name} has no Python package")
    return Release(name, version, trees)


def unpack_sources(archive: Path, folder: Path) -> None:
    """Write the Python files of a wheel or source distribution, and an empty file for each compiled module.

    Links, devices, absolute names and names with ``..`` are refused or left out: nothing is written outside ``folder``.

    Args:
        archive: the file, with the name that the package index gave it.
        folder: is made if it is not there.

    Raises:
        SettingsError: the archive cannot be read, names a place outside, or has more than it may.

    Examples:
        >>> import tempfile, zipfile
        >>> from pathlib import Path
        >>> from patchcore.plugin import unpack_sources
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     wheel = Path(folder, "shop-1.0-py3-none-any.whl")
        ...     with zipfile.ZipFile(wheel, "w") as made:
        ...         made.writestr("shop/prices.py", "PRICE = 1")
        ...     unpack_sources(wheel, Path(folder, "tree"))
        ...     Path(folder, "tree", "shop", "prices.py").read_text()
        'PRICE = 1'
    """
    left, files = _LARGEST_RELEASE, 0
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, stream in _members(archive):
            path = _inside(name, archive)
            if path.suffix not in (".py", *_COMPILED):
                continue
            files += 1
            data = b""
            if path.suffix == ".py":
                data = stream.read(min(_LARGEST_FILE, left) + 1)
                left -= len(data)
            else:
                path = path.with_name(path.name.partition(".")[0] + EXTENSION_SUFFIXES[-1])
            if len(data) > _LARGEST_FILE or left < 0 or files > _MOST_FILES:
                raise SettingsError(f"{archive.name} is too large to be the sources of a library (at {name})")
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, data)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, tarfile.TarError, RuntimeError) as error:
        raise SettingsError(f"{archive.name} cannot be unpacked: {error}") from error


def _inside(name: str, archive: Path) -> PurePosixPath:
    """Return the path of a member below the folder of the sources.

    Raises:
        SettingsError: it leaves the folder.
    """
    path = PurePosixPath(name)
    is_outside = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name
    if is_outside:
        raise SettingsError(f"{archive.name} is not safe to unpack: it has a file {name!r}")
    if path.parts[:1] and path.parts[0].endswith(".data") and path.parts[1:2] in (("purelib",), ("platlib",)):
        return PurePosixPath(*path.parts[2:])
    return path


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the regular files of an archive, each with its content; of an sdist without the first folder."""
    if archive.suffix == ".whl" or zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as content:
            for info in content.infolist():
                if not info.is_dir() and not stat.S_ISLNK(info.external_attr >> 16):
                    with content.open(info) as stream:
                        yield _without_first(info.filename, archive), stream
        return
    with tarfile.open(archive) as packed:
        for member in packed:
            file = packed.extractfile(member) if member.isreg() else None
            if file is not None:
                yield _without_first(member.name, archive), file


def _without_first(name: str, archive: Path) -> str:
    return name if archive.suffix == ".whl" or name.startswith(("/", "..")) else name.partition("/")[2] or name


def _top_level(tree: Path) -> Iterator[Path]:
    """Yield the top-level packages and modules, which an sdist may have in a folder such as ``src``."""
    seen: set[str] = set()
    for folder in (tree, *(tree / name for name in _LAYOUTS)):
        for place in sorted(folder.iterdir()) if folder.is_dir() else ():
            is_package = place.is_dir() and place.name.isidentifier() and any(place.rglob("*.py"))
            if place in (tree / name for name in _LAYOUTS) and not (place / "__init__.py").is_file():
                continue
            if (place.is_file() or is_package) and _module_of(place) not in seen:
                seen.add(_module_of(place))
                yield place


def _module_of(place: Path) -> str:
    return place.name.partition(".")[0]


def _name_of(archive: Path) -> tuple[str, str]:
    try:
        if archive.suffix == ".whl":
            name, version, *_ = parse_wheel_filename(archive.name)
        else:
            name, version = parse_sdist_filename(archive.name)
    except (InvalidWheelFilename, InvalidSdistFilename) as error:
        raise SettingsError(f"{archive.name} is no name of a wheel or sdist: {error}") from error
    return str(name), str(version).partition("+")[0]


def _download(text: str, folder: Path, *, build: bool) -> Path:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise SettingsError(f"{text}: expected NAME==VERSION, a wheel or an sdist ({error})") from error
    if [each.operator for each in requirement.specifier] != ["=="] or requirement.url is not None:
        raise SettingsError(f"{text}: expected one version, NAME==VERSION")
    place = folder / "download"
    wheels = ("--only-binary=:all:", "--ignore-requires-python")
    ways: list[Sequence[str]] = [wheels, [*wheels, *(f"--platform={each}" for each in _PLATFORMS)]]
    if build:
        ways.append(("--no-binary=:all:",))
    errors: list[str] = []
    for way in ways:
        errors += _pip([*way, f"--dest={place}", text])
        found = list(place.iterdir()) if place.is_dir() else []
        if found:
            break
    else:
        hint = "" if build else _HINT
        raise SettingsError(f"{text}: pip finds no wheel: {errors[-1] if errors else 'no reason given'}{hint}")
    (archive,) = found
    if canonicalize_name(_name_of(archive)[0]) != canonicalize_name(requirement.name):
        raise SettingsError(f"{text}: pip downloaded {archive.name}")
    return archive


def _pip(arguments: Iterable[str]) -> list[str]:
    """Run ``pip download``; return the lines that say why it failed."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "download",
        "--quiet",
        "--no-deps",
        *arguments,
    ]
    options: dict[str, Any] = {"capture_output": True, "text": True, "check": False, "timeout": _PATIENCE}
    try:
        done = subprocess.run(command, **options)
    except subprocess.TimeoutExpired:
        return [f"pip took more than {_PATIENCE} seconds"]
    if not done.returncode:
        return []
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return lines[-1:] or [done.stderr.strip()[-300:] or f"pip exited with {done.returncode}"]
