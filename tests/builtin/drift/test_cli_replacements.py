"""``patchcore check`` reads the replacements of patches: stale copies, calls, names, patches that can go."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchcore.cli import main

Cli = Callable[..., tuple[int, str, str]]

LIBRARY = """
from shop.helpers import fee, tax


def price(item, discount=0):
    found = []
    for part in item:
        found.append(part)
    total = sum(found)
    total = total - discount
    return total


class Till:
    def __init__(self, name):
        self.name = name

    def total(self, items):
        return self.added(items) + fee(items)

    def added(self, items):
        return sum(map(price, items))
"""
HELPERS = """
def fee(items):
    return 1


def tax(items, rate=1):
    return 2
"""
COPY = """
def price(item, discount=0):
    found = []
    for part in item:
        found.append(part)
    total = fast_sum(found)
    total = total - discount
    return total
"""
PLUGIN = """
import patchcore as pc

{code}

@pc.hookimpl
def register_patches():
    return [pc.Patch("shop.fast", [{changes}], signatures="{signatures}")]
"""


class Site:
    """The library ``shop`` and a plugin for it, in a folder on ``sys.path``."""

    def __init__(self, folder: Path, make_package: Any, cli: Callable[..., Any]) -> None:
        self.folder = folder
        self.cli = cli
        self._make_package = make_package

    def plugin(self, code: str, *changes: str, signatures: str = "fit") -> None:
        """Write the plugin and record its fingerprints."""
        text = PLUGIN.format(code=code, changes=", ".join(changes), signatures=signatures)
        (self.folder / "shop_npu" / "plugin.py").write_text(text)
        assert self.cli("fingerprint", "shop")[0] == 0

    def install(self, version: str, prices: str = LIBRARY, helpers: str = HELPERS) -> None:
        """Install a version of the library."""
        self._make_package({"shop.prices": prices, "shop.helpers": helpers})
        metadata = f"Metadata-Version: 2.1\nName: shop\nVersion: {version}\n"
        (self.folder / "shop-1.0.dist-info" / "METADATA").write_text(metadata)

    def findings(self) -> dict[str, str]:
        """Return the messages of ``check`` by their kinds, and assert that the exit code goes with them."""
        code, out, _ = self.cli("check", "--format", "json")
        found = {each["kind"]: each["message"] for each in json.loads(out)["findings"]}
        assert code == bool(found)
        return found


@pytest.fixture
def site(make_shop: Any, make_package: Any, capsys: pytest.CaptureFixture[str]) -> Site:
    package = {"shop": "", "shop.prices": LIBRARY, "shop.helpers": HELPERS, "shop_npu": "", "shop_npu.plugin": ""}
    folder = make_shop(package)

    def run(*arguments: str) -> tuple[int, str, str]:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("shop", "shop_npu")]:
            del sys.modules[name]
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return Site(folder, make_package, run)


class TestCopies:
    OF_PRICE = 'pc.Replace("shop.prices:price", price)'
    OF_ADDED = 'pc.Replace("shop.prices:Till.added", lambda self, items: 1)'
    #: Three lines of ``price`` differ: one is replaced by two.
    NEXT = LIBRARY.replace(
        "    total = total - discount\n", "    if discount:\n        total = total - discount * fee(item)\n"
    )

    def test_the_finding_says_how_far_a_copy_is_behind(self, site: Site) -> None:
        site.plugin(COPY, self.OF_PRICE)
        assert site.findings() == {}
        site.install("1.1", self.NEXT)
        assert site.findings() == {
            "copy": "shop.prices:price: copy of price() of shop 1.0; shop 1.1 changed 3 lines since, "
            "your copy has 0 of them"
        }

    def test_the_function_of_a_decorator_is_read_too(self, site: Site) -> None:
        code = "@pc.patch('shop.prices:price', name='shop.price')" + COPY
        site.plugin(code, self.OF_ADDED)
        plugin = site.folder / "shop_npu" / "plugin.py"
        plugin.write_text(plugin.read_text().replace("return [", "return [price, "))
        site.cli("fingerprint", "shop")
        site.install("1.1", self.NEXT)
        assert list(site.findings()) == ["copy"]

    def test_a_copy_that_follows_is_no_finding(self, site: Site) -> None:
        site.plugin(COPY, self.OF_PRICE)
        site.install("1.1", self.NEXT)
        followed = COPY.replace(
            "    total = total - discount\n", "    if discount:\n        total = total - discount * fee(item)\n"
        )
        plugin = site.folder / "shop_npu" / "plugin.py"
        plugin.write_text(plugin.read_text().replace(COPY, followed))
        assert site.findings() == {}

    def test_a_copy_stays_stale_after_the_new_release_is_recorded(self, site: Site) -> None:
        site.plugin(COPY, self.OF_PRICE)
        site.install("1.1", self.NEXT)
        site.cli("fingerprint", "shop")
        assert list(site.findings()) == ["copy"]

    def test_each_method_of_a_class_is_a_copy_by_itself(self, site: Site) -> None:
        """The class that replaces it has so much of its own that it is not like the original as a whole."""
        sold = textwrap.indent(COPY.replace("price(item", "sold(self, item"), "    ")
        library = LIBRARY + sold
        own = "".join(
            f"\n    def own{n}(self):\n        a = {n}\n        b = a + {n}\n        return a, b\n" for n in range(9)
        )
        site.install("1.0", library)
        site.plugin(f"class Till:\n{sold.replace('fast_sum', 'my_sum')}{own}", 'pc.Replace("shop.prices:Till", Till)')
        assert site.findings() == {}
        site.install("1.1", library.replace("total = fast_sum(found)", "total = fast_sum(found)\n        total += 1"))
        assert site.findings() == {
            "copy": "shop.prices:Till: copy of Till.sold() of shop 1.0; shop 1.1 changed 1 line since, "
            "your copy has 0 of them"
        }
        assert "\n  +      total += 1\n" in site.cli("check", "--diff")[1]

    def test_the_difference_of_three_is_shown_on_request(self, site: Site) -> None:
        site.plugin(COPY, self.OF_PRICE)
        site.install("1.1", self.NEXT)
        assert "fast_sum" not in site.cli("check")[1]
        out = site.cli("check", "--diff")[1]
        assert "\n  +      if discount:\n" in out
        assert "\n   +     total = fast_sum(found)\n" in out
        (copy,) = json.loads(site.cli("check", "--format", "json")[1])["copies"]
        assert (copy["subject"], copy["target"]) == ("shop.fast", "shop.prices:price")
        assert "+      if discount:" in copy["difference"]

    def test_a_copy_that_was_looked_at_is_silent_until_the_next_change(self, site: Site) -> None:
        site.plugin(COPY, self.OF_PRICE)
        site.install("1.1", self.NEXT)
        assert site.cli("fingerprint", "--reviewed", "shop.fast")[0] == 0
        assert site.findings() == {}
        site.install("1.2", self.NEXT + "\n\ndef other():\n    pass\n")
        assert site.findings() == {}
        site.install("1.3", self.NEXT.replace("    return total\n", "    return round(total)\n"))
        found = site.findings()["copy"]
        assert found == (
            "shop.prices:price: copy of price() of shop 1.1; shop 1.3 changed 2 lines since, your copy has 0 of them"
        )

    def test_the_file_has_the_sources_of_several_releases(self, site: Site) -> None:
        site.plugin(COPY, self.OF_PRICE)
        for number in range(1, 4):
            site.install(f"1.{number}", LIBRARY.replace("    return total\n", f"    return total + {number}\n"))
            site.cli("fingerprint", "shop")
        site.install("1.9", self.NEXT)
        assert "copy of price() of shop 1.0; shop 1.9 changed" in site.findings()["copy"]

    def test_a_copy_that_has_become_equal_can_go(self, site: Site) -> None:
        copy = COPY.replace("fast_sum(found)", "sum(found)").replace("total - discount", "total - 2 * discount")
        site.plugin(copy, self.OF_PRICE)
        site.install("1.1", LIBRARY.replace("total - discount", "total - 2 * discount"))
        assert site.findings() == {"outdated": "shop.prices:price: the replacement is equal to price() of shop 1.1 now"}
        assert "Remove the change of shop.prices:price" in site.cli("check", "--format", "json")[1]


class TestCalls:
    def test_a_required_parameter_that_the_replacement_lacks(self, site: Site) -> None:
        site.plugin("def added(self, items):\n    return 1\n", 'pc.Replace("shop.prices:Till.added", added)')
        assert site.findings() == {}
        site.install("1.1", LIBRARY.replace("added(self, items)", "added(self, items, shelf)"))
        assert site.findings() == {
            "signature": "shop.prices:Till.added: signature changed since shop 1.0: (self, items) -> "
            "(self, items, shelf); added(self, items) does not accept every call: too many positional arguments"
        }

    def test_an_optional_argument_that_nobody_passes_is_shown_and_no_finding(self, site: Site) -> None:
        site.plugin("def price(item):\n    return 1\n", 'pc.Replace("shop.prices:price", price)', signatures="any")
        assert site.findings() == {}
        assert "nobody in shop passes discount" in site.cli("list", "-v")[1]

    def test_an_argument_that_the_library_passes_is_a_finding(self, site: Site) -> None:
        site.install("1.0", LIBRARY.replace("sum(map(price, items))", "sum(price(i, discount=2) for i in items)"))
        site.plugin("def price(item):\n    return 1\n", 'pc.Replace("shop.prices:price", price)', signatures="any")
        assert "shop passes it: prices.py:22" in site.findings()["signature"]

    @pytest.mark.parametrize(
        ("code", "change"),
        [
            ("def init(self, name):\n    pass\n", 'pc.Replace("shop.prices:Till.__init__", init)'),
            ("class Till:\n    def __init__(self, name):\n        pass\n", 'pc.Replace("shop.prices:Till", Till)'),
            (
                "def total(original, self, items):\n    return original(self, items)\n",
                'pc.Wrap("shop.prices:Till.total", total)',
            ),
        ],
        ids=["constructor", "class", "wrapper"],
    )
    def test_all_that_can_be_read_is_compared(self, site: Site, code: str, change: str) -> None:
        site.plugin(code, change)
        assert site.findings() == {}
        more = LIBRARY.replace("(self, name)", "(self, name, shelf)").replace(
            "total(self, items)", "total(self, items, shelf)"
        )
        site.install("1.1", more)
        assert "does not accept every call" in site.findings()["signature"]

    def test_a_replacement_that_takes_the_new_calls_is_no_signature_finding(self, site: Site) -> None:
        site.plugin("def price(item, *args, **kwargs):\n    return 1\n", 'pc.Replace("shop.prices:price", price)')
        site.install("1.1", LIBRARY.replace("price(item, discount=0)", "price(item, shelf, discount=0)"))
        assert list(site.findings()) == ["body"]

    @pytest.mark.parametrize(
        ("line", "is_finding"), [("", False), ("    kwargs.pop('shelf', None)\n", True)], ids=["any", "the new one"]
    )
    @pytest.mark.parametrize("decorator", ["", "@checked\n"], ids=["plain", "decorated"])
    def test_a_wrapper_that_passes_on_what_it_gets(
        self, site: Site, decorator: str, line: str, is_finding: bool
    ) -> None:
        before = "def checked(function):\n    return function\n" + LIBRARY.replace("def price", decorator + "def price")
        site.install("1.0", before)
        wrapper = f"def marked(original, *args, **kwargs):\n{line}    return original(*args, **kwargs)\n"
        site.plugin(wrapper, 'pc.Wrap("shop.prices:price", marked)')
        site.install("1.1", before.replace("discount=0", "discount=0, shelf=None"))
        assert list(site.findings()) == ["body"] * is_finding

    def test_a_change_of_annotations_is_no_finding(self, site: Site) -> None:
        site.plugin("def added(self, items):\n    return 1\n", 'pc.Replace("shop.prices:Till.added", added)')
        site.install("1.1", LIBRARY.replace("added(self, items)", "added(self, items: list) -> int"))
        assert site.findings() == {}
        assert "body changed since shop 1.0: only annotations" in site.cli("list", "-v")[1]


class TestNames:
    CODE = textwrap.dedent(
        """
        def total(self, items):
            from shop.helpers import fee, tax

            return tax(items, 3) - fee(items) + self.added(items)
        """
    )

    @pytest.mark.parametrize(
        ("helpers", "prices", "message"),
        [
            (
                HELPERS.replace("def tax(", "def vat("),
                LIBRARY.replace(", tax", ""),
                "reads shop.helpers:tax, which is gone",
            ),
            (
                HELPERS.replace("(items, rate=1)", "(items, *, rate=1)"),
                LIBRARY,
                "reads shop.helpers:tax, whose signature changed since shop 1.0: (items, rate=1) -> (items, *, rate=1)",
            ),
            (
                HELPERS,
                LIBRARY.replace("added(", "summed("),
                "reads shop.prices:Till.added, which is gone since shop 1.0",
            ),
        ],
        ids=["vanished", "another signature", "an attribute of self"],
    )
    def test_a_name_that_the_replacement_reads(self, site: Site, helpers: str, prices: str, message: str) -> None:
        site.plugin(self.CODE, 'pc.Replace("shop.prices:Till.total", total)')
        assert site.findings() == {}
        site.install("1.1", prices, helpers)
        assert message in site.findings()["reads"]

    @pytest.mark.parametrize("line", ["from carts.boxes import Box as Cart", "import carts.boxes as Cart"])
    def test_a_name_that_the_library_has_from_one_that_is_not_installed_is_there(self, site: Site, line: str) -> None:
        site.install("1.0", helpers=f"{HELPERS}\n{line}\n")
        code = "def total(self, items):\n    from shop.helpers import Cart\n\n    return Cart(items)\n"
        site.plugin(code, 'pc.Replace("shop.prices:Till.total", total)')
        assert site.findings() == {}
        site.install("1.1", helpers=HELPERS)
        assert "reads shop.helpers:Cart, which is gone" in site.findings()["reads"]

    def test_any_other_change_of_it_is_none(self, site: Site) -> None:
        site.plugin(self.CODE, 'pc.Replace("shop.prices:Till.total", total)')
        site.install("1.1", helpers=HELPERS.replace("return 2", "return 3"))
        assert site.findings() == {}

    @pytest.mark.parametrize(
        ("code", "is_finding"),
        [
            ("def added(self, items: Tax) -> Tax:\n    return isinstance(items, Tax)\n", False),
            ("def added(self, items):\n    return isinstance(items, Tax) or Tax(items)\n", True),
            ("def added(self, items):\n    return map(Tax, items)\n", True),
        ],
        ids=["only named", "called, too", "passed on"],
    )
    def test_the_signature_of_a_name_that_nobody_calls_does_not_matter(
        self, site: Site, code: str, is_finding: bool
    ) -> None:
        helpers = HELPERS + "\n\nclass Tax:\n    def __init__(self, rate):\n        self.rate = rate\n"
        site.install("1.0", helpers=helpers)
        imported = "from __future__ import annotations\nfrom shop.helpers import Tax\n"
        (site.folder / "shop_npu" / "code.py").write_text(imported + code)
        site.plugin("", 'pc.Replace("shop.prices:Till.added", "shop_npu.code:added")')
        site.install("1.1", helpers=helpers.replace("(self, rate)", "(self, rate, code)"))
        found = site.findings()
        assert list(found) == (["reads"] if is_finding else [])
        site.install("1.2", helpers=HELPERS)
        assert "reads shop.helpers:Tax, which is gone" in site.findings()["reads"]


class TestBodies:
    @pytest.mark.parametrize(
        ("code", "is_finding"),
        [
            ("def price(item, discount=0):\n    return fast(item)\n", False),
            ("def price(item, discount=0):\n    return fast(item, fee=fee)\n", True),
        ],
        ids=["no name of it", "a name of it"],
    )
    def test_a_change_with_no_name_of_the_replacement_is_shown_and_no_finding(
        self, site: Site, code: str, is_finding: bool
    ) -> None:
        site.plugin(code, 'pc.Replace("shop.prices:price", price)')
        site.install("1.1", LIBRARY.replace("total - discount", "total - discount * fee(found)"))
        assert list(site.findings()) == (["body"] if is_finding else [])
        shown = "the replacement has no name that the change is about"
        listed = " ".join(site.cli("list", "-v")[1].split())
        assert "body changed since shop 1.0" in listed
        assert (shown in listed) == (not is_finding)

    def test_any_change_of_a_short_function_is_a_finding(self, site: Site) -> None:
        site.plugin("def added(self, items):\n    return 1\n", 'pc.Replace("shop.prices:Till.added", added)')
        site.install("1.1", LIBRARY.replace("sum(map(price, items))", "max(items)"))
        assert list(site.findings()) == ["body"]


class TestAdditions:
    def test_a_run_says_that_the_library_has_the_name_now(self, site: Site) -> None:
        code = "def vat(items):\n    return 0\n\ndef owed(items):\n    return 1\n"
        changes = (
            'pc.Replace("shop.helpers:vat", vat, create=True)',
            'pc.Replace("shop.helpers:owed", owed, create=True)',
        )
        site.plugin(code, *changes)
        (site.folder / "sell.py").write_text("from shop.helpers import vat\n\nprint(vat([]))\n")

        def run() -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "patchcore", "run", "sell.py"]
            environ = {**os.environ, "PYTHONPATH": str(site.folder)}
            return subprocess.run(command, cwd=site.folder, env=environ, capture_output=True, text=True, timeout=120)

        assert "in the library now" not in run().stderr
        # one of two names: the patch is applied, and the other name is that of the library
        site.install("1.1", helpers=HELPERS + "\n\ndef vat(items):\n    return 9\n")
        one = run()
        assert "shop.helpers:vat: shop 1.1 has it" in one.stderr
        assert "owed" not in one.stderr
        assert (one.stdout, "in the library now, not added: shop.fast; 1 applied" in one.stderr) == ("9\n", True)
        helpers = HELPERS + "\n\ndef vat(items):\n    return 9\n\n\ndef owed(items):\n    return 9\n"
        site.install("1.2", helpers=helpers)
        both = run()
        assert "shop.helpers:owed: shop 1.2 has it, shop 1.0 had not: create=True leaves" in both.stderr
        assert "in the library now, not added: shop.fast; nothing applied" in both.stderr
        # a version that was recorded is one that the author knows
        assert site.cli("fingerprint", "shop")[0] == 0
        assert "in the library now" not in run().stderr

    def test_a_name_that_is_always_replaced_is_named_when_the_library_has_it(self, site: Site) -> None:
        site.plugin("def vat(items):\n    return 0\n", 'pc.Replace("shop.helpers:vat", vat, create="always")')
        assert site.findings() == {}
        site.install("1.1", helpers=HELPERS + "\n\ndef vat(items):\n    return 9\n")
        assert site.findings() == {
            "outdated": "shop.helpers:vat: shop 1.1 has it, shop 1.0 had not: "
            "create='always' replaces that of the library"
        }
        assert "next: delete the change of shop.helpers:vat (plugin.py:" in site.cli("check")[1]
        assert site.cli("fingerprint", "shop")[0] == 0
        assert site.findings() == {}

    def test_a_name_that_the_library_has_now_can_go(self, site: Site) -> None:
        site.plugin("def vat(items):\n    return 0\n", 'pc.Replace("shop.helpers:vat", vat, create=True)')
        assert site.findings() == {}
        site.install("1.1", helpers=HELPERS + "\n\ndef vat(items):\n    return 9\n")
        assert site.findings() == {
            "outdated": "shop.helpers:vat: shop 1.1 has it, shop 1.0 had not: create=True leaves that of the library"
        }
        assert "delete the change of shop.helpers:vat (plugin.py:10)" in site.cli("check")[1]

    @pytest.mark.parametrize("target", ["shop.helpers:Tax.vat", "shop.helpers.Tax.vat"])
    @pytest.mark.parametrize("is_module_gone", [False, True])
    def test_the_place_of_a_name_is_gone(self, site: Site, target: str, is_module_gone: bool) -> None:
        site.install("1.0", helpers=HELPERS + "\n\nclass Tax:\n    pass\n")
        site.plugin("def vat(items):\n    return 0\n", f'pc.Replace("{target}", vat, create=True)')
        assert site.findings() == {}
        site.install("1.1", helpers=HELPERS)
        if is_module_gone:
            (site.folder / "shop" / "helpers.py").unlink()
            importlib.invalidate_caches()
        found = site.findings()
        assert list(found) == ["gone"]
        assert "the place of this name is gone since shop 1.0" in found["gone"]


class TestClasses:
    def test_a_replaced_class_counts_for_the_members_that_the_replacement_defines(self, site: Site) -> None:
        code = (
            "class Till:\n    def __init__(self, name):\n        pass\n    def total(self, items):\n        return 1\n"
        )
        site.plugin(code, 'pc.Replace("shop.prices:Till", Till)')
        site.install("1.1", LIBRARY.replace("return sum(map(price, items))", "return 5"))
        assert site.findings() == {}
        site.install("1.2", LIBRARY.replace("return self.added(items) + fee(items)", "return 5"))
        assert list(site.findings()) == ["body"]
