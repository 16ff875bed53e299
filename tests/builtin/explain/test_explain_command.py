"""``patchcore explain``: whatever a name stands for, a patch, a target, a plugin or a class."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from shop_commands import Cli, cli, site  # noqa: F401


class TestExplain:
    @pytest.mark.parametrize("name", ["shop.price", "price", "shop.prices:price", "shop.prices.price"])
    def test_patch_legacy_name_and_target(self, cli: Cli, site: Path, name: str) -> None:
        result = cli("explain", "--apply", name)
        assert (result.code, result.err) == (0, "")
        plugin, prices = site / "shop_npu" / "plugin.py", site / "shop" / "prices.py"
        line = plugin.read_text().splitlines().index("def fast_price(item):") + 1
        assert result.out.splitlines() == [
            "shop.price: prices from the cash register",
            f"  from      plugin shop, shop-npu 1.2 ({plugin})",
            "  verdict   apply (decided by default)",
            f"  requires  packaging>=20 (found {version('packaging')})",
            "  upstream  https://shop.example/1",
            "  also      price",
            "",
            "shop.prices:price",
            f"  outermost replace shop_npu.plugin:fast_price ({plugin}:{line})",
            "            by shop.price (plugin shop, shop-npu 1.2)",
            f"  original  shop.prices:price ({prices}:2)",
            "  shop.price: applied",
            "    drift       not recorded: plugin shop, shop-npu 1.2 carries no fingerprints",
            "    --- original",
            "    +++ replacement",
            "    @@ -1,2 +1,3 @@",
            "    -def price(item):",
            "    -    return 10",
            "    +def fast_price(item):",
            '    +    """The price, faster."""',
            "    +    return 11",
        ]

    def test_everything_is_reverted(self, cli: Cli) -> None:
        import shop
        import shop.deals

        before = {name: dict(vars(module)) for name, module in sys.modules.items() if name.startswith("shop")}
        assert cli("explain", "--apply", "shop.price").code == 0
        for name, content in before.items():
            assert dict(vars(sys.modules[name])) == content
        assert shop.price("") == shop.deals.usual("") == 10

    def test_plugin_and_class(self, cli: Cli) -> None:
        targets = [target["target"] for target in cli("explain", "shop", "--format", "json").json["targets"]]
        assert targets == ["shop.prices:price", "shop.prices:Till.total", "tax:rate"]
        content = cli("explain", "shop.prices:Till", "--format", "json").json
        assert [target["target"] for target in content["targets"]] == ["shop.prices:Till.total"]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("shop.prize", "did you mean 'shop.price'?"),
            ("shop.prices:prise", "shop.prices has no prise (target shop.prices:prise); did you mean 'price'?"),
            (
                "nosuch.module:price",
                "the module nosuch is not installed, so there is nothing to explain in nosuch.module",
            ),
            ("shop.price:price", "no module shop.price: shop has no module price; did you mean 'shop.prices'?"),
            ("pric", "did you mean 'price'?"),
        ],
    )
    def test_unknown_name(self, cli: Cli, name: str, message: str) -> None:
        result = cli("explain", "--apply", name)
        assert (result.code, result.out) == (2, "")
        assert message in result.err
