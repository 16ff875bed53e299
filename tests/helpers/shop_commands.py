"""A library, a plugin installed for it, and commands run there in this process; a module imports the fixtures."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from patch_folder import Result, run_command
from terminal import read_terminal

ROOT = Path(__file__).resolve().parents[2]

SHOP = {
    "shop": "from shop.prices import price\n",
    "shop.prices": """
        def price(item):
            return 10


        class Till:
            def total(self, items):
                return sum(map(price, items))
        """,
    "shop.deals": "from shop.prices import price as usual\nKEPT = [usual]\n",
}
PLUGIN = {
    "shop_npu": "",
    "shop_npu.plugin": '''
        import patchcore as pc


        def fast_price(item):
            """The price, faster."""
            return 11


        PRICE = pc.Patch(
            "shop.price",
            [pc.Replace("shop.prices:price", fast_price)],
            summary="prices from the cash register",
            requires="packaging>=20",
            legacy_names=["price"],
            upstream="https://shop.example/1",
        )


        @pc.wrap("shop.prices:Till.total", name="shop.rounded", after=PRICE, default=False)
        def rounded(original, self, items):
            """Round the total."""
            return round(original(self, items), -1)


        TAX = pc.Patch("shop.tax", [pc.Replace("tax:rate", fast_price)], requires="no-such-package")


        @pc.hookimpl
        def register_patches():
            return [PRICE, rounded, TAX]
        ''',
}


Cli = Callable[..., Result]


@pytest.fixture
def site(make_package: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on sys.path with the library ``shop`` and the installed plugin ``shop``; settings as nobody made any."""
    folder = make_package({**SHOP, **PLUGIN})
    write_distribution(folder, "shop-npu", "1.2", plugins={"shop": "shop_npu.plugin"})
    for name in [name for name in os.environ if name.startswith("PATCHCORE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    return Path(folder)


@pytest.fixture
def cli(site: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command in this process."""
    return functools.partial(run_command, capsys)


def add_broken_plugin(site: Path) -> None:
    (site / "broken.py").write_text("def load():\n    raise ImportError('no cash register')\nload()\n")
    write_distribution(site, "broken-dist", "0.3", plugins={"broken": "broken"})


def only(rows: list[dict[str, Any]], **wanted: str) -> dict[str, Any]:
    (row,) = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return row


def on_a_terminal(site: Path, *arguments: str, **environment: str) -> str:
    """Run a command as if in a terminal, 150 columns wide unless ``COLUMNS`` is given; return what it shows."""
    import pty

    path = os.pathsep.join([str(site), str(ROOT), os.environ.get("PYTHONPATH", "")])
    unwanted = ("NO_COLOR", "FORCE_COLOR")
    inherited = {key: value for key, value in os.environ.items() if key not in unwanted}
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "patchcore", *arguments],
        env={**inherited, "COLUMNS": "150", "PYTHONPATH": path, **environment},
        cwd=site,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = read_terminal(ours)
        assert process.wait(timeout=900) == 0
    return shown
