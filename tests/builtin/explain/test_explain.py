"""``patchcore explain``: drift, what decided, what is in the way, layers, and targets that no patch names."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from patch_folder import Result, run_command

from patchcore.cli import main

SHOP = {
    "shop": "from shop.prices import price\n",
    "shop.prices": """
        def price(item, discount=0):
            return 10


        def total(items):
            return sum(map(price, items))


        class Till:
            def add(self, item):
                return price(item)


        class BigTill(Till):
            pass
        """,
    "shop.registry": """
        class Registry:
            def __init__(self):
                self._module_dict = {}


        MODELS = Registry()
        """,
    "shop.deals": "from shop.prices import price as usual\nTABLE = {'usual': usual}\n",
    "picky": "import shop.prices\n",
}

Explain = Callable[..., "Explained"]


class Explained(Result):
    """What the command printed."""

    @property
    def target(self) -> Any:
        (target,) = self.json["targets"]
        return target

    def patch(self, name: str) -> Any:
        (patch,) = [patch for patch in self.json["patches"] if patch["name"] == name]
        return patch


@pytest.fixture
def site(make_package: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder: Path = make_package(SHOP)
    write_distribution(folder, "shop", "1.0", packages=["shop", "picky"])
    for name in [name for name in os.environ if name.startswith("PATCHCORE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATCHCORE_PLUGINS", "")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def explain(site: Path, make_package: Any, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Return a function that explains with the patches of a module ``deals``, made of the source of the patches."""

    def run(patches: str, *arguments: str) -> Explained:
        make_package({"deals": f"import patchcore as pc\n{textwrap.dedent(patches)}"})
        sys.modules.pop("deals", None)
        return Explained(*run_command(capsys, "explain", "-p", "deals", "--apply", *arguments))

    return run


PRICE = """
def fast(item, discount=0):
    return 11

PRICE = pc.Patch("deals.price", pc.Replace("shop.prices:price", fast))

@pc.hookimpl
def register_patches():
    return [PRICE]
"""


def patches(*declared: str) -> str:
    return f"{PRICE.replace('return [PRICE]', 'return [' + ', '.join(declared) + ']')}"


# --- drift ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return 10", "return 10  # EUR", "unchanged since shop 1.0"),
        ("return 10", "return 12", "body changed since shop 1.0"),
        ("discount=0", "rebate=0", "signature changed since shop 1.0: (item, discount=0) -> (item, rebate=0)"),
        (
            "def price",
            "def prices",
            "gone since shop 1.0: shop.prices has no price (target shop.prices:price); did you mean 'prices'?",
        ),
    ],
)
def test_drift_says_since_which_version(explain, site, make_package, old, new, said) -> None:
    make_package({"deals": f"import patchcore as pc\n{PRICE}"})
    assert main(["fingerprint", "-p", "deals", "deals"]) == 0
    (site / "shop-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.1\n")
    make_package({"shop.prices": SHOP["shop.prices"].replace(old, new), "shop": ""})
    result = explain(PRICE, "deals.price", "--no-diff")
    assert f"drift       {said}" in result.lines(), result.out
    (change,) = explain(PRICE, "deals.price", "--format", "json").target["changes"]
    status, _, rest = said.partition(" since ")
    assert (change["drift"]["status"], change["drift"]["recorded"], change["drift"]["version"]) == (
        status,
        "1.0",
        "1.1",
    )
    assert rest.endswith(change["drift"]["detail"])


def test_drift_of_what_was_never_recorded(explain, make_package) -> None:
    result = explain(PRICE, "deals.price", "--no-diff")
    assert "drift       not recorded: plugin deals carries no fingerprints" in result.lines()
    assert main(["fingerprint", "-p", "deals", "deals"]) == 0
    more = patches("PRICE", "pc.Patch('deals.total', pc.Replace('shop.prices:total', len))")
    said = "drift       not recorded: no version of shop is recorded; run patchcore fingerprint deals.total"
    result = explain(more, "deals.total", "--no-diff")
    assert said in result.lines(), result.err


def test_fingerprints_that_cannot_be_read(explain, site) -> None:
    (site / "deals.fingerprints.json").write_text("{}")
    (change,) = explain(PRICE, "deals.price", "--format", "json").target["changes"]
    assert change["drift"]["status"] == "not recorded"
    assert "deals.fingerprints.json cannot be read" in change["drift"]["detail"]


