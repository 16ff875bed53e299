"""Puts compiled libraries into the wheel, where the environment names a folder of them.

``python -m fake_cann build --into FOLDER`` makes one, with a folder for each release of torch that is installed in
turn; ``nox -s release`` runs it. Without ``FAKE_CANN_PREBUILT`` the wheel has no libraries and is for any platform:
they are compiled at first use.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Environment variable: the folder of ``build --into``.
PREBUILT = "FAKE_CANN_PREBUILT"


class PrebuiltLibraries(BuildHookInterface[Any]):
    """Adds the folder ``fake_cann/prebuilt`` and the name of the platform to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Change what the wheel has, before it is built.

        Args:
            version: ``editable`` for an installation of a checkout, which gets no libraries.
            build_data: of hatchling: its ``force_include`` and ``tag`` are written.

        Raises:
            ValueError: the folder has no libraries, or this is no Linux with glibc.
        """
        folder = os.environ.get(PREBUILT)
        if version == "editable" or not folder:
            return
        if not list(Path(folder).glob("*/libopapi.so")):
            raise ValueError(f"{PREBUILT}={folder}: expected libraries of python -m fake_cann build --into, found none")
        libc, release = platform.libc_ver()
        if libc != "glibc":
            raise ValueError(f"{PREBUILT}: expected a Linux with glibc, found {libc or platform.system()}")
        # They were compiled here, so they need no newer glibc than that of this machine. They need no Python.
        build_data["tag"] = f"py3-none-manylinux_{'_'.join(release.split('.')[:2])}_{platform.machine()}"
        build_data["pure_python"] = False
        build_data["force_include"][folder] = "fake_cann/prebuilt"
