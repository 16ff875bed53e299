"""Reports of the processes of a run, written as they write them, for tests of those who read them."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import patchcore as pc
from patchcore.builtin.run.process_report import ProcessReport
from patchcore.builtin.run.session import Session
from patchcore.planning.provenance import Provenance
from patchcore.plugins import Plugins

SHOP = {"shop": "def price(): return 'price'\ndef label(): return 'label'\n"}


def new() -> str:
    return "new"


PRICE = pc.Patch("shop.price", [pc.Replace("shop:price", new)])
LABEL = pc.Patch("shop.label", [pc.Replace("shop:label", new)])


def patcher(*patches: pc.Patch, version: str = "1.0", **named: Any) -> pc.Patcher:
    """Return a Patcher with one plugin, ``shop-npu``, that contributes ``patches``."""
    module = ModuleType("shop_plugin")
    module.register_patches = pc.hookimpl(lambda: patches, specname="register_patches")
    plugins = Plugins(discover=False)
    plugins.load([(Provenance("shop", "shop-npu", version, "shop_plugin"), lambda: module)])
    assert not plugins.problems
    return pc.Patcher(plugins=plugins, **named)


class Reports:
    """A report directory.

    Args:
        folder: it; made when there is something to write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pid = 100

    def write(
        self,
        patcher: pc.Patcher,
        rank: int = 0,
        *,
        role: str = "main",
        run: str = "r1",
        finished: bool = True,
        **view: Any,
    ) -> Path:
        """Write the report of a process that has applied ``patcher``, with a process id of its own.

        Args:
            patcher: not applied.
            rank, role, run, finished: of the process.
            view: further keys of the report, in the place of what they would be.
        """
        self._pid += 1
        patcher.settings = patcher.settings._replace(values={"report_dir": str(self.folder)}, on_failure="ignore")
        report = ProcessReport(Session(run, 1, patcher.settings), patcher, role)
        before = set(self.files())
        with patcher:
            report.write(finished=finished)
        (written,) = set(self.files()) - before
        content = json.loads(written.read_text())
        content["environment"].update(
            {"rank": rank, "pid": self._pid, "host": "box", "program": "train.py", "name": "MainProcess"}
        )
        content.update({"identity": "", "machine": "", **view})
        path = written.with_name(f"report-{rank}-{self._pid}-abcdef.json")
        written.unlink()
        path.write_text(json.dumps(content))
        return path

    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.exists() else []
