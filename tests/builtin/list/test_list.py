"""``patchcore list``: plugins and patches, and plugins that cannot be loaded."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from shop_commands import Cli, add_broken_plugin, cli, on_a_terminal, only, site  # noqa: F401


class TestList:
    def test_plain_lines_in_a_pipe(self, cli: Cli) -> None:
        result = cli("list")
        assert (result.code, result.err) == (0, "")
        lines = result.lines()
        assert lines[lines.index("shop  shop-npu 1.2") :][:4] == [
            "shop  shop-npu 1.2",
            "shop.price    on   prices from the cash register",
            "shop.rounded  off  Round the total.",
            "1 requires no-such-package, no_such_package is not installed",
        ]
        assert any(re.match(r"\d+ of \d+ patches fit here, \d+ on by default", line) for line in lines)
        assert not re.search(r"[─│┃\x1b]", result.out)

    def test_all_and_fits(self, cli: Cli) -> None:
        without = "shop.tax      -    requires no-such-package, no_such_package is not installed"
        assert without in cli("list", "--plugin", "shop", "--all").lines()
        fitting = cli("list", "--plugin", "shop", "--fits").lines()
        assert [line.split()[0] for line in fitting[1:3]] == ["shop.price", "shop.rounded"]
        assert fitting[-1] == "2 of 2 patches fit here, 1 on by default"
        assert not any("requires" in line for line in fitting)

    @pytest.mark.parametrize("text", ["shop.tax", "TAX:rate", "no-such"])
    def test_a_text_chooses_patches_whether_they_fit_or_not(self, cli: Cli, text: str) -> None:
        lines = cli("list", "--plugin", "shop", text).lines()
        assert [line.split()[0] for line in lines if line.startswith("shop.")] == ["shop.tax"]
        content = cli("list", "--plugin", "shop", "--format", "json", text).json
        assert [patch["name"] for patch in content["patches"]] == ["shop.tax"]

    def test_a_text_that_nothing_has(self, cli: Cli) -> None:
        expected = "no patch has 'xyz' in its name, targets or summary"
        assert cli("list", "--plugin", "shop", "xyz").lines() == [expected]

    def test_verbose(self, cli: Cli) -> None:
        lines = cli("list", "-v").lines()
        assert "shop.price  on  prices from the cash register" in lines
        assert {"shop.prices:price", "legacy names: price"} <= set(lines)

    @pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
    def test_a_terminal_breaks_no_name(self, site: Path) -> None:
        long = f"shop.{'x' * 60}"
        (site / "mine.py").write_text(
            f"import patchcore as pc\n\n@pc.patch('shop.prices:price', name='{long}', summary='{'word ' * 30}')\n"
            "def mine(item): ...\n\n@pc.hookimpl\ndef register_patches():\n    return [mine]\n"
        )
        out = on_a_terminal(site, "list", "-p", "mine", COLUMNS="80", TERM="dumb")
        (line,) = [line for line in out.splitlines() if long in line]
        assert len(line) <= 80
        assert line.endswith(" word …")
        assert line.endswith("\N{HORIZONTAL ELLIPSIS}")

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
        lines = cli("list", "-p", "mine").lines()
        assert lines[lines.index("mine  (local module)") + 1] == "mine.mine  on  shop.prices:price"
        assert sys.path == path

    def test_nothing_installed(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_PLUGINS", "")
        assert cli("list").out.startswith("no plugins are installed; a plugin is ")
        assert cli("plan").out == "no patches\n"