def test_there_is_no_drift_of_what_a_patch_adds_or_of_a_library_that_is_not_there(explain) -> None:
    adding = patches(
        "pc.Patch('deals.adds', pc.Replace('shop.prices:added', len, create=True))",
        "pc.Patch('deals.away', pc.Replace('nowhere:x', len))",
    )
    for name in ("deals.adds", "deals.away"):
        assert explain(adding, name, "--format", "json").target["changes"][0]["drift"] is None


# --- why, and who decided ------------------------------------------------------------------------------------------


def test_requirements_expected_and_found(explain) -> None:
    source = patches(
        "pc.Patch('deals.old', pc.Replace('shop.prices:price', fast), requires=['shop<1', 'gone>=2'], needs=['nochip'])"
    )
    result = explain(source, "deals.old")
    assert "verdict   skipped: requires shop<1, found shop 1.0 (decided by default)" in result.lines()
    assert "requires  shop<1 (requires shop<1, found shop 1.0)" in result.lines()
    assert "needs     nochip (neither installed nor emulated)" in result.lines()
    patch = explain(source, "deals.old", "--format", "json").patch("deals.old")
    assert patch["requires"] == [
        {"text": "shop<1", "met": False, "found": "1.0", "reason": "requires shop<1, found shop 1.0"},
        {"text": "gone>=2", "met": False, "found": None, "reason": "requires gone>=2, gone is not installed"},
    ]
    assert [need["met"] for need in patch["needs"]] == [False]


def test_a_condition_says_where_it_is_written(explain, site) -> None:
    source = f"def on_sale():\n    return pc.Skip('no sale today')\n{PRICE}".replace("fast))", "fast), when=on_sale)")
    result = explain(source, "deals.price")
    assert "verdict   skipped: no sale today (decided by default)" in result.lines()
    assert f"when      deals:on_sale ({site / 'deals.py'}:2)" in result.lines()


def test_both_sides_of_a_conflict(explain) -> None:
    source = patches(
        "PRICE",
        "pc.Patch('deals.rival', pc.Replace('shop.prices:price', fast))",
        "pc.Patch('deals.other', pc.Replace('shop.prices:total', len), conflicts='deals.price')",
    )
    winner = explain(source, "deals.price", "--no-diff")
    assert [line for line in winner.lines() if line.startswith("wins over")] == [
        "wins over deals.rival",
        "wins over deals.other",
    ]
    loser = explain(source, "deals.rival", "--format", "json").patch("deals.rival")
    assert (loser["verdict"], loser["rival"]) == ("failed", "deals.price")
    loser = explain(source, "deals.other", "--format", "json").patch("deals.other")
    assert (loser["verdict"], loser["rival"], loser["beats"]) == ("skipped", "deals.price", [])
    assert "which is applied" in loser["reason"]


def test_a_veto_names_the_plugin(explain) -> None:
    source = f"{PRICE}\n@pc.hookimpl\ndef before_apply(patch):\n    return pc.Skip('not on this chip')\n"
    result = explain(source, "deals.price")
    assert "verdict   skipped: vetoed by plugin deals: not on this chip (decided by default)" in result.lines()
    patch = explain(source, "deals.price", "--format", "json").patch("deals.price")
    assert (patch["verdict"], patch["status"]) == ("skipped", "skipped")


@pytest.mark.parametrize(
    ("arguments", "environ", "table", "said"),
    [
        (["--disable", "shop.prices:price"], {}, "", "--disable shop.prices:price"),
        ([], {"PATCHCORE_DISABLE": "*"}, "", "PATCHCORE_DISABLE *"),
        ([], {}, 'disable = ["deals"]', "{} [tool.patchcore] deals"),
        (
            ["--variant", "x"],
            {},
            '[tool.patchcore.variants.x]\ndisable = "deals"',
            "{} [tool.patchcore.variants.x] deals",
        ),
        ([], {}, "", "default"),
    ],
)
def test_the_setting_that_decided(explain, site, monkeypatch, arguments, environ, table, said) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    (site / "pyproject.toml").write_text(f"[tool.patchcore]\n{table}\n")
    result = explain(PRICE, "deals.price", *arguments)
    (verdict,) = [line for line in result.lines() if line.startswith("verdict")]
    said = said.format(site / "pyproject.toml")
    origin, _, name = said.rpartition(" ")
    expected = f"off: disabled by {origin} ({name})" if origin else "apply (decided by default)"
    assert verdict == f"verdict   {expected}"
    patch = explain(PRICE, "deals.price", *arguments, "--format", "json").patch("deals.price")
    assert " ".join(filter(None, (patch["chosen_by"], patch["chosen_as"]))) == said
    assert patch["verdict"] == ("apply" if said == "default" else "off")


