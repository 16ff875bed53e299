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
        lines = [re.sub(r"  +", " | ", line) for line in cli("plan", "--plugin", "shop").lines()]
        assert lines == [
            "Plan",
            "# | PATCH | VERDICT | CHANGES OR REASON",
            "1 | shop.price | apply | replace shop.prices:price",
            "2 | shop.rounded | skipped | not in the default set; apply it with --enable shop.rounded",
            "3 | shop.tax | skipped | requires no-such-package, no_such_package is not installed",
        ]

    def test_choices_and_who_made_them(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_DISABLE", "price")
        lines = cli("plan", "--plugin", "shop", "--enable", "shop.rounded,shop.tax").lines()
        assert any("shop.price" in line and "disabled by PATCHCORE_DISABLE (price)" in line for line in lines)
        assert any("shop.rounded" in line and "wrap shop.prices:Till.total" in line for line in lines)
        assert "chosen by --enable" in lines

    def test_json(self, cli: Cli) -> None:
        content = cli("plan", "--plugin", "shop", "--format", "json").json
        assert [(patch["name"], patch["verdict"]) for patch in content["patches"]] == [
            ("shop.price", "apply"),
            ("shop.rounded", "skipped"),
            ("shop.tax", "skipped"),
        ]
        assert content["patches"][0]["changes"] == [{"kind": "replace", "target": "shop.prices:price"}]
        assert content["settings"] == {"plugins": "--plugin"}

    def test_a_name_that_a_plugin_left_out_may_mean_is_a_note(self, cli: Cli, site: Path) -> None:
        write_distribution(site, "other-dist", plugins={"other": "shop_npu"})
        result = cli("plan", "--plugin", "shop", "--disable", "other.patch")
        assert result.code == 0
        assert result.lines()[-1].startswith("note: --disable ")
        assert "other.patch" in result.lines()[-1]
