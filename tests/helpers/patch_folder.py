"""A folder with a patch module, as the current directory, and the commands run there in this process."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from patchcore.cli import main

#: The library that the patches are for.
SHOP = "".join(f"def {name}():\n    return False\n\n\n" for name in ("price", "label", "sale", "refund"))

#: Each patch makes one of its functions return True.
PATCHES = """
import patchcore as pc


def new():
    return True


PATCHES = [
    pc.Patch(f"shop.{name}", [pc.Replace(f"shop:{name}", new)])
    for name in ("price", "label", "sale", "refund")
]


@pc.hookimpl
def register_patches():
    return PATCHES
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        content = json.loads(self.out)
        assert content["schema_version"] == 1
        return content

    def lines(self) -> list[str]:
        return [line.strip() for line in self.out.splitlines()]

    def rows(self) -> list[list[str]]:
        """Return the cells of each line."""
        return [re.split(r"  +", line) for line in self.lines()]


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> Result:
    """Run a command of patchcore in this process."""
    capsys.readouterr()
    try:
        code = main(arguments)
    except SystemExit as exit:
        code = int(exit.code or 0)
    return Result(code, *capsys.readouterr())


class PatchFolder:
    """The library ``shop`` and the patch module ``deals``, which PATCHCORE_MODULES names; no plugins.

    Args:
        make_package, monkeypatch, capsys: the fixtures.
    """

    def __init__(
        self,
        make_package: Callable[[dict[str, str]], Path],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.folder = make_package({"shop": SHOP, "deals": PATCHES})
        for name in [name for name in os.environ if name.startswith("PATCHCORE_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PATCHCORE_PLUGINS", "")
        monkeypatch.setenv("PATCHCORE_MODULES", "deals")
        monkeypatch.chdir(self.folder)
        self._make_package = make_package
        self._capsys = capsys

    def write(self, **files: str) -> None:
        """Write Python files, by name without ``.py``; what was imported of them is forgotten after the test."""
        self._make_package(files)

    def replace(self, old: str, new: str) -> None:
        """Change the text of the patch module."""
        path = self.folder / "deals.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def run(self, *arguments: str) -> Result:
        """Run a command of patchcore in this process."""
        return run_command(self._capsys, *arguments)
