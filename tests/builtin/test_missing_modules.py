"""Commands that meet a missing module print what plugins know of it: the hook ``advise``, called with ``"import"``."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from distributions import write_distribution
from shop_commands import Cli, cli, site  # noqa: F401

ADVISER = """
import patchcore as pc

@pc.hookimpl
def advise(name, command):
    return f"ask the shop for {name}" if (command, name.partition(".")[0]) == ("import", "tills") else None
"""
ADVICE = "no module named 'tills': ask the shop for tills"
#: Patches that need a module when they are made, or applied, or verified.
PATCHES = """
import patchcore as pc

def case(generator, size):
    import tills

LABEL = pc.Patch(
    "shop.label", [pc.Replace("labels:label", "tills:label")], checks=[pc.Check(case)]
)

@pc.hookimpl
def register_patches():
    return [LABEL]
"""


@pytest.fixture(autouse=True)
def adviser(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"adviser.py": ADVISER, "own.py": PATCHES, "labels.py": "def label(): ...\n", "broken.py": "import tills\n"}
    for name, text in files.items():
        (site / name).write_text(textwrap.dedent(text))
    write_distribution(site, "adviser", plugins={"adviser": "adviser"})
    monkeypatch.setenv("PATCHCORE_PLUGINS", "adviser")


@pytest.mark.parametrize("command", ["check", "list", "verify", "explain"])
def test_a_patch_module_that_imports_it(cli: Cli, command: str) -> None:
    result = cli(command, "-p", "broken", *(["shop.label"] if command == "explain" else []))
    assert result.code == 1
    assert "cannot be loaded: ModuleNotFoundError: No module named 'tills'" in result.err
    assert result.err.endswith(f"\n    {ADVICE}\n")


def test_an_installed_plugin_that_imports_it(cli: Cli, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_distribution(site, "broken", plugins={"broken": "broken"})
    monkeypatch.setenv("PATCHCORE_PLUGINS", "adviser,broken")
    assert cli("list").err.endswith(f"\npatchcore: {ADVICE}\n")
    assert cli("check").err == f"patchcore: {ADVICE}\n"


def test_a_patch_that_needs_it(cli: Cli) -> None:
    result = cli("check", "--apply", "-p", "own")
    assert (result.code, result.err) == (1, f"patchcore: {ADVICE}\n")
    assert cli("explain", "-p", "own", "shop.label").err == f"patchcore: {ADVICE}\n"


def test_a_check_that_needs_it(cli: Cli) -> None:
    result = cli("verify", "-p", "own", "shop.label")
    assert result.code == 1
    assert result.err.endswith(f"patchcore: {ADVICE}\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "tills:open",
            "the module tills is not installed, so there is nothing to explain in tills; ask the shop for tills",
        ),
        ("tills.open", f"no patch, legacy name, plugin or target is called 'tills.open'; {ADVICE}"),
        ("safes.open", "no patch, legacy name, plugin or target is called 'safes.open'"),
        ("safes:open", "the module safes is not installed, so there is nothing to explain in safes"),
    ],
)
def test_a_target_in_it(cli: Cli, name: str, message: str) -> None:
    result = cli("explain", name)
    assert (result.code, result.err) == (2, f"patchcore: {message}\n")


def test_nothing_is_printed_of_a_module_that_is_there(cli: Cli, site: Path) -> None:
    (site / "tills.py").write_text("raise ImportError(\"No module named 'tills'\")\n")
    assert ADVICE not in cli("check", "-p", "broken").err
