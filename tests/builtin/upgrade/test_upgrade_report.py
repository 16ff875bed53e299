"""``patchcore upgrade-report``: what an upgrade would do to patches, from two wheels that nobody has installed."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution

from patchcore.cli import main

OLD = """
    def price(item, discount=0):
        item = list(item)
        total = sum(item)
        if discount:
            total = total - discount
        return total


    def fee(items):
        return 1


    def vat(items):
        return 2


    class Till:
        def total(self, items):
            return fee(items)
    """
PLUGIN = """
    import patchcore as pc


    @pc.patch("shop.prices:price", name="shop.copied")
    def price(item, discount=0):
        item = list(item)
        total = fast_sum(item)
        if discount:
            total = total - discount
        return total


    def fast_sum(item):
        return 0


    def changed(*args, **kwargs):
        return 0


    @pc.hookimpl
    def register_patches():
        return [
            price,
            pc.Patch("shop.fee", pc.Replace("shop.prices.fee", changed), requires="shop>=1"),
            pc.Patch("shop.vat", pc.Replace("shop.prices:vat", lambda items: 0), requires="shop<2"),
            pc.Patch("shop.next", pc.Replace("shop.prices:next_fee", changed), requires="shop>=2"),
            pc.Patch("shop.past", pc.Replace("shop.prices:past", changed), requires="shop<1"),
            pc.Patch("shop.never", pc.Replace("shop.prices:never", changed)),
        ]
    """


@pytest.fixture
def run(
    make_package: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run the command for a new release whose source differs from the old one; the library is not installed."""
    folder = make_package({"shop_npu": "", "shop_npu.plugin": PLUGIN})
    write_distribution(folder, "shop-npu", "0.1", plugins={"shop": "shop_npu.plugin"})
    for name in [name for name in os.environ if name.startswith("PATCHCORE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATCHCORE_PLUGINS", "shop")
    monkeypatch.chdir(folder)

    def call(new: str, *options: str, version: str = "1.1") -> tuple[int, str]:
        wheels = []
        for number, text in (("1.0", OLD), (version, new)):
            wheels.append(str(tmp_path / f"shop-{number}-py3-none-any.whl"))
            with zipfile.ZipFile(wheels[-1], "w") as wheel:
                wheel.writestr("shop/__init__.py", "raise ImportError('executed')\n")
                wheel.writestr("shop/prices.py", textwrap.dedent(text))
        code = main(["upgrade-report", *wheels, *options])
        return code, capsys.readouterr().out

    return call


def kinds(out: str) -> dict[str, str]:
    return {each["subject"]: each["kind"] for each in json.loads(out)["findings"]}


def test_the_same_sources_have_no_findings(run: Callable[..., tuple[int, str]]) -> None:
    code, out = run(OLD)
    assert code == 0
    assert out.splitlines() == [
        "shop 1.0 -> shop 1.1: 4 patches",
        "no findings",
        "compared with fingerprints: 3 of 4 targets (1 not in shop 1.0)",
        "for neither release: 2 patches",
    ]
    assert "shop" not in sys.modules


def test_findings_are_those_of_check(run: Callable[..., tuple[int, str]]) -> None:
    new = OLD.replace("if discount:", "if discount > 0:").replace("def fee(items)", "def fees(items)")
    code, out = run(new, "--format", "json")
    assert code == 1
    assert kinds(out) == {"shop.copied": "copy", "shop.fee": "gone"}
    messages = [each["message"] for each in json.loads(out)["findings"]]
    assert messages == [
        "shop.prices:fee: gone since shop 1.0: shop.prices has no fee; did you mean 'fees'?",
        "shop.prices:price: copy of price() of shop 1.0; shop 1.1 changed 2 lines since, your copy has 0 of them",
    ]
    assert "+      if discount > 0:" in run(new, "--diff")[1]
    assert run(new, "--exit-on", "body")[0] == 0


def test_a_patch_that_is_for_one_of_the_releases_only(run: Callable[..., tuple[int, str]]) -> None:
    code, out = run(OLD, version="2.0")
    assert code == 1
    assert "requires  shop.vat  not for shop 2.0: requires shop<2, found shop 2.0" in out
    assert "\nnot for shop 1.0, but for shop 2.0: shop.next\n" in out
    assert run(OLD, "--exit-on", "gone", version="2.0")[0] == 0


def test_the_recorded_releases_of_a_plugin_are_compared_too(run: Callable[..., tuple[int, str]]) -> None:
    """A newer release that the plugin has recorded hides no change."""
    new = OLD.replace("if discount:", "if discount > 0:")
    recorded = {
        "schema_version": 1,
        "libraries": {
            "shop": {
                "versions": ["0.9", "1.1"],
                "targets": {"shop.prices:fee": {"0.9": {"source": "0" * 16}, "1.1": {"source": "0" * 16}}},
            }
        },
    }
    file = Path("shop_npu/fingerprints.json")
    file.write_text(json.dumps(recorded))
    assert kinds(run(new, "--format", "json")[1]) == {"shop.copied": "copy"}
    assert json.loads(file.read_text()) == recorded


def test_two_libraries_are_refused(
    run: Callable[..., tuple[int, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(OLD)
    other = tmp_path / "till-1.0-py3-none-any.whl"
    with zipfile.ZipFile(other, "w") as wheel:
        wheel.writestr("till/__init__.py", "")
    assert main(["upgrade-report", str(tmp_path / "shop-1.0-py3-none-any.whl"), str(other)]) == 2
    assert "shop 1.0 has the packages shop, till 1.0 has till" in capsys.readouterr().err


def test_findings_that_the_old_release_has_too_are_folded(
    run: Callable[..., tuple[int, str]], make_package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replacement that does not accept the calls of the old release is no news; with another signature it is."""
    text = """
        import patchcore as pc


        @pc.patch("shop.prices:price", name="shop.short")
        def price(item):
            return 0


        @pc.hookimpl
        def register_patches():
            return [price]
        """
    folder = make_package({"short_npu": "", "short_npu.plugin": text})
    write_distribution(folder, "short-npu", "0.1", plugins={"short": "short_npu.plugin"})
    monkeypatch.setenv("PATCHCORE_PLUGINS", "short")
    code, out = run(OLD)
    assert code == 0, out
    assert "no findings" in out
    assert "1 finding with shop 1.0 too (--all shows them): signature shop.short" in out
    code, out = run(OLD, "--format", "json")
    assert [each["kind"] for each in json.loads(out)["standing"]] == ["signature"]
    code, out = run(OLD, "--all", "--exit-on", "signature", "--format", "json")
    assert code == 1
    assert kinds(out) == {"shop.short": "signature"}
    assert json.loads(out)["standing"] == []
    code, out = run(OLD.replace("discount=0", "discount=0, currency=None"), "--format", "json")
    assert code == 1
    assert kinds(out) == {"shop.short": "signature"}
