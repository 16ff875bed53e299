"""``patchcore list``: plugins and patches, and plugins that cannot be loaded."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from shop_commands import Cli, add_broken_plugin, cli, only, site  # noqa: F401


class TestList:
    def test_plain_lines_in_a_pipe(self, cli: Cli) -> None:
        result = cli("list")
        assert (result.code, result.err) == (0, "")
        lines = [re.sub(r"  +", " | ", line) for line in result.lines()]
        assert lines[0] == "Plugins"
        assert "NAME | DISTRIBUTION | PATCHES | ORIGIN" in lines
        assert "shop | shop-npu 1.2 | 3 | shop_npu.plugin" in lines
        assert "shop.price | shop | yes | yes | shop.prices:price" in lines
        assert "shop.rounded | shop | no | yes | shop.prices:Till.total" in lines
        assert "shop.tax | shop | yes | requires no-such-package, no_such_package is not installed | tax:rate" in lines
        assert not re.search(r"[─│┃\x1b]", result.out)

    def test_verbose(self, cli: Cli) -> None:
        lines = cli("list", "-v").lines()
        assert any(line.endswith("prices from the cash register") for line in lines)
        assert "also called price" in lines

    def test_json(self, cli: Cli, site: Path) -> None:
        content = cli("list", "--format", "json").json
        plugin = only(content["plugins"], name="shop")
        assert plugin == {
            "name": "shop",
            "distribution": "shop-npu",
            "version": "1.2",
            "origin": "shop_npu.plugin",
            "file": str(site / "shop_npu" / "plugin.py"),
            "patches": 3,
        }
        assert only(content["patches"], name="shop.price") == {
            "name": "shop.price",
            "summary": "prices from the cash register",
            "plugin": "shop",
            "distribution": "shop-npu",
            "version": "1.2",
            "default": True,
            "fits": True,
            "reason": "",
            "requires": ["packaging>=20"],
            "targets": ["shop.prices:price"],
            "legacy_names": ["price"],
        }
        assert content["problems"] == []

    @pytest.mark.parametrize("command", ["list", "plan"])
    def test_broken_plugin_does_not_hide_the_others(self, cli: Cli, site: Path, command: str) -> None:
        add_broken_plugin(site)
        result = cli(command)
        assert result.code == 0
        assert "patchcore: plugin broken (broken-dist 0.3): load failed: ImportError: no cash register" in result.err
        assert "broken.py" in result.err
        assert "shop.price" in result.out
        content = cli(command, "--format", "json")
        assert only(content.json["problems"], plugin="broken") == {
            "plugin": "broken",
            "distribution": "broken-dist",
            "version": "0.3",
            "where": "load",
            "message": "ImportError: no cash register",
        }
        assert "no cash register" in content.err

    def test_imports_no_target(self, cli: Cli) -> None:
        cli("list")
        cli("plan")
        assert "shop" not in sys.modules

    def test_one_plugin(self, cli: Cli, site: Path) -> None:
        add_broken_plugin(site)
        result = cli("list", "--plugin", "shop", "--format", "json")
        assert [plugin["name"] for plugin in result.json["plugins"]] == ["shop"]
        assert result.err == ""

    def test_local_module(self, cli: Cli, site: Path) -> None:
        (site / "mine.py").write_text(
            "import patchcore as pc\n\n@pc.patch('shop.prices:price')\ndef mine(item): ...\n\n"
            "@pc.hookimpl\ndef register_patches():\n    return [mine]\n"
        )
        path = list(sys.path)
        lines = [re.sub(r"  +", " | ", line) for line in cli("list", "-p", "mine").lines()]
        assert "mine | (local module) | 1 | mine" in lines
        assert "mine.mine | mine | yes | yes | shop.prices:price" in lines
        assert sys.path == path

    def test_nothing_installed(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_PLUGINS", "")
        assert cli("list").out.startswith("no plugins are installed; a plugin is ")
        assert cli("plan").out == "no patches\n"
