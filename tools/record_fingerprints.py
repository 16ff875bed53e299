"""Record the fingerprints of our plugins for every supported release of the libraries they patch.

Supported is what the ``requires`` of a patch say, see docs/patches.md. Of each such release on the package index the
Python sources are fetched, see tools/release_sources.py, and ``patchcore fingerprint --no-import`` reads them in a
process of its own, which imports no library::

    python tools/record_fingerprints.py                         # everything
    python tools/record_fingerprints.py mmengine mmdet==3.3.0   # one library, one release
    python tools/record_fingerprints.py --check                 # write nothing; exit 1 where something differs
    python tools/record_fingerprints.py --list                  # the releases

A release that is newer than all that are recorded of its library is recorded only where it is named: what has changed
in it (``tools/check_newest.py``) is to be looked at first, for afterwards ``check`` has nothing to say about it.

Interrupted, it goes on where it was as far as downloads go: sources stay in the cache. What is recorded already stays,
too. Targets that sources do not show, such as functions in C, are recorded as unseen, and what was recorded with the
library imported (``patchcore fingerprint`` in a real environment) is kept.

It needs patchcore and the plugins, and a setuptools that old setup.py files can do with; ``nox -s fingerprints`` has
them.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from release_sources import SourcesError, cached_sources, newest_release, releases, unpack

from patchcore import Patcher
from patchcore.builtin.drift.drift import fingerprinted
from patchcore.builtin.drift.recorded import Recorded, file_of
from patchcore.planning.candidates import Candidate
from torch_markers.patches import APEX

#: The libraries that our plugins patch: package, and the distributions that provide it. Of a version that several have,
#: the sources must agree: what is recorded is the package.
LIBRARIES = {
    "torch": ("torch",),
    "torch_npu": ("torch_npu",),
    "torch_scatter": ("torch_scatter",),
    "mmcv": ("mmcv", "mmcv-full", "mmcv-lite"),
    "mmengine": ("mmengine",),
    "mmdet": ("mmdet",),
    "mmdet3d": ("mmdet3d",),
    "diffusers": ("diffusers",),
    "ray": ("ray",),
    "transformers": ("transformers",),
}

#: What our plugins patch and no package index has: apex is built from its repository, with those modules in C that are
#: asked for. ``patchcore fingerprint`` records it in an environment that has it.
ELSEWHERE = {module.partition(".")[0] for module in APEX}

#: Modules that a build compiles, which sources do not have: what our plugins patch in them is recorded as unseen.
COMPILED = ("mmcv._ext",)

#: Classes of the others inherit from it, and patches require it: with each of them is the newest release that is
#: recorded of it, the one that the tests have.
BASE = "torch"

DOWNLOADS = 4


class Release(NamedTuple):
    """One version of a library.

    Args:
        package: the library.
        version: of the release.
        distributions: those that have this version.
    """

    package: str
    version: str
    distributions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class Support:
    """What the patches of our plugins say about one library.

    Args:
        package: the library.
        candidates: all patches.
    """

    def __init__(self, package: str, candidates: Iterable[Candidate]) -> None:
        self.package = package
        self._patches: list[tuple[SpecifierSet, set[str]]] = []
        self._provenances = []
        for candidate in candidates:
            targets = [change.target for change in candidate.patch.changes]
            here = {str(target) for _, target in fingerprinted(candidate.patch, targets) if target.root == package}
            if here:
                wanted = [Requirement(text) for text in candidate.patch.requires]
                ranges = [one.specifier for one in wanted if one.name.replace("-", "_") == package]
                self._patches.append((SpecifierSet(",".join(map(str, ranges))), here))
                self._provenances.append(candidate.provenance)
        self.plugins = list(dict.fromkeys(provenance.plugin for provenance in self._provenances))

    def newest_recorded(self) -> str | None:
        """Return the newest version that a plugin carries fingerprints for, ``None`` where there is none."""
        files = {path: None for path in map(file_of, self._provenances) if path is not None}
        versions = [v for path in files for v in Recorded.read(path).libraries.get(self.package, ())]
        return max(versions, key=Version, default=None)

    def targets(self, version: str) -> set[str]:
        """Return the targets of the patches that are for this version.

        Of pre-releases only those count that a range names: 1.0.0rc6 for ``mmdet3d>=1.0.0rc6``.
        """
        own = Version(version)
        return {
            target
            for ranges, targets in self._patches
            if ranges.contains(own, prereleases=True) and (not own.is_prerelease or _names(ranges, own))
            for target in targets
        }


def _names(ranges: SpecifierSet, version: Version) -> bool:
    bounds = (Version(one.version) for one in ranges if not one.version.endswith(".*"))
    return any(bound.is_prerelease and bound.base_version == version.base_version for bound in bounds)


def supported(support: Support) -> list[Release]:
    """Return the supported releases of a library, the oldest first."""
    having: dict[str, list[str]] = {}
    for distribution in LIBRARIES[support.package]:
        for version in releases(distribution):
            if support.targets(version):
                having.setdefault(version, []).append(distribution)
    return [Release(support.package, version, tuple(having[version])) for version in sorted(having, key=Version)]


class Recorder:
    """Runs ``patchcore fingerprint`` with the sources of a release on the path.

    Args:
        supports: what the patches say, by library.
        base: folder with the sources of :data:`BASE`.
        check: write nothing.
    """

    def __init__(self, supports: dict[str, Support], base: Path, *, check: bool) -> None:
        self._supports = supports
        self._base = base
        self._check = check

    def record(self, release: Release, archives: Sequence[Path]) -> tuple[str, list[str]]:
        """Record one release.

        Args:
            release: of a library.
            archives: its sources from each of its distributions. The first is recorded, the others must agree.

        Returns:
            What was done, in a few words, and what is wrong, in a line each.
        """
        support = self._supports[release.package]
        wrong: list[str] = []
        said = ""
        for number, (distribution, archive) in enumerate(zip(release.distributions, archives)):
            check = self._check or number > 0
            files = self._fingerprint(support, archive, check=check)["files"]
            rows = [row for file in files for row in file["differences"]]
            failed = [row for row in rows if row["result"].startswith("failed")]
            bad = rows if check else failed
            wrong += (f"{release} ({distribution}): {row['target']}: {row['result']}" for row in bad)
            count = sum(file["libraries"].get(str(release), 0) for file in files)
            missing = len(support.targets(release.version)) - count - len(failed)
            if missing:
                wrong.append(
                    f"{release} ({distribution}): {missing} targets were not looked at: something else that their "
                    f"patches require is not met by the recorded {BASE}"
                )
            if not number:
                unseen = sum(file["unseen"].get(str(release), 0) for file in files)
                said = f"{count} targets" + (f", {unseen} unseen" if unseen else "")
                said += f", {len(rows)} differ" if rows else ""
        return said, wrong

    def _fingerprint(self, support: Support, archive: Path, *, check: bool) -> Any:
        with tempfile.TemporaryDirectory(prefix="patchcore-sources-") as folder:
            unpack(archive, Path(folder))
            stand_for_compiled(Path(folder), support.package)
            path = [folder, *([] if support.package == BASE else [str(self._base)])]
            inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
            path += (os.path.abspath(entry) for entry in inherited if entry)
            environment = {key: value for key, value in os.environ.items() if not key.startswith("PATCHCORE_")}
            environment["PYTHONPATH"] = os.pathsep.join(path)
            command = [sys.executable, "-m", "patchcore", "fingerprint", "--no-import", "--format=json"]
            command += [f"--library={support.package}", *(["--check"] if check else []), *support.plugins]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise SourcesError(f"{' '.join(command)} failed (exit {done.returncode}):\n{done.stderr}") from None


def stand_for_compiled(folder: Path, package: str) -> None:
    """Put an empty file where a build of the package has a compiled module, so that the module is known to be there."""
    for module in COMPILED:
        path = folder.joinpath(*module.split(".")).with_suffix(importlib.machinery.EXTENSION_SUFFIXES[-1])
        if module.partition(".")[0] == package and path.parent.is_dir():
            path.touch()


def chosen(names: Sequence[str], supports: dict[str, Support]) -> list[Release]:
    """Return the releases that were asked for, all that are supported when no names are given.

    Raises:
        SourcesError: there is no such library or release, or it is not supported.
    """
    found: dict[Release, None] = {}
    for name in names or list(supports):
        package, _, version = name.partition("==")
        if package not in supports:
            raise SourcesError(f"no library {package!r}; there are {', '.join(supports)}")
        listed = [release for release in supported(supports[package]) if version in ("", release.version)]
        last = supports[package].newest_recorded()
        if not version and last is not None:
            listed = [release for release in listed if Version(release.version) <= Version(last)]
        if not listed:
            raise SourcesError(f"no supported release {name}; --list {package} shows them")
        found.update(dict.fromkeys(listed))
    return list(found)


def supports_of(candidates: Sequence[Candidate]) -> dict[str, Support]:
    """Return what the patches say, by library; of those that somebody else contributes, nothing.

    Raises:
        SourcesError: our plugins patch a library that is missing in :data:`LIBRARIES`.
    """
    roots = {
        target.root: candidate
        for candidate in candidates
        for _, target in fingerprinted(candidate.patch, [change.target for change in candidate.patch.changes])
    }
    for root in sorted(set(roots) - set(LIBRARIES) - ELSEWHERE):
        raise SourcesError(
            f"{roots[root].patch.name} patches {root}, and tools/record_fingerprints.py does not know which "
            "distributions provide it: add them to LIBRARIES, or to ELSEWHERE where there are none"
        )
    return {package: Support(package, candidates) for package in LIBRARIES if package in roots}


def run(options: argparse.Namespace) -> int:
    """Record, list or check; 1 when something is wrong."""
    candidates = [c for c in Patcher.discover().collect() if _is_ours(c)]
    supports = supports_of(candidates)
    chosen_releases = chosen(options.names, supports)
    if options.list:
        for release in chosen_releases:
            print(f"{release} ({', '.join(release.distributions)})")
        return 0
    newest = supports[BASE].newest_recorded() or newest_release(BASE)
    wrong: list[str] = []
    started = time.monotonic()
    with ThreadPoolExecutor(DOWNLOADS) as pool, tempfile.TemporaryDirectory(prefix="patchcore-base-") as base:
        try:
            unpack(cached_sources(BASE, newest, BASE), Path(base))
            recorder = Recorder(supports, Path(base), check=options.check)
            fetched = [_fetch(pool, release) for release in chosen_releases]
            for number, (release, archives) in enumerate(zip(chosen_releases, fetched), 1):
                where = f"[{number}/{len(chosen_releases)}] {release}"
                try:
                    said, found = recorder.record(release, [archive.result() for archive in archives])
                except SourcesError as error:
                    said, found = "failed", [f"{release}: {error}"]
                print(f"{where}: {said} ({time.monotonic() - started:.0f} s)", flush=True)
                wrong += found
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


def _fetch(pool: ThreadPoolExecutor, release: Release) -> list[Future[Path]]:
    return [
        pool.submit(cached_sources, distribution, release.version, release.package)
        for distribution in release.distributions
    ]


def _is_ours(candidate: Candidate) -> bool:
    """Tell whether a patch is of a plugin in this checkout."""
    plugins = Path(__file__).resolve().parent.parent / "plugins"
    file = candidate.provenance.file
    return file is not None and plugins in Path(file).resolve().parents


def main() -> int:
    """Run as a script."""
    parser = argparse.ArgumentParser(description="Record fingerprints for every supported release of the libraries.")
    parser.add_argument("names", nargs="*", metavar="LIBRARY[==VERSION]", help="default: all of them")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where something differs")
    parser.add_argument("--list", action="store_true", help="show the releases, and do nothing")
    try:
        return run(parser.parse_args())
    except SourcesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: what was recorded stays, what was downloaded too; run it again", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