def test_options_say_where_they_come_from(explain, site) -> None:
    source = PRICE.replace("fast))", "fast), options={'groups': 1, 'mode': 'x', 'kind': str})")
    (site / "pyproject.toml").write_text('[tool.patchcore.options."deals.price"]\ngroups = 4\n')
    result = explain(source, "deals.price")
    assert f"option    groups = 4 ({site / 'pyproject.toml'} [tool.patchcore])" in result.lines()
    assert "option    mode = 'x' (default)" in result.lines()
    patch = explain(source, "deals.price", "--format", "json").patch("deals.price")
    assert [option["value"] for option in patch["options"]] == [4, "x", "<class 'str'>"]


# --- layers, and what is not a function ----------------------------------------------------------------------------


def test_layers_of_several_patches_and_of_somebody_else(explain) -> None:
    source = f"""
{PRICE.replace("return [PRICE]", "return [PRICE, other, twice]")}
def by_hand(original):
    import sys
    prices = sys.modules["shop.prices"]
    below = prices.price
    prices.price = lambda *args, **kwargs: below(*args, **kwargs)
    return lambda *args, **kwargs: original(*args, **kwargs)

other = pc.Patch("deals.other", pc.Replace("shop.prices:total", factory=by_hand))

@pc.wrap("shop.prices:price", name="deals.twice", after=["deals.price", "deals.other"])
def twice(original, *args, **kwargs):
    return 2 * original(*args, **kwargs)
"""
    layers = explain(source, "shop.prices:price", "--format", "json").target["layers"]
    assert [(layer["patch"], layer["what"]) for layer in layers] == [
        ("deals.twice", "wrap"),
        (None, "put there by other code"),
        ("deals.price", "replace"),
    ]
    assert layers[0]["file"].endswith("deals.py")
    assert layers[0]["place"] == f"deals:twice.function ({layers[0]['file']}:{layers[0]['line']})"
    assert "+    return 11" in layers[2]["diff"]


def test_a_layer_that_only_some_calls_reach(explain, site) -> None:
    source = f"def some(item, discount=0):\n    return True\n{PRICE.replace('fast))', 'fast, when_call=some))')}"
    lines = explain(source, "deals.price").lines()
    assert f"when deals:some ({site / 'deals.py'}:2), else what is below" in lines


def test_an_edit_by_hand_is_compared_with_the_original(explain) -> None:
    source = """
def legacy(module, options):
    def price(item, discount=0):
        return 13
    module.price = price

@pc.hookimpl
def register_patches():
    return [pc.Patch("deals.legacy", pc.Call(legacy, module="shop.prices"))]
"""
    target = explain(source, "shop.prices:price", "--format", "json").target
    assert [layer["what"] for layer in target["layers"]] == ["call"]
    assert "+    return 13" in target["layers"][0]["diff"]
    assert [(change["patch"], change["status"]) for change in target["changes"]] == [("deals.legacy", "applied")]
    assert [patch["name"] for patch in explain(source, "shop.prices:price", "--format", "json").json["patches"]] == [
        "deals.legacy"
    ]


def test_a_registry(explain, registries) -> None:
    source = """
class Net:
    pass

@pc.hookimpl
def register_patches():
    return [pc.Patch("deals.net", pc.Register("shop.registry:MODELS", Net))]
"""
    for name in ("deals.net", "shop.registry:MODELS"):
        target = explain(source, name, "--format", "json").target
        assert target["target"] == "shop.registry:MODELS['Net']"
        assert [(layer["patch"], layer["what"]) for layer in target["layers"]] == [("deals.net", "register")]
        assert target["original"] == "nothing"
    assert "outermost register deals:Net" in explain(source, "shop.registry:MODELS").out


IMPORTS = """
@pc.hookimpl
def register_patches():
    return [
        pc.Patch("deals.stub", pc.StubImport("flashy")),
        pc.Patch("deals.other", pc.ReplaceImport("shop.registry", with_="shop.prices")),
        pc.Patch("deals.shown", pc.WhileImporting("picky", pc.Replace("shop.prices:total", len))),
        pc.Patch("deals.name", pc.InjectImport("shop.prices", "total", "shop.deals")),
    ]
"""


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("flashy", ["outermost stub module flashy", "by deals.stub (plugin deals)"]),
        ("shop.registry", ["outermost replace-import module shop.prices ("]),
        ("picky", ["deals.shown: applied (applied while picky was imported)"]),
        ("shop.deals:total", ["outermost inject shop.prices:total (", "original  nothing"]),
    ],
)
def test_changes_of_imports(explain, name, lines) -> None:
    result = explain(IMPORTS, name)
    assert (result.code, result.err) == (0, "")
    for line in lines:
        assert any(said.startswith(line) for said in result.lines()), result.out


