"""``patchcore list``: plugins, the verdict on each patch, in order, and why; and plugins that cannot be loaded."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from distributions import write_distribution
from shop_commands import Cli, add_broken_plugin, cli, on_a_terminal, only, site  # noqa: F401

#: A module with one patch that makes two changes.
BOTH = """
import patchcore as pc

def f(item): ...

BOTH = pc.Patch("both", [pc.Replace("shop.prices:price", f), pc.Replace("shop.deals:usual", f)])

@pc.hookimpl
def register_patches():
    return [BOTH]
"""


class TestVerdicts:
    def test_plain_lines_in_a_pipe(self, cli: Cli) -> None:
        result = cli("list")
        assert (result.code, result.err) == (0, "")
        lines = [re.sub(r"  +", " | ", line) for line in result.lines()]
        at = lines.index("shop | shop-npu 1.2")
        assert re.fullmatch(r"\d+ \| shop.price \| apply \| prices from the cash register", lines[at + 1])
        assert lines[at + 2 : at + 4] == [
            "shop.rounded | off | Round the total.",
            "1 requires no-such-package, no_such_package is not installed",
        ]
        assert not re.search(r"[─│┃\x1b]", result.out)

    def test_last_line_counts_verdicts(self, cli: Cli) -> None:
        assert cli("list", "--plugin", "shop").lines()[-1] == (
            "1 of 3 patches to apply, 1 off, 1 skipped; --all shows each"
        )
        assert cli("list", "--plugin", "shop", "--all").lines()[-1] == "1 of 3 patches to apply, 1 off, 1 skipped"

    def test_all_shows_why_the_rest_is_skipped(self, cli: Cli) -> None:
        lines = cli("list", "--plugin", "shop", "--all").lines()
        assert "shop.tax      skipped  requires no-such-package, no_such_package is not installed" in lines

    def test_a_patch_that_is_off_and_could_not_be_applied_is_counted_by_what_it_needs(
        self, cli: Cli, site: Path
    ) -> None:
        text = BOTH.replace('usual", f)]', 'usual", f)], default=False, needs="no.such"').replace("f)])", "f)])")
        (site / "both.py").write_text(text)
        needs = "needs module no.such, which is neither installed nor emulated here"
        assert f"1 {needs}" in cli("list", "--plugin", "", "-p", "both").lines()
        assert f"both  off  {needs}" in cli("list", "--plugin", "", "-p", "both", "--all").lines()

    def test_what_a_user_has_asked_for_is_never_only_counted(self, cli: Cli) -> None:
        lines = cli("list", "--plugin", "shop", "--enable", "shop.tax").lines()
        tax = "shop.tax      skipped  requires no-such-package, no_such_package is not installed"
        assert tax in [line.strip() for line in lines]

    def test_choices_and_who_made_them(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_DISABLE", "price")
        lines = cli("list", "--plugin", "shop", "--enable", "shop.rounded", "-v").lines()
        assert any("shop.price" in line and "disabled by PATCHCORE_DISABLE (price)" in line for line in lines)
        assert {"1  shop.rounded  apply  Round the total.", "chosen by --enable"} <= set(lines)

    def test_numbers_are_the_order_of_the_plan(self, cli: Cli, site: Path) -> None:
        (site / "both.py").write_text(BOTH.replace("f)])", 'f)], priority=-1, before=["shop.price"])'))
        patches = cli("list", "-p", "both", "--plugin", "shop", "--format", "json").json["patches"]
        assert {p["name"]: p["order"] for p in patches} == {
            "both": 1,
            "shop.price": 2,
            "shop.rounded": None,
            "shop.tax": None,
        }
        lines = cli("list", "-p", "both", "--plugin", "shop").lines()
        assert [line.split()[:2] for line in lines if " apply " in line] == [["2", "shop.price"], ["1", "both"]]

    def test_a_name_that_a_plugin_left_out_may_mean_is_a_note(self, cli: Cli, site: Path) -> None:
        write_distribution(site, "other-dist", plugins={"other": "shop_npu"})
        result = cli("list", "--plugin", "shop", "--disable", "other.patch")
        assert result.code == 0
        assert result.lines()[-1].startswith("note: --disable ")
        assert "other.patch" in result.lines()[-1]


class TestText:
    @pytest.mark.parametrize("text", ["shop.tax", "TAX:rate", "no-such"])
    def test_chooses_patches_whatever_their_verdict(self, cli: Cli, text: str) -> None:
        lines = cli("list", "--plugin", "shop", text).lines()
        assert [line.split()[0] for line in lines if line.startswith("shop.")] == ["shop.tax"]
        content = cli("list", "--plugin", "shop", "--format", "json", text).json
        assert [patch["name"] for patch in content["patches"]] == ["shop.tax"]

    def test_that_no_patch_has(self, cli: Cli) -> None:
        expected = "no patch has 'xyz' in its name, targets or summary"
        assert cli("list", "--plugin", "shop", "xyz").lines() == [expected]


class TestChanges:
    def test_verbose_shows_each(self, cli: Cli, site: Path) -> None:
        (site / "both.py").write_text(BOTH)
        options = ("list", "--plugin", "", "-p", "both")
        assert "1  both  apply  replace shop.prices:price (+1)" in cli(*options).lines()
        assert "replace shop.deals:usual" in cli(*options, "-v").lines()


class TestTerminal:
    @pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
    def test_shows_a_reason_to_its_end(self, site: Path) -> None:
        (site / "both.py").write_text(BOTH)
        out = on_a_terminal(site, "list", "--plugin", "shop", "-p", "both", COLUMNS="80", TERM="dumb")
        assert "declare after=['both'] in shop.price" in " ".join(out.split()), out
        assert max(map(len, out.splitlines())) <= 80


class TestJson:
    def test_plugins_and_patches(self, cli: Cli, site: Path) -> None:
        content = cli("list", "--plugin", "shop", "--format", "json").json
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
            "verdict": "apply",
            "reason": "",
            "unmet": "",
            "order": 1,
            "chosen_by": None,
            "default": True,
            "plugin": "shop",
            "distribution": "shop-npu",
            "version": "1.2",
            "requires": ["packaging>=20"],
            "legacy_names": ["price"],
            "changes": [
                {"kind": "replace", "target": "shop.prices:price", "text": "replace shop.prices:price"},
            ],
        }
        assert (content["settings"], content["notes"], content["problems"]) == ({"plugins": "--plugin"}, [], [])


class TestPlugins:
    def test_a_broken_one_does_not_hide_the_others(self, cli: Cli, site: Path) -> None:
        add_broken_plugin(site)
        result = cli("list")
        assert result.code == 0
        assert "patchcore: plugin broken (broken-dist 0.3): load failed: ImportError: no cash register" in result.err
        assert "broken.py" in result.err
        assert "shop.price" in result.out
        content = cli("list", "--format", "json")
        assert only(content.json["problems"], plugin="broken") == {
            "plugin": "broken",
            "distribution": "broken-dist",
            "version": "0.3",
            "where": "load",
            "message": "ImportError: no cash register",
        }
        assert "no cash register" in content.err

    def test_imports_no_target(self, cli: Cli) -> None:
        cli("list", "-v")
        assert "shop" not in sys.modules

    def test_local_module(self, cli: Cli, site: Path) -> None:
        (site / "mine.py").write_text(
            "import patchcore as pc\n\n@pc.patch('shop.prices:Till.total')\ndef mine(self, items): ...\n\n"
            "@pc.hookimpl\ndef register_patches():\n    return [mine]\n"
        )
        path = list(sys.path)
        lines = cli("list", "--plugin", "", "-p", "mine").lines()
        assert lines[lines.index("mine  (local module)") + 1] == "1  mine.mine  apply  replace shop.prices:Till.total"
        assert sys.path == path

    def test_none_chosen(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATCHCORE_PLUGINS", "")
        assert cli("list").out.startswith("the setting plugins (PATCHCORE_PLUGINS) leaves out every installed plugin: ")

    def test_none_installed(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("patchcore.plugins._look_for_plugins", lambda: {"patchcore_support": ()})
        assert cli("list").out.startswith("no plugins are installed; a plugin is ")
