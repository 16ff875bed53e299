"""On a terminal of 80 columns no command breaks a name, a target or a path."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution

from patchcore.cli import main

ROOT = Path(__file__).resolve().parents[2]

#: A library and a plugin whose names are so long that hardly two of them fit beside each other.
LIBRARY = """
    def price_of_one_item_in_the_basket(item):
        return 10


    class TillOfTheShop:
        def total_of_all_items(self, items):
            return 0
    """
PLUGIN = '''
    import patchcore as pc


    def price_without_asking_the_register(item):
        """The price, faster."""
        return 10


    PRICE = pc.Patch(
        "long_shop.prices.price_of_one_item",
        [pc.Replace("long_shop.prices:price_of_one_item_in_the_basket", price_without_asking_the_register)],
        summary="prices of items in the basket without a question to the register of the shop",
        upstream="https://shop.example/issues/of/the/register/number/1234567",
        remove_when="packaging>=1",
        checks=[pc.Check(lambda case: (("item",), {}))],
    )


    @pc.wrap("long_shop.prices:TillOfTheShop.total_of_all_items", name="long_shop.rounded_total_of_all_items")
    def rounded(original, self, items):
        """Round the total of all items to tens, as the register of the shop does it at the end of the day."""
        return round(original(self, items), -1)


    ABSENT = pc.Patch(
        "long_shop.taxes.rate_of_value_added_tax",
        [pc.Replace("taxes_of_the_country:rate_of_value_added_tax", price_without_asking_the_register)],
        requires="no-such-package-of-taxes>=2.1",
    )


    MISSPELT = pc.Patch(
        "long_shop.prices.price_of_no_item",
        [pc.Replace("long_shop.prices:price_of_no_item_in_the_basket", price_without_asking_the_register)],
        default=False,
    )


    @pc.hookimpl
    def register_patches():
        return [PRICE, rounded, ABSENT, MISSPELT]
    '''
PROGRAM = "from long_shop.prices import TillOfTheShop\nTillOfTheShop().total_of_all_items([])\n"

#: Of each command that prints a table, a list or facts, the arguments. The folder has reports and a lock.
COMMANDS = [
    "list",
    "list --all -v",
    "explain long_shop.prices.price_of_one_item",
    "explain long_shop.prices:TillOfTheShop.total_of_all_items",
    "explain long_shop.taxes.rate_of_value_added_tax",
    "doctor",
    "verify",
    "verify long_shop.rounded_total_of_all_items",
    "report reports --all",
    "lock",
    "lock --check --file other.lock --disable long_shop.prices.price_of_one_item",
    "check",
    "suggest .",
    "new --help",
    "run --help",
]

#: Names with a dot, colon, slash, hyphen or underline inside: targets, patches, distributions, paths, options.
NAME = re.compile(r"[\w/.:@<>=-]*\w[./:_=-]\w[\w/.:@<>=-]*")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, columns: int, command: str) -> str:
    """Return what a command shows on a terminal that wide."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", Terminal())
    try:
        code = main(command.split())
    except SystemExit as exit:
        code = int(exit.code or 0)
    assert code in (0, 1), command
    return sys.stdout.getvalue()  # type: ignore[attr-defined]


def is_for_a_shell(line: str) -> bool:
    """True for a line to copy into a shell, which only the terminal itself may break."""
    return re.search(r"\b(pip install|patchcore run|ruff format)\b", line) is not None


def test_names_are_whole(make_package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is wider than the terminal is broken by the terminal, not by the command."""
    folder = make_package({"long_shop": "", "long_shop.prices": LIBRARY, "long_shop_patches": PLUGIN})
    (folder / "program.py").write_text(PROGRAM)
    write_distribution(folder, "long-shop-patches", "1.2.3", plugins={"long_shop": "long_shop_patches"})
    for name in [name for name in os.environ if name.startswith("PATCHCORE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATCHCORE_PLUGINS", "long_shop")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))
    monkeypatch.chdir(folder)
    run = [sys.executable, "-m", "patchcore", "run", "--count", "--report-dir", "reports", "program.py"]
    subprocess.run(run, check=True, capture_output=True)
    shown(monkeypatch, 1000, "lock --file other.lock")
    for command in COMMANDS:
        wide, narrow = (shown(monkeypatch, columns, command) for columns in (1000, 80))
        names = {name for line in wide.splitlines() if not is_for_a_shell(line) for name in NAME.findall(line)}
        assert names, f"{command} shows no name, so this test shows nothing"
        together, words = re.sub(r"\s+", "", narrow), narrow.split()
        broken = [name for name in names if name in together and not any(name in word for word in words)]
        assert broken == [], command
