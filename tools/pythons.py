"""Which Pythons the sessions of noxfile.py have: what is here, what is chosen, what nox can fetch.

An interpreter is here when its ``python3.N`` is on PATH; ``reveal_pyenv`` puts those of pyenv there.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

#: Those of the core.
CORE = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
#: Those on which the real libraries have been tried, with the versions in constraints.txt.
LIBRARIES = ("3.11", "3.12", "3.13")
#: The one that runs nox.
OWN = "{}.{}".format(*sys.version_info)


def reveal_pyenv() -> None:
    """Put the interpreters that pyenv has installed on PATH, the newest of each version in ``CORE``.

    pyenv's own commands (shims) fail for every version but the selected one, so a shim does not count as found.
    """
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    for wanted in CORE:
        found = shutil.which(f"python{wanted}")
        if found is not None and Path(found).parent.name != "shims":
            continue
        installed = [folder for folder in root.glob(f"{wanted}.*") if (folder / "bin" / f"python{wanted}").exists()]
        if installed:
            newest = max(installed, key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.name)])
            # In front of the shims; no session runs the bare "python" of the outer PATH.
            os.environ["PATH"] = os.pathsep.join([str(newest / "bin"), os.environ.get("PATH", os.defpath)])


def is_here(version: str) -> bool:
    """Return True if this Python (``"3.11"``) runs nox itself or is on PATH."""
    return version == OWN or shutil.which(f"python{version}") is not None


def of_libraries() -> list[str]:
    """Return the Pythons for the real libraries that are here, best first; one that nox has to fetch if there is none.

    The best is the one that runs nox, then the newest.
    """
    here = [version for version in reversed(LIBRARIES) if is_here(version)]
    return sorted(here, key=lambda version: version != OWN) or [LIBRARIES[-1]]


def of_the_suite() -> list[str]:
    """Return the Pythons on which ``tests`` runs what needs no libraries: of those that are here, oldest and newest."""
    here = [version for version in CORE if is_here(version)]
    return [here[0], here[-1]] if len(here) > 1 else here


def options(version: str) -> dict[str, object]:
    """Return nox's options for a session on a Python for the real libraries, which nox fetches where it can.

    nox takes from uv, or from pbs-installer (its extra ``pbs``), a build that these download (nox 2025.2.9,
    ``download_python``). Without a Python the session has no environment of its own, and runs to say so: nox alone
    would skip it.
    """
    if is_here(version):
        return {"python": version}
    if shutil.which("uv") or importlib.util.find_spec("uv"):
        return {"python": version, "venv_backend": "uv", "venv_params": ["--seed"]}  # uv's environments have no pip
    if importlib.util.find_spec("pbs_installer"):
        return {"python": version}
    return {"python": False}


def missing() -> str:
    """Return what a user reads who has none of the Pythons for the real libraries."""
    newest = LIBRARIES[-1]
    return (
        f"the real libraries need one of Python {', '.join(LIBRARIES)}; PATH and pyenv have none of them. Let nox "
        'fetch one: python3 -m pip install "nox[pbs]" (or install uv), and run this again; or install it: apt-get '
        f"install python{newest}-dev python{newest}-venv, or pyenv install {newest}. The core alone needs no "
        "libraries: nox -s core"
    )
