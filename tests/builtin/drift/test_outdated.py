"""outdated.py: patches that declare when they are no longer needed, and what ``check`` and ``list -v`` say of them."""

from __future__ import annotations

from typing import Any

import pytest
from distributions import write_distribution
from patch_folder import PatchFolder

import patchcore as pc
from patchcore.builtin.drift.outdated import remarks_on_end
from patchcore.planning.conditions import Environment


@pytest.fixture
def shop(make_package: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> PatchFolder:
    """The library is version 2.1 of ``shop``."""
    made = PatchFolder(make_package, monkeypatch, capsys)
    write_distribution(made.folder, "shop-library", "2.1", packages=["shop"])
    return made


def remarks(**declaration: Any) -> list[tuple[str, bool]]:
    patch = pc.Patch("shop.price", [pc.Replace("shop:price", print)], **declaration)
    return [
        (remark.text, remark.finding)
        for remark in remarks_on_end(pc.Patcher([patch]).plan()["shop.price"], Environment())
    ]


NO_LONGER = ("is no longer needed: shop>=2 holds", True)
LINK = "https://shop.example/1"


class TestRemarks:
    @pytest.mark.parametrize("default", [True, False])
    def test_no_longer_needed(self, shop: PatchFolder, default: bool) -> None:
        assert remarks(remove_when="shop>=2", default=default) == [NO_LONGER]

    @pytest.mark.parametrize("default", [True, False])
    def test_nothing_if_it_cannot_be_applied_anyway(self, shop: PatchFolder, default: bool) -> None:
        assert remarks(remove_when="shop>=2", requires="shop<2", default=default) == []

    @pytest.mark.parametrize(
        ("condition", "why"),
        [
            ("shop>=2.2", "found shop 2.1"),
            ("nosuch>=2", "nosuch is not installed"),
            ("shop>=2; python_version < '3'", 'python_version < "3" does not hold here'),
        ],
    )
    def test_needed(self, shop: PatchFolder, condition: str, why: str) -> None:
        assert remarks(remove_when=condition) == [(f"is needed until {condition}: {why}", False)]

    def test_link(self, shop: PatchFolder) -> None:
        resolved = (f"may be resolved by now: {LINK}", False)
        assert remarks(upstream=LINK) == [resolved]
        assert remarks(upstream=LINK, remove_when="shop>=3")[1:] == [resolved]
        assert remarks(upstream=LINK, remove_when="shop>=2") == [NO_LONGER]

    def test_what_is_no_requirement(self, shop: PatchFolder) -> None:
        ((text, finding),) = remarks(remove_when="when hell freezes over")
        assert finding
        assert text.startswith("remove_when='when hell freezes over' is not a requirement like 'mmcv>=2.3': ")


class TestCommands:
    def declare(self, shop: PatchFolder, **ends: dict[str, str]) -> None:
        shop.replace("PATCHES = [", f"ENDS = {ends!r}\nPATCHES = [")
        shop.replace("new)])", "new)], **ENDS.get(name, {}))")

    def test_check_has_a_finding(self, shop: PatchFolder) -> None:
        self.declare(shop, sale={"remove_when": "shop>=2"}, price={"upstream": LINK})
        result = shop.run("check")
        assert (result.code, result.err) == (1, "")
        assert [line.split() for line in result.out.splitlines()[2:]] == [
            ["outdated", "shop.sale", *["is", "no", "longer", "needed:", "shop>=2", "holds"]],
            [],
            ["next:", "remove", "the", "patch", "shop.sale"],
            [],
            ["compared", "with", "fingerprints:", "0", "of", "4", "targets", "(4", "without", "fingerprints)"],
        ]
        (finding,) = shop.run("doctor", "--format", "json").json["findings"]
        assert finding["kind"] == "outdated"

    def test_list_says_how_long_a_patch_is_needed(self, shop: PatchFolder) -> None:
        self.declare(shop, price={"remove_when": "shop>=3"})
        assert "is needed until shop>=3: found shop 2.1" in shop.run("list", "-v").out

    def test_strict_applies_a_patch_that_is_no_longer_needed(self, shop: PatchFolder) -> None:
        patch = pc.Patch("shop.price", [pc.Replace("shop:price", print)], remove_when="shop>=2")
        with pc.Patcher([patch], strict=True) as patcher:
            assert patcher.report()["shop.price"].status == "pending"
