"""Get the Python sources of a release of a library, without its dependencies and without building its operators.

The wheel is taken where there is one, else the source distribution, from whatever index pip is set up to use. Only
Python files are kept, in a zip file outside the checkout::

    $PATCHCORE_CACHE/sources/mmcv-full-1.7.2.zip

Without ``PATCHCORE_CACHE`` the folder is ``patchcore`` in ``XDG_CACHE_HOME`` (``~/.cache``).

Compiled modules are kept as empty files: what looks for sources sees that there is a module, and that it has none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path, PurePosixPath

from mmcv_wheel import CPU_ONLY, cache_root
from packaging.version import Version

# The sources are the same for every platform, the wheels are not: torch's for Linux on ARM, which is what most machines
# with NPUs are, is a tenth of the one for x86-64, which comes with CUDA.
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64", "manylinux2014_x86_64")

# pip asks setup.py for metadata. This one decides between two names by it.
SETUP_OPTIONS = {key: value for key, value in CPU_ONLY.items() if key != "MMCV_WITH_OPS"}


class SourcesError(Exception):
    """The sources cannot be had; the message says why, and what to do."""


def releases(distribution: str) -> list[str]:
    """Return the versions that the package index has for this Python, pre-releases too, the newest first.

    Raises:
        SourcesError: the index does not know it, or cannot be reached.
    """
    done = _pip("index", "versions", "--pre", distribution)
    found = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if found is None:
        raise SourcesError(f"pip finds no release of {distribution}:\n{_tail(done)}")
    return [version.strip() for version in found[1].split(",") if "+" not in version]


def cached_sources(distribution: str, version: str, package: str) -> Path:
    """Return the zip file with the sources of a release, downloading it when the cache has none.

    Args:
        distribution: its name on the index, ``mmcv-full``.
        version: of the release.
        package: the top-level package to keep, ``mmcv``. The zip file has metadata that say which version it is.

    Raises:
        SourcesError: it cannot be downloaded, or the package is not in it.
    """
    folder = cache_root() / "sources"
    archive = folder / f"{distribution}-{version}.zip"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix="download-") as scratch:
            downloaded = _download(distribution, version, Path(scratch))
            made = Path(scratch, archive.name)
            _write(made, downloaded, package, version)
            os.replace(made, archive)  # whole or not there, whenever this is interrupted
    return archive


def newest_release(distribution: str) -> str:
    """Return the newest version that is no pre-release; raises what :func:`releases` raises."""
    return max((version for version in releases(distribution) if not Version(version).is_prerelease), key=Version)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack what :func:`cached_sources` has returned into a folder that can be put on the path."""
    with zipfile.ZipFile(archive) as content:
        content.extractall(folder)


def _download(distribution: str, version: str, folder: Path) -> Path:
    common = ("download", "--no-deps", "--no-cache-dir", "--progress-bar=off", f"--dest={folder}")
    release = f"{distribution}=={version}"
    wheels = ("--only-binary=:all:", "--python-version={}.{}".format(*sys.version_info))
    done = _pip(*common, *wheels, *(f"--platform={platform}" for platform in PLATFORMS), release)
    if done.returncode:
        # setup.py files of that time cannot do with the newest setuptools, which isolation would install
        done = _pip(*common, "--no-build-isolation", f"--no-binary={distribution}", release)
    files = list(folder.iterdir())
    if done.returncode or len(files) != 1:
        raise SourcesError(
            f"pip cannot download {release} for Python {sys.version_info[0]}.{sys.version_info[1]}:\n{_tail(done)}\n"
            "a source distribution is asked for its metadata, for which it may need: "
            f"{sys.executable} -m pip install -c constraints.txt setuptools wheel"
        )
    return files[0]


def _pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **SETUP_OPTIONS})


def _tail(done: subprocess.CompletedProcess[str]) -> str:
    return "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])


def _write(made: Path, downloaded: Path, package: str, version: str) -> None:
    """Write the zip file of a package from a wheel or a source distribution."""
    count = 0
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _files(downloaded):
            if name.parts[:1] != (package,):
                continue
            if name.suffix == ".py":
                archive.writestr(str(name), data)
                count += 1
            elif name.suffix in (".so", ".pyd"):
                archive.writestr(str(name.with_name(name.name.partition(".")[0] + EXTENSION_SUFFIXES[-1])), b"")
        metadata = f"{package}-{version}.dist-info"
        archive.writestr(f"{metadata}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        archive.writestr(f"{metadata}/top_level.txt", f"{package}\n")
    if not count:
        raise SourcesError(f"{downloaded.name} has no Python files of {package}")


def _files(downloaded: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield the Python files and compiled modules of a download, the latter without their content."""
    if downloaded.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(downloaded) as wheel:
            for member in wheel.namelist():
                name = PurePosixPath(member)
                if name.suffix in (".py", ".so", ".pyd"):
                    yield _inside(name, downloaded), wheel.read(member) if name.suffix == ".py" else b""
        return
    with tarfile.open(downloaded) as source:
        for entry in source:
            name = PurePosixPath(entry.name)
            content = source.extractfile(entry) if name.suffix == ".py" and entry.isfile() else None
            if content is not None:
                yield _inside(name, downloaded), content.read()


def _inside(name: PurePosixPath, downloaded: Path) -> PurePosixPath:
    """The path of a file as it would be installed: a source distribution has a folder around everything."""
    return name if downloaded.suffix == ".whl" else PurePosixPath(*name.parts[1:])
