"""``patchcore plan``: verdicts in order, and who made the choices."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import re
from pathlib import Path

import pytest
from distributions import write_distribution
from shop_commands import Cli, cli, site  # noqa: F401


class TestPlan:
    def test_verdicts_in_order(self, cli: Cli) -> None:
        assert cli("plan", "--plugin", "shop").lines() == [
            "1 patch to apply, in this order",
            "1  shop.price  replace shop.prices:price",
            "",
            "2 patches not to be applied; --all lists them",
            "1 off by default; --enable NAME applies one, patchcore list shows them",
            "1 requires no-such-package, no_such_package is not installed",
        ]

    def test_all_lists_what_is_not_applied(self, cli: Cli) -> None:
        lines = [re.sub(r"  +", " | ", line) for line in cli("plan", "--plugin", "shop", "--all").lines()]
        assert lines[3:] == [
            "2 patches not to be applied",
            "shop.rounded | skipped | not in the default set; apply it with --enable shop.rounded",
            "shop.tax | skipped | requires no-such-package, no_such_package is not installed",
        ]

    def test_what_a_user_has_asked_for_is_never_only_counted(self, cli: Cli) -> None:
        lines = cli("plan", "--plugin", "shop", "--enable", "shop.tax").lines()
        assert "shop.tax  skipped  requires no-such-package, no_such_package is not installed" in lines

    def test_verbose_shows_every_change(self, cli: Cli, site: Path) -> None:
        (site / "both.py").write_text(
            "import patchcore as pc\n\ndef f(item): ...\n\n"
            "BOTH = pc.Patch('both', [pc.Replace('shop.prices:price', f), pc.Replace('shop.deals:usual', f)])\n\n"
            "@pc.hookimpl\ndef register_patches():\n    return [BOTH]\n"
        )
        options = ("plan", "--plugin", "", "-p", "both")
        assert "1  both  replace shop.prices:price (+1)" in cli(*options).lines()
        assert "replace shop.deals:usual" in cli(*options, "-v").lines()

    def test_choices_and_who_made_them(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_DISABLE", "price")
        lines = cli("plan", "--plugin", "shop", "--enable", "shop.rounded,shop.tax").lines()
        assert any("shop.price" in line and "disabled by PATCHCORE_DISABLE (price)" in line for line in lines)
        assert any("shop.rounded" in line and "wrap shop.prices:Till.total" in line for line in lines)
        assert "chosen by --enable" in lines

    def test_a_patch_without_changes(self, cli: Cli, site: Path) -> None:
        (site / "empty.py").write_text(
            "import patchcore as pc\n\n@pc.hookimpl\ndef register_patches():\n    return [pc.Patch('empty')]\n"
        )
        result = cli("plan", "--plugin", "", "-p", "empty")
        assert (result.code, result.lines()) == (0, ["1 patch to apply, in this order", "1  empty"])

    def test_json(self, cli: Cli) -> None:
        content = cli("plan", "--plugin", "shop", "--format", "json").json
        assert [(patch["name"], patch["verdict"]) for patch in content["patches"]] == [
            ("shop.price", "apply"),
            ("shop.rounded", "skipped"),
            ("shop.tax", "skipped"),
        ]
        assert content["patches"][0]["changes"] == [{"kind": "replace", "target": "shop.prices:price"}]
        assert content["settings"] == {"plugins": "--plugin"}
        content = cli("plan", "--plugin", "shop", "--disable", "shop.price", "--format", "json").json
        assert (content["patches"][0], content["notes"]) == (
            {
                "name": "shop.price",
                "verdict": "skipped",
                "reason": "disabled by --disable (shop.price)",
                "chosen_by": "--disable",
                "plugin": "shop",
                "distribution": "shop-npu",
                "version": "1.2",
                "changes": [{"kind": "replace", "target": "shop.prices:price"}],
                "remarks": [],
            },
            [],
        )

    def test_a_name_that_a_plugin_left_out_may_mean_is_a_note(self, cli: Cli, site: Path) -> None:
        write_distribution(site, "other-dist", plugins={"other": "shop_npu"})
        result = cli("plan", "--plugin", "shop", "--disable", "other.patch")
        assert result.code == 0
        assert result.lines()[-1].startswith("note: --disable ")
        assert "other.patch" in result.lines()[-1]
