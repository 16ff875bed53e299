"""``patchcore fingerprint`` records; ``check``, ``list -v`` and ``apply --strict`` tell what has changed since."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchcore.builtin.drift.recorded import Fingerprint, Recorded
from patchcore.cli import main

SHOP = {
    "shop": "",
    "shop.prices": """
        def price(item, discount=0):
            return 10


        class Till:
            def total(self, items):
                return sum(map(price, items))
        """,
}
PLUGIN = {
    "shop_npu": "",
    "shop_npu.plugin": """
        import patchcore as pc


        def fast_price(item, discount=0):
            return 11


        @pc.wrap("shop.prices:Till.total", name="shop.total", requires="shop>=1", needs="no_such_npu")
        def total(original, *args, **kwargs):
            return original(*args, **kwargs)


        @pc.hookimpl
        def register_patches():
            return [pc.Patch("shop.price", pc.Replace("shop.prices:price", fast_price)), total]
        """,
}

Cli = Callable[..., tuple[int, str, str]]


class Site:
    """A folder on ``sys.path`` with the library ``shop`` and the plugin for it."""

    def __init__(self, folder: Path, make_package: Any) -> None:
        self.folder = folder
        self.file = folder / "shop_npu" / "fingerprints.json"
        self._make_package = make_package

    def upgrade(self, version: str, old: str, new: str) -> None:
        """Install another version of the library."""
        source = SHOP["shop.prices"]
        assert old in source
        self._make_package({"shop.prices": source.replace(old, new)})
        (self.folder / "shop-1.0.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: shop\nVersion: {version}\n"
        )

    def recorded(self) -> Any:
        return Recorded.read(self.file).libraries


@pytest.fixture
def site(make_shop: Any, make_package: Any) -> Site:
    return Site(make_shop({**SHOP, **PLUGIN}), make_package)


@pytest.fixture
def cli(site: Site, capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: str) -> tuple[int, str, str]:
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop_npu"]:
            del sys.modules[name]
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_it_records_next_to_the_plugin_without_importing_the_library(site: Site, cli: Cli) -> None:
    code, out, _ = cli("fingerprint", "shop")
    assert code == 0
    assert f"{site.file}: shop 1.0 (2 targets)" in out
    targets = site.recorded()["shop"]["1.0"]
    assert list(targets) == ["shop.prices:Till.total", "shop.prices:price"]
    assert targets["shop.prices:price"].signature == "(item, discount=0)"
    assert "shop.prices" not in sys.modules


def test_another_version_is_added_and_the_first_kept(site: Site, cli: Cli) -> None:
    cli("fingerprint", "shop")
    first = site.recorded()["shop"]["1.0"]
    site.upgrade("1.1", "return 10", "return 12")
    assert cli("fingerprint")[0] == 0
    recorded = site.recorded()["shop"]
    assert list(recorded) == ["1.0", "1.1"]
    assert recorded["1.0"] == first
    assert recorded["1.1"]["shop.prices:price"] != first["shop.prices:price"]
    assert recorded["1.1"]["shop.prices:Till.total"] == first["shop.prices:Till.total"]


def test_check_of_the_file_writes_nothing(site: Site, cli: Cli) -> None:
    assert cli("fingerprint", "--check")[:2] == (0, "no plugin carries fingerprints\n")
    cli("fingerprint", "shop")
    assert cli("fingerprint", "--check")[0] == 0
    before = site.file.read_text()
    site.upgrade("1.0", "return 10", "return 12")
    code, out, _ = cli("fingerprint", "--check", "--format", "json")
    assert code == 1
    (file,) = json.loads(out)["files"]
    assert file["differences"] == [{"library": "shop 1.0", "target": "shop.prices:price", "result": "changed"}]
    assert site.file.read_text() == before


def test_a_target_that_is_not_there_is_a_failure_and_the_others_are_recorded(site: Site, cli: Cli) -> None:
    site.upgrade("1.0", "def price(", "def prices(")
    code, out, _ = cli("fingerprint", "shop")
    assert code == 1
    assert "failed: shop.prices has no price; did you mean 'prices'?" in out
    assert list(site.recorded()["shop"]["1.0"]) == ["shop.prices:Till.total"]


def test_without_imports_what_the_source_does_not_show_is_unseen(site: Site, cli: Cli) -> None:
    site.upgrade("1.0", "def price(item, discount=0):\n            return 10", "globals()['price'] = lambda item: 10")
    code, out, _ = cli("fingerprint", "--no-import", "shop")
    assert code == 0
    assert "shop 1.0 (2 targets, 1 unseen)" in out
    assert site.recorded()["shop"]["1.0"]["shop.prices:price"].source == "unseen"
    assert ["shop", "1.0", "shop.prices:price", "unseen"] in [line.split() for line in out.splitlines()]
    out = cli("check")[1]
    assert out == "no findings\ncompared with fingerprints: 1 of 2 targets (1 recorded as unseen)\n"
    assert "shop.prices" not in sys.modules


def test_a_library_that_the_patches_are_not_for_is_named(site: Site, cli: Cli) -> None:
    site.upgrade("0.9", "return 10", "return 12")
    source = PLUGIN["shop_npu.plugin"].replace('pc.Replace("shop.prices:price", fast_price)', "[], requires='shop>=1'")
    (site.folder / "shop_npu" / "plugin.py").write_text(textwrap.dedent(source))
    assert cli("check")[1].splitlines() == [
        "no findings",
        "compared with fingerprints: 0 of 0 targets",
        "not for this environment: all 2 patches (requires shop>=1, found shop 0.9)",
    ]


def test_what_was_seen_stays_seen_and_seeing_more_contradicts_nothing(site: Site, cli: Cli) -> None:
    site.upgrade("1.0", "def price(item, discount=0):\n            return 10", "globals()['price'] = lambda item: 10")
    cli("fingerprint", "--no-import", "shop")
    assert cli("fingerprint", "--check", "shop")[0] == 0
    assert cli("fingerprint", "shop")[0] == 0
    sys.modules.pop("shop.prices")
    seen = site.recorded()["shop"]["1.0"]["shop.prices:price"]
    assert seen == Fingerprint("made at run time", "(item)")
    cli("fingerprint", "--no-import", "shop")
    assert site.recorded()["shop"]["1.0"]["shop.prices:price"] == seen


def test_one_library_leaves_the_others_as_they_are(site: Site, cli: Cli) -> None:
    cli("fingerprint", "shop")
    before = site.file.read_text()
    site.upgrade("1.1", "return 10", "return 12")
    assert cli("fingerprint", "--library", "elsewhere", "shop")[0] == 0
    assert site.file.read_text() == before
    cli("fingerprint", "--library", "shop", "shop")
    assert list(site.recorded()["shop"]) == ["1.0", "1.1"]


def test_a_local_module_has_a_file_of_its_own(site: Site, cli: Cli) -> None:
    (site.folder / "deals.py").write_text(
        "import patchcore as pc\n"
        "@pc.hookimpl\n"
        "def register_patches():\n"
        "    return [pc.Patch('deals.price', pc.Replace('shop.prices:price', lambda item, discount=0: 1))]\n"
    )
    assert cli("fingerprint", "-p", "deals", "deals")[0] == 0
    content = Recorded.read(site.folder / "deals.fingerprints.json")
    assert list(content.libraries["shop"]["1.0"]) == ["shop.prices:price"]
    sys.modules.pop("deals")


DIFFERENCE = """\
--- shop 1.0
+++ shop 1.1
@@ -1,2 +1,2 @@
 def price(item, discount=0):
