"""outdated.py and ``patchcore outdated``: patches that say when they end."""

from __future__ import annotations

from typing import Any

import pytest
from distributions import write_distribution
from patch_folder import PatchFolder

import patchcore as pc
from patchcore.builtin.drift.outdated import review


@pytest.fixture
def shop(make_package: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> PatchFolder:
    """The library is version 2.1 of ``shop``."""
    made = PatchFolder(make_package, monkeypatch, capsys)
    write_distribution(made.folder, "shop-library", "2.1", packages=["shop"])
    return made


def verdict(**declaration: Any) -> tuple[str, str]:
    patch = pc.Patch("shop.price", [pc.Replace("shop:price", print)], **declaration)
    (age,) = review(pc.Patcher([patch]).plan())
    return age.verdict, age.reason


class TestVerdict:
    def test_can_go(self, shop: PatchFolder) -> None:
        assert verdict(remove_when="shop>=2") == ("can go", "shop>=2 holds")

    def test_also_where_it_would_have_to_be_chosen(self, shop: PatchFolder) -> None:
        assert verdict(remove_when="shop>=2", default=False) == ("can go", "shop>=2 holds")

    @pytest.mark.parametrize("default", [True, False])
    def test_that_it_does_not_fit_anyway(self, shop: PatchFolder, default: bool) -> None:
        found = verdict(remove_when="shop>=2", requires="shop<2", default=default)
        assert found == ("not applied", "requires shop<2, found shop 2.1")

    def test_needed(self, shop: PatchFolder) -> None:
        assert verdict(remove_when="shop>=2.2") == ("needed", "found shop 2.1")

    def test_library_that_is_not_installed(self, shop: PatchFolder) -> None:
        assert verdict(remove_when="nosuch>=2") == ("needed", "nosuch is not installed")

    def test_marker_that_does_not_hold(self, shop: PatchFolder) -> None:
        found = verdict(remove_when="shop>=2; python_version < '3'")
        assert found == ("needed", 'python_version < "3" does not hold here')

    def test_link(self, shop: PatchFolder) -> None:
        assert verdict(upstream="https://shop.example/1") == ("worth a look", "it declares no remove_when")
        assert verdict(upstream="https://shop.example/1", remove_when="shop>=3") == ("worth a look", "found shop 2.1")
        assert verdict(upstream="https://shop.example/1", remove_when="shop>=2")[0] == "can go"

    def test_what_is_no_requirement(self, shop: PatchFolder) -> None:
        status, reason = verdict(remove_when="when hell freezes over")
        assert status == "malformed"
        assert reason.startswith("remove_when='when hell freezes over' is not a requirement like 'mmcv>=2.3': ")

    def test_nothing_declared(self, shop: PatchFolder) -> None:
        assert review(pc.Patcher([pc.Patch("shop.price", [pc.Replace("shop:price", print)])]).plan()) == []


class TestCommand:
    def test_findings_first(self, shop: PatchFolder) -> None:
        shop.replace(
            "PATCHES = [", 'ENDS = {"sale": {"remove_when": "shop>=2"}, "price": {"upstream": "x"}}\nPATCHES = ['
        )
        shop.replace("new)])", "new)], **ENDS.get(name, {}))")
        result = shop.run("outdated")
        assert (result.code, result.err) == (1, "")
        assert [line.split() for line in result.out.splitlines()] == [
            ["Patches", "with", "remove_when", "or", "upstream"],
            ["PATCH", "VERDICT", "REMOVE", "WHEN", "WHY", "UPSTREAM"],
            ["shop.sale", "can", "go", "shop>=2", "shop>=2", "holds"],
            ["shop.price", "worth", "a", "look", "it", "declares", "no", "remove_when", "x"],
            [],
            ["1", "finding"],
        ]
        row = shop.run("outdated", "--format", "json").json["patches"][0]
        assert row == {
            "name": "shop.sale",
            "verdict": "can go",
            "reason": "shop>=2 holds",
            "remove_when": "shop>=2",
            "upstream": None,
            "plugin": "deals",
            "distribution": None,
            "version": None,
        }

    def test_only_links_are_no_finding(self, shop: PatchFolder) -> None:
        shop.replace("new)])", 'new)], upstream="x")')
        result = shop.run("outdated")
        assert (result.code, result.out.splitlines()[-1]) == (0, "no findings")

    def test_nothing_declared(self, shop: PatchFolder) -> None:
        assert shop.run("outdated") == (0, "no patch declares remove_when or upstream\n", "")
