"""each_module: changes of modules that are not known before, made when each of them is imported."""

from __future__ import annotations

import importlib
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

import patchcore as pc
from patchcore.engine.engine import ENGINE


def doubled(original: Any, price: int) -> int:
    return 2 * original(price)


def taxes(module: ModuleType) -> list[pc.Wrap]:
    return [pc.Wrap(f"{module.__name__}:{name}", doubled) for name in vars(module) if name.endswith("tax")]


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A package with three modules, one of which takes a function of another by value."""
    package = tmp_path / "taxed_shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "se.py").write_text("def food_tax(price): return price // 4\ndef name(): return 'se'\n")
    (package / "de.py").write_text("from taxed_shop.se import food_tax\ndef car_tax(price): return price // 5\n")
    (package / "no.py").write_text("def name(): return 'no'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "taxed_shop"]:
        del sys.modules[name]


def patcher(changes: Any = taxes, **settings: Any) -> pc.Patcher:
    patch = pc.Patch("taxes", pc.EachModule("taxed_shop.*", changes))
    return pc.Patcher([patch], settings=pc.Settings(**settings)) if settings else pc.Patcher([patch])


def test_modules_are_changed_when_they_are_imported_and_restored(shop) -> None:
    with patcher() as applied:
        assert applied.report()["taxes"].status == "applied"
        se = importlib.import_module("taxed_shop.se")
        original_code = se.food_tax.__code__
        assert se.food_tax(40) == 20
        de = importlib.import_module("taxed_shop.de")
        importlib.import_module("taxed_shop.no")
        assert (de.food_tax(40), de.car_tax(40)) == (20, 16)
        record = applied.report()["taxes"]
        assert [change.target for change in record.changes] == [
            "taxed_shop.*",
            "taxed_shop.se:food_tax",
            "taxed_shop.de:food_tax",
            "taxed_shop.de:car_tax",
        ]
        assert record.changes[0].reason == "looked at 3 modules, changed 2"
    assert (se.food_tax(40), de.food_tax(40), de.car_tax(40)) == (10, 10, 8)
    assert se.food_tax.__code__ is not original_code
    assert importlib.reload(se).food_tax(40) == 10


def test_loaded_modules_are_changed_at_once(shop) -> None:
    se = importlib.import_module("taxed_shop.se")
    food_tax = se.food_tax
    with patcher():
        assert food_tax(40) == 20
    assert food_tax(40) == 10


def test_reloading_keeps_the_changes(shop) -> None:
    with patcher() as applied:
        se = importlib.import_module("taxed_shop.se")
        assert importlib.reload(se).food_tax(40) == 20
        assert len(applied.report()["taxes"].changes) == 2


def test_calls_are_counted(shop) -> None:
    applied = patcher(count=True)
    with applied:
        importlib.import_module("taxed_shop.se").food_tax(40)
        assert [change.calls for change in applied.report()["taxes"].changes] == [None, 1]


def test_an_error_of_the_function_fails_the_patch(shop) -> None:
    def broken(module: ModuleType) -> Any:
        if module.__name__.endswith("de"):
            raise ValueError("no taxes there")
        return taxes(module)

    with patcher(broken) as applied:
        se = importlib.import_module("taxed_shop.se")
        assert se.food_tax(40) == 20
        importlib.import_module("taxed_shop.de")
        record = applied.report()["taxes"]
        assert (record.status, "no taxes there" in record.reason) == ("failed", True)
        assert se.food_tax(40) == 10


def test_a_change_of_another_module_is_refused(shop) -> None:
    with patcher(lambda module: [pc.Wrap("json:dumps", doubled)]) as applied:
        importlib.import_module("taxed_shop.se")
        assert "must return changes of slots in taxed_shop.se" in applied.report()["taxes"].reason


@pytest.mark.parametrize("modules", ["*", "taxed_shop", "taxed_shop.", 3])
def test_what_names_no_package_is_refused(modules) -> None:
    with pytest.raises(pc.DeclarationError, match=r"write 'package\.\*'"):
        pc.EachModule(modules, taxes)


def test_nothing_is_watched_after_a_revert(shop) -> None:
    before = list(sys.meta_path)
    with patcher():
        assert sys.meta_path != before
    assert sys.meta_path == before
    assert ENGINE.active == []


def test_a_module_that_another_thread_is_importing(shop) -> None:
    (shop / "slow.py").write_text(
        "import threading\nBEGUN, GO = threading.Event(), threading.Event()\n"
        "import taxed_shop\ntaxed_shop.events = BEGUN, GO\nBEGUN.set()\nGO.wait(20)\ndef ice_tax(price): return price\n"
    )
    package = importlib.import_module("taxed_shop")
    thread = threading.Thread(target=importlib.import_module, args=["taxed_shop.slow"])
    thread.start()
    while not hasattr(package, "events"):
        pass
    begun, go = package.events
    assert begun.wait(20)
    with patcher() as applied:
        go.set()
        thread.join(20)
        assert sys.modules["taxed_shop.slow"].ice_tax(3) == 6
        assert applied.report()["taxes"].status == "applied"
    assert sys.modules["taxed_shop.slow"].ice_tax(3) == 3