-    return 10
+    return 12"""


class TestUpgrade:
    @pytest.fixture(autouse=True)
    def recorded(self, site: Site, cli: Cli) -> None:
        cli("fingerprint", "shop")

    def test_check_names_exactly_what_has_changed(self, site: Site, cli: Cli) -> None:
        assert cli("check")[:2] == (0, "no findings\ncompared with fingerprints: 2 of 2 targets\n")
        site.upgrade("1.1", "(item, discount=0)", "(item, percent=0)")
        code, out, _ = cli("check", "--format", "json")
        assert code == 1
        message = (
            "shop.prices:price: signature changed since shop 1.0: (item, discount=0) -> (item, percent=0); "
            "fast_price(item, discount=0) does not accept every call: got an unexpected keyword argument 'percent'; "
            "nobody in shop passes percent"
        )
        assert json.loads(out)["findings"] == [{"kind": "signature", "subject": "shop.price", "message": message}]

    def test_check_shows_the_difference_and_the_next_step(self, site: Site, cli: Cli) -> None:
        site.upgrade("1.1", "return 10", "return 12")
        out = cli("check")[1]
        assert f"\nshop.prices:price (shop.price)\n{textwrap.indent(DIFFERENCE, '  ')}\n" in out
        assert "\nnext: adapt the patch and run patchcore fingerprint shop\n" in out
        content = json.loads(cli("check", "--format", "json")[1])
        told = {"subject": "shop.price", "target": "shop.prices:price", "difference": DIFFERENCE}
        assert content["differences"] == [told]
        assert content["next"] == ["Adapt the patch and run patchcore fingerprint shop"]

    def test_sources_are_kept_of_all_versions(self, site: Site, cli: Cli) -> None:
        (old,) = {
            one.source for one in site.recorded()["shop"]["1.0"].values() if one.signature == "(item, discount=0)"
        }
        assert "return 10" in Recorded.read(site.file).source(old)
        site.upgrade("1.1", "return 10", "return 12")
        cli("fingerprint", "shop")
        (new,) = {
            one.source for one in site.recorded()["shop"]["1.1"].values() if one.signature == "(item, discount=0)"
        }
        assert "return 10" in Recorded.read(site.file).source(old)
        assert "return 12" in Recorded.read(site.file).source(new)

    def test_without_a_source_drift_is_found_all_the_same(self, site: Site, cli: Cli) -> None:
        content = json.loads(site.file.read_text())
        for sources in ({}, dict.fromkeys(content["sources"], "no base64")):
            site.file.write_text(json.dumps({**content, "sources": sources}))
            site.upgrade("1.1", "return 10", "return 12")
            code, out, _ = cli("check")
            assert code == 1
            assert "shop.prices:price: body changed since shop 1.0" in out
            assert "---" not in out

    def test_the_gravest_finding_comes_first_and_ci_chooses_what_fails(self, site: Site, cli: Cli) -> None:
        site.upgrade("1.1", "return sum(map(price, items))\n", "return 0\n")
        (site.folder / "shop" / "prices.py").write_text(
            (site.folder / "shop" / "prices.py").read_text().replace("def price(", "def prices(")
        )
        code, out, _ = cli("check", "--format", "json")
        assert (code, [finding["kind"] for finding in json.loads(out)["findings"]]) == (1, ["gone", "body"])
        assert cli("check", "--exit-on", "signature,copy")[0] == 0
        assert cli("check", "--exit-on", "signature,gone")[0] == 1
        with pytest.raises(SystemExit, match="2"):
            cli("check", "--exit-on", "signatur")

    def test_a_module_of_a_target_in_dots_is_gone(self, site: Site, cli: Cli) -> None:
        plugin = site.folder / "shop_npu" / "plugin.py"
        plugin.write_text(plugin.read_text().replace("shop.prices:price", "shop.prices.price"))
        assert cli("check")[0] == 0
        site.upgrade("1.1", "return 10", "return 10")
        (site.folder / "shop" / "prices.py").unlink()
        importlib.invalidate_caches()
        code, out, _ = cli("check")
        assert code == 1
        assert "shop.prices:price: gone since shop 1.0: there is no module shop.prices" in out

    def test_list_has_a_remark(self, site: Site, cli: Cli) -> None:
        assert "recorded" not in cli("list", "-v")[1]
        site.upgrade("1.1", "return 10", "return 12")
        code, out, _ = cli("list", "-v")
        assert code == 0
        assert "shop.prices:price: body changed since shop 1.0" in out
        (drift,) = json.loads(cli("list", "-v", "--format", "json")[1])["patches"][0]["drift"]
        assert drift == {
            "target": "shop.prices:price",
            "status": "body changed",
            "library": "shop",
            "version": "1.1",
            "recorded": "1.0",
            "detail": "",
            "difference": DIFFERENCE,
            "reason": "",
            "notes": [],
        }


def test_a_name_that_means_nothing_is_a_usage_error(site: Site, cli: Cli) -> None:
    code, _, err = cli("fingerprint", "shopp")
    assert code == 2
    assert "did you mean 'shop'?" in err
