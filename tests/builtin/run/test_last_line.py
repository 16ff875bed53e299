"""The last line of ``patchcore run`` says what matters; ``-q``, ``-v`` and ``-vv`` say less and more."""

from __future__ import annotations

import pytest
from programs import FAILING, PATCHES, SHOP, Programs

TELLS = (
    PATCHES
    + """
from patchcore.builtin.run import hookspecs

@pc.hookimpl(optionalhook=True)
def conclusions(report, plan):
    return [f"{len(plan)} planned, {len(report.patches)} reported"]
"""
)
BREAKS = TELLS.replace("return [f", "return 1 / 0, [f")
ABSENT = """

absent = pc.Patch("deals.absent", [pc.Replace("no_such_library:price", double)], default=False)

@pc.hookimpl
def register_patches():
    return [double.evolve(name="deals.double"), absent]
"""


@pytest.fixture
def shop(programs: Programs) -> Programs:
    programs.write({**SHOP, "deals.py": PATCHES})
    return programs


def last_words(shop: Programs, *options: str, **environment: str) -> list[str]:
    done = shop.run(shop.patchcore, *options, "-p", "deals", "sell.py", **environment)
    assert done.stdout in ("20\n", "10\n")
    return done.stderr.splitlines()


def test_patches_that_nobody_asked_for_do_not_count(shop: Programs) -> None:
    shop.write({"deals.py": PATCHES.partition("@pc.hookimpl")[0] + ABSENT})
    assert last_words(shop) == ["patchcore: 1 applied"]
    assert last_words(shop, "--enable", "deals.absent") == ["patchcore: 1 applied, 1 skipped"]


@pytest.mark.parametrize("setting", [True, False])
def test_a_failure_that_is_ignored_does_not_count(shop: Programs, setting: bool) -> None:
    hook = "@pc.hookimpl\ndef on_failure(patch, error, context):\n    return 'ignore'\n"
    shop.write({"deals.py": FAILING if setting else f"{FAILING}\n{hook}"})
    environment = {"PATCHCORE_ON_FAILURE": "ignore"} if setting else {}
    assert last_words(shop, "-q", **environment) == []
    assert last_words(shop, **environment) == ["patchcore: nothing applied"]


def test_plugins_say_what_has_become_of_the_program(shop: Programs) -> None:
    shop.write({"deals.py": TELLS})
    assert last_words(shop) == ["patchcore: 1 planned, 1 reported; 1 applied"]


def test_a_plugin_that_fails_there_costs_its_words_only(shop: Programs) -> None:
    shop.write({"deals.py": BREAKS})
    *before, last = last_words(shop)
    assert last == "patchcore: 1 applied"
    assert "ZeroDivisionError" in "".join(before)


class TestQuiet:
    def test_nothing_is_said(self, shop: Programs) -> None:
        assert last_words(shop, "-q") == []

    def test_a_failure_is_said_once(self, shop: Programs) -> None:
        shop.write({"deals.py": FAILING})
        assert last_words(shop, "-q") == ["patchcore: failed: deals.double; 1 failed"]


class TestVerbose:
    def test_patches_are_listed(self, shop: Programs) -> None:
        assert last_words(shop, "-v") == ["patchcore: 1 applied", "  applied  deals.double [deals]"]

    def test_twice_shows_each_change(self, shop: Programs) -> None:
        assert last_words(shop, "-vv") == [
            "patchcore: 1 applied",
            "  applied  deals.double [deals]",
            "           replace shop.prices:price: applied",
        ]

    def test_it_is_a_setting_too(self, shop: Programs) -> None:
        assert len(last_words(shop, PATCHCORE_VERBOSITY="1")) == 2
        assert last_words(shop, "-q", PATCHCORE_VERBOSITY="2") == []  # the command line decides

    def test_another_value_is_refused_with_what_is_expected(self, shop: Programs) -> None:
        done = shop.run(shop.patchcore, "sell.py", code=2, PATCHCORE_VERBOSITY="loud")
        assert "PATCHCORE_VERBOSITY: verbosity = 'loud'; expected -1 (quiet), 0, 1 or 2" in done.stderr
