"""``patchcore doctor``: facts about this environment, and findings."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from shop_commands import Cli, add_broken_plugin, cli, site  # noqa: F401

from patchcore import __version__


class TestDoctor:
    def test_facts(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_ON_FAILURE", "ignore")
        monkeypatch.setenv("RANK", "2")
        result = cli("doctor", "--plugin", "shop", "--disable", "price", "--format", "json")
        assert result.code == 0
        facts = {(fact["topic"], fact["name"]): fact["value"] for fact in result.json["facts"]}
        assert facts["interpreter", "patchcore"] == __version__
        assert facts["interpreter", "rank"] == "2 (from RANK)"
        assert facts["plugin", "shop"].startswith("shop-npu 1.2: 0 of 3 patches to apply (")
        assert facts["library", "tax"] == "not installed"
        assert facts["library", "shop"] == "found, version unknown"
        assert facts["setting", "on_failure"] == "ignore (from PATCHCORE_ON_FAILURE)"
        assert facts["setting", "disable"] == "price (from --disable)"
        assert result.json["findings"] == result.json["stale_references"] == []

    def test_needed_modules(self, cli: Cli, site: Path) -> None:
        (site / "n.py").write_text(
            "import patchcore as pc\n\n@pc.hookimpl\ndef register_patches():\n"
            "    return [pc.Patch('n.p', [], needs=['nosuch_kernels', 'shop', 'shop.prices', 'json'])]\n"
        )
        result = cli("doctor", "--plugin", "shop", "-p", "n", "--format", "json")
        facts = {fact["name"]: fact["value"] for fact in result.json["facts"] if fact["topic"] == "needed"}
        assert facts["nosuch_kernels"] == "neither installed nor emulated: patches that need it are skipped"
        assert facts["shop"] == f"found at {site / 'shop' / '__init__.py'}"
        assert facts["shop.prices"] == "found"
        assert facts["json"].startswith("imported from ")
        assert "shop" not in sys.modules

    def test_findings_and_stale_references(self, cli: Cli, site: Path) -> None:
        add_broken_plugin(site)
        __import__("shop.deals")
        result = cli("doctor", "--apply")
        assert result.code == 1
        lines = [re.sub(r"  +", " | ", line) for line in result.lines()]
        assert "Stale references: they refer to the original while the patch is applied" in lines
        assert any(line.startswith("shop.price | shop.prices:price | list shop.deals:KEPT") for line in lines)
        assert "plugin | broken | load: ImportError: no cash register" in lines

    @pytest.mark.parametrize(("imports", "code"), [("", 0), ("import n_uses\n", 1)])
    def test_a_dummy_that_comes_too_late(self, cli: Cli, site: Path, imports: str, code: int) -> None:
        (site / "n_uses.py").write_text("try:\n    import n_fast.core\nexcept ImportError:\n    pass\n")
        (site / "n.py").write_text(
            f"import patchcore as pc\n{imports}\n@pc.hookimpl\ndef register_patches():\n"
            "    return [pc.Patch('n.dummy', [pc.DummyImport('n_fast.core')])]\n"
        )
        result = cli("doctor", "--plugin", "shop", "-p", "n", "--format", "json")
        assert result.code == code
        texts = [(finding["kind"], finding["subject"], finding["message"]) for finding in result.json["findings"]]
        asked = (
            "n_uses, imported before the patches are applied, asked for n_fast.core: it was missing then. Import that "
        )
        assert texts == ([("late", "n.dummy", f"{asked}later, or apply the patches earlier")] if code else [])

    def test_what_is_missing_or_a_default_takes_one_line(self, cli: Cli, site: Path) -> None:
        (site / "n.py").write_text(
            "import patchcore as pc\n\n@pc.hookimpl\ndef register_patches():\n"
            "    return [pc.Patch('n.p', [pc.Replace('nosuch_a:f', 1), pc.Replace('nosuch_b:f', 1)],"
            " needs=['nosuch_c', 'nosuch_d'])]\n"
        )
        arguments = ("doctor", "--plugin", "shop", "-p", "n")
        lines = [re.sub(r"  +", " | ", line) for line in cli(*arguments).lines()]
        (missing,) = [line for line in lines if line.startswith("library | not installed | ")]
        assert {"nosuch_a", "nosuch_b"} < set(missing.rpartition(" | ")[2].split(", "))
        nowhere = "neither installed nor emulated: patches that need it are skipped"
        assert f"needed | missing | nosuch_c, nosuch_d: {nowhere}" in lines
        (defaults,) = [line for line in lines if line.startswith("setting | at defaults | ")]
        assert "on_failure" in defaults
        assert "modules" not in defaults
        verbose = [re.sub(r"  +", " | ", line) for line in cli(*arguments, "-v").lines()]
        assert {"library | nosuch_a | not installed", f"needed | nosuch_d | {nowhere}"} < set(verbose)
        assert "setting | on_failure | warn (from default)" in verbose