# --- targets that no patch names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["shop:price", "shop.deals:usual"])
def test_a_name_that_took_the_target(explain, name) -> None:
    importlib.import_module("shop.deals")
    result = explain(PRICE, name, "--no-diff")
    assert result.lines()[0] == "deals.price"
    assert "follows   shop.prices:price" in result.lines()
    assert f"rebound     {name}" in result.lines()
    assert any(line.startswith("original  shop.prices:price (") for line in result.lines())


def test_an_inherited_method(explain) -> None:
    source = patches("pc.Patch('deals.add', pc.Replace('shop.prices:Till.add', lambda self, item: 1))")
    target = explain(source, "shop.prices:BigTill.add", "--format", "json").target
    assert target["follows"] == "shop.prices:Till.add"
    assert [layer["patch"] for layer in target["layers"]] == ["deals.add"]


def test_a_place_that_holds_the_original_still(explain) -> None:
    importlib.import_module("shop.deals")
    result = explain(PRICE, 'shop.deals:TABLE["usual"]')
    assert result.lines()[0] == "deals.price"
    assert "holds     the original of shop.prices:price, it was not bound to the patch" in result.lines()
    assert "unreachable dict shop.deals:TABLE['usual']" in result.lines()


def test_a_name_that_the_replacement_reads_is_kept(explain, make_package) -> None:
    source = """
from shop.prices import price as original

def fast(item, discount=0):
    return original(item) + 1

@pc.hookimpl
def register_patches():
    return [pc.Patch("deals.price", pc.Replace("shop.prices:price", fast))]
"""
    target = explain(source, "deals:original", "--format", "json").target
    assert (target["holds"], target["follows"], target["layers"]) == ("shop.prices:price", None, [])
    assert target["changes"][0]["kept"] == ["deals:original"]


# --- how it is said ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colours", [True, False])
def test_a_terminal_shows_verdicts_and_differences_in_colour(explain, monkeypatch, colours) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR" if colours else "NO_COLOR", "1")
    monkeypatch.setattr("patchcore.cli.output.sys.stdout.isatty", lambda: True, raising=False)
    out = explain(PRICE, "deals.price").out
    assert ("\x1b[32m    +    return 11" in out) == colours
    assert ("\x1b[32m  verdict   apply" in out) == colours


# --- without --apply ------------------------------------------------------------------------------------------------


class TestPending:
    """Why a patch is pending, without the import of its module."""

    @pytest.fixture
    def static(self, explain: Explain, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
        def run(patches: str, *arguments: str) -> list[str]:
            explain(patches, "--help")  # writes the module
            assert main(["explain", "-p", "deals", *arguments]) == 0
            assert "shop.prices" not in sys.modules
            return [line.strip() for line in capsys.readouterr().out.splitlines()]

        return run

    @pytest.mark.parametrize("name", ["deals.price", "shop.prices:price"])
    def test_which_import_a_patch_waits_for(self, static: Callable[..., list[str]], site: Path, name: str) -> None:
        lines = static(PRICE, name)
        assert "outcome   pending: waits for the import of shop.prices" in lines
        assert f"waits for shop.prices ({site / 'shop' / 'prices.py'})" in lines
        assert "deals.price: pending (waits for the import of shop.prices)" in lines
        assert any(line.startswith("outermost replace deals:fast (") and "deals.py:" in line for line in lines)

    def test_a_module_that_will_never_be_imported(self, static: Callable[..., list[str]]) -> None:
        lines = static(PRICE.replace("shop.prices", "shop.pricez"), "deals.price")
        why = "there is no module shop.pricez: shop has no module pricez; did you mean 'shop.prices'?"
        assert f"cannot be looked at: {why}" in lines

    def test_a_target_that_no_patch_names(self, static: Callable[..., list[str]], site: Path) -> None:
        hint = f"module    shop.prices ({site / 'shop' / 'prices.py'}) is not imported; --apply imports it and looks"
        assert hint in static(PRICE, "shop.prices:Till")


def test_a_malformed_requirement(explain) -> None:
    source = patches("pc.Patch('deals.odd', pc.Replace('shop.prices:price', fast), requires='shop>>1')")
    patch = explain(source, "deals.odd", "--format", "json").patch("deals.odd")
    assert (patch["verdict"], patch["requires"][0]["met"]) == ("failed", False)
    assert "is not a requirement like" in patch["requires"][0]["reason"]
