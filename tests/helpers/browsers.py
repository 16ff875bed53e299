"""The browser of ``nox -s browser``: the one that is installed, else the one that ``playwright install`` has brought.

It imports nothing but the standard library: noxfile.py reads it, too.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

__all__ = ["MISSING", "OPTIONS", "find_browser", "must_be_there"]

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

MISSING = (
    f"no browser: none of {', '.join(PROGRAMS)} is on PATH, and playwright install has not brought one; "
    "install one (apt-get install chromium, or python -m playwright install chromium)"
)

#: Command-line options of the browser. None of its own services is to ask anything of the network.
OPTIONS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
]
if hasattr(os, "geteuid") and os.geteuid() == 0:
    OPTIONS.append("--no-sandbox")  # Chromium refuses to run as root with its sandbox


def find_browser() -> Optional[str]:
    """Return the path of a browser, ``None`` if there is none."""
    installed = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return installed or next((str(path) for path in _of_playwright()), None)


def must_be_there() -> bool:
    """Return True if a missing browser is a failure: ``$PATCHCORE_BROWSER`` is ``required``, as in .ci/run."""
    return os.environ.get("PATCHCORE_BROWSER") == "required"


def _of_playwright() -> Iterator[Path]:
    """Yield the browsers in Playwright's folder, the newest first."""
    caches = {"darwin": "Library/Caches", "win32": "AppData/Local"}
    cache = Path.home() / caches.get(sys.platform, ".cache") / "ms-playwright"
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or cache)
    for build in sorted(folder.glob("chromium-*"), key=lambda path: (len(path.name), path.name), reverse=True):
        for program in ("chrome", "Chromium", "chrome.exe"):
            yield from (path for path in build.rglob(program) if path.is_file())
