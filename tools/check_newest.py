"""Print which targets of our plugins have changed in the newest releases of the libraries they patch.

Gets the Python sources of the newest release of each library on the package index, see tools/release_sources.py, and
runs ``patchcore check`` with them on the path. Nothing is compiled, installed or imported. It compares with the
fingerprints that the plugins carry, so it has something to say once a library has a release that is newer than these::

    python tools/check_newest.py            # what nox -s drift runs; exit 1 where something has changed

A release that pip cannot have here, because of a constraint for example, is passed over for the one before it. A
library without any is named in the last line.

A release in which targets have changed is looked at by people, then recorded: ``tools/record_fingerprints.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from packaging.version import Version
from record_fingerprints import LIBRARIES, stand_for_compiled
from release_sources import SourcesError, cached_sources, releases, unpack

#: How many releases are tried.
TRIED = 3


def newest_sources(folder: Path) -> list[str]:
    """Put the newest release of each library that can be had into a folder; return the libraries without any."""
    missing = []
    for package, distributions in LIBRARIES.items():
        stable = [version for version in releases(distributions[0]) if not Version(version).is_prerelease]
        for version in sorted(stable, key=Version, reverse=True)[:TRIED]:
            try:
                unpack(cached_sources(distributions[0], version, package), folder)
            except SourcesError as error:
                print(f"error: {package} {version}: {error}", file=sys.stderr)
            else:
                print(f"{package} {version}", flush=True)
                stand_for_compiled(folder, package)
                break
        else:
            missing.append(package)
    return missing


def patchcore(folder: Path, *arguments: str) -> Any:
    """Run a command of patchcore with these sources on the path; return its JSON.

    Raises:
        SourcesError: it failed.
    """
    inherited = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PATCHCORE_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *inherited])
    command = [sys.executable, "-m", "patchcore", *arguments, "--format=json"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise SourcesError(f"{' '.join(command)} failed (exit {done.returncode}):\n{done.stderr}") from None


def main() -> int:
    """Run as a script; 1 when a target has changed, or no library can be had."""
    try:
        with tempfile.TemporaryDirectory(prefix="patchcore-newest-") as folder:
            missing = newest_sources(Path(folder))
            findings = patchcore(Path(folder), "check")["findings"]
            patches = patchcore(Path(folder), "list")["patches"]
    except SourcesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for patch in patches:
        if patch["reason"].startswith("requires"):
            print(f"not for these releases: {patch['name']}: {patch['reason']}")
    for finding in findings:
        print(f"{finding['kind']}: {finding['subject']}: {finding['message']}")
    not_checked = f"; not checked: {', '.join(missing)}" if missing else ""
    print(f"{len(findings) or 'no'} findings{not_checked}")
    return 1 if findings or len(missing) == len(LIBRARIES) else 0


if __name__ == "__main__":
    sys.exit(main())
