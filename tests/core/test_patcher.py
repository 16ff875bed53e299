"""patcher.py: discover -> collect -> plan -> apply -> report -> revert."""

from __future__ import annotations

import importlib
import logging
import sys
from types import ModuleType
from typing import Any

import pytest

import patchcore as pc
from patchcore.planning.candidates import Candidate
from patchcore.planning.provenance import Provenance
from patchcore.plugins import Plugins
from patchcore.process import process_rank
from patchcore.settings import Choice, LocalModule

RANKS = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def new() -> str:
    return "new"


@pytest.fixture(autouse=True)
def no_rank(monkeypatch) -> None:
    for variable in RANKS:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def shop(make_package) -> ModuleType:
    make_package({"shop": "def price(): return 'price'\ndef label(): return 'label'\ndef stock(): return 'stock'"})
    return importlib.import_module("shop")


PRICE = pc.Patch("shop.price", [pc.Replace("shop:price", new)])
LABEL = pc.Patch("shop.label", [pc.Replace("shop:label", new)], legacy_names=["tag"])
BAD = pc.Patch("shop.bad", [pc.Replace("shop:missing", new)])


def plugins(**hooks: Any) -> Plugins:
    """Return loaded plugins: one, called ``test``, with these functions as hooks."""
    module = ModuleType("test_plugin")
    for name, function in hooks.items():
        setattr(module, name, pc.hookimpl(function))
    made = Plugins(discover=False)
    made.load([(Provenance("test", "test-patches", "1.0"), lambda: module)])
    assert not made.problems
    return made


# --- apply and revert ----------------------------------------------------------------------------------------------


def test_a_with_block_restores_when_its_body_raises(shop) -> None:
    original = shop.price
    with pytest.raises(ZeroDivisionError), pc.Patcher([PRICE]):
        raise ZeroDivisionError
    assert shop.price is original


def test_a_decorator_applies_around_each_call(shop) -> None:
    patcher = pc.Patcher([PRICE])

    @patcher
    def read() -> str:
        return shop.price()

    assert [read(), shop.price(), read(), shop.price()] == ["new", "price", "new", "price"]


def test_a_decorated_function_that_calls_itself_stays_patched_to_its_end(shop) -> None:
    @pc.Patcher([PRICE])
    def read(depth: int) -> list[str]:
        inner = read(depth - 1) if depth else []
        return [*inner, shop.price()]

    assert read(2) == ["new", "new", "new"]
    assert shop.price() == "price"


def test_applying_twice_changes_nothing(shop) -> None:
    patch = pc.Patch("shop.wrap", [pc.Wrap("shop:price", lambda original: f"A({original()})")])
    patcher = pc.Patcher([patch])
    first = patcher.apply()
    assert patcher.apply() == first
    assert shop.price() == "A(price)"
    patcher.revert()
    assert shop.price() == "price"


def test_reverting_twice_or_without_applying_changes_nothing(shop) -> None:
    patcher = pc.Patcher([PRICE])
    assert patcher.revert().patches == ()
    patcher.apply()
    first = patcher.revert()
    shop.price = len
    assert patcher.revert() == first
    assert shop.price is len


def test_apply_of_the_package_stays_applied_or_is_a_with_block(shop, monkeypatch) -> None:
    monkeypatch.setenv("PATCHCORE_PLUGINS", "")
    patcher = pc.apply(patches=[PRICE])
    assert shop.price is new
    patcher.revert()
    with pc.apply(patches=[PRICE], strict=True):
        assert shop.price is new
    assert shop.price() == "price"


# --- choosing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disable", ["shop.label", LABEL, ["tag"], [LABEL], "shop:label", "test"])
def test_disable_takes_a_patch_a_name_a_legacy_name_a_target_or_a_plugin(disable) -> None:
    loaded = plugins(register_patches=lambda: [LABEL])
    patcher = pc.Patcher([PRICE], plugins=loaded, disable=disable)
    assert patcher.plan()["shop.label"].verdict != "apply"
    assert patcher.plan()["shop.price"].verdict in ("apply", "skipped")
    assert patcher.plan()["shop.label"].chosen_by == "disable="


def test_what_is_said_to_a_patcher_goes_over_settings(shop) -> None:
    settings = pc.Settings(choices=(Choice(False, "shop.price", "--disable", 2),))
    assert pc.Patcher([PRICE], settings=settings).plan()["shop.price"].verdict != "apply"
    assert pc.Patcher([PRICE], settings=settings, enable=PRICE).plan()["shop.price"].verdict == "apply"


def test_enabling_one_and_disabling_everything_leaves_the_one(shop) -> None:
    plan = pc.Patcher([PRICE, LABEL], enable="shop.price", disable="*").plan()
    assert [entry.patch.name for entry in plan if entry.verdict == "apply"] == ["shop.price"]


def test_the_last_word_to_a_patcher_counts(shop) -> None:
    patcher = pc.Patcher([PRICE])
    assert patcher.disable("shop.price").plan()["shop.price"].verdict != "apply"
    assert patcher.enable("shop.price").plan()["shop.price"].verdict == "apply"
    assert patcher.disable("*").plan()["shop.price"].verdict != "apply"


def test_an_unknown_name_raises_at_the_first_plan_and_applies_nothing(shop) -> None:
    patcher = pc.Patcher([PRICE], disable="shop.prise")
    with pytest.raises(pc.UnknownName, match=r"did you mean 'shop\.price'"):
        patcher.plan()
    with pytest.raises(pc.UnknownName):
        patcher.apply()
    assert shop.price() == "price"
    assert not patcher.applied


def test_an_unknown_name_is_noted_when_it_may_be_of_a_plugin_that_failed(shop, caplog) -> None:
    loaded = plugins(report_sections=lambda: [])  # noqa: PIE807 - pluggy marks it
    loaded.note(Provenance("broken"), "load", RuntimeError("no"))
    with pc.Patcher([PRICE], plugins=loaded, disable="broken.patch") as patcher:
        assert shop.price is new
        assert len(patcher.report().notes) == 1
    assert "disable= may belong to a plugin that is not loaded" in caplog.text


@pytest.mark.parametrize("names", ["noplugin", ["noplugin"]])
@pytest.mark.parametrize("settings", [None, pc.Settings()])
def test_discover_takes_settings_and_plugins_together(names, settings) -> None:
    with pytest.raises(pc.UnknownName, match="no plugin 'noplugin' is installed"):
        pc.Patcher.discover(settings=settings, plugins=names)


def test_discover_reads_environment_and_pyproject(tmp_path, monkeypatch) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.patchcore]\non_failure = 'ignore'\nplugins = []\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATCHCORE_DISABLE", "shop.price")
    patcher = pc.Patcher.discover(patches=[PRICE])
    assert patcher.settings.on_failure == "ignore"
    assert patcher.plan()["shop.price"].reason == "disabled by PATCHCORE_DISABLE (shop.price)"


# --- options -------------------------------------------------------------------------------------------------------


def seen_options(module: Any, options: Any) -> None:
    module.seen = options


CALL = pc.Patch("shop.call", [pc.Call(seen_options, module="shop")], options={"groups": 1, "bias": True})


def test_options_of_the_settings_reach_the_patch(shop) -> None:
    settings = pc.Settings(options={"shop.call": {"groups": 2}})
    with pc.Patcher([CALL], settings=settings):
        assert shop.seen == {"groups": 2}
    assert not hasattr(shop, "seen")


def test_options_reach_a_patch_under_its_legacy_name_too(shop) -> None:
    named = CALL.evolve(legacy_names=["call", "ring"])
    settings = pc.Settings(options={"call": {"groups": 2, "bias": False}, "shop.call": {"groups": 3}})
    with pc.Patcher([named], settings=settings):
        assert shop.seen == {"groups": 3, "bias": False}
    with pytest.raises(pc.UnknownName, match=r"options are set for 'rign'.*did you mean 'ring'"):
        pc.Patcher([named], settings=pc.Settings(options={"rign": {}})).plan()


def test_an_unknown_option_is_the_users_error_not_the_plugins() -> None:
    settings = pc.Settings(options={"shop.call": {"group": 2}})
    patcher = pc.Patcher(plugins=plugins(register_patches=lambda: [CALL]), settings=settings)
    with pytest.raises(pc.DeclarationError, match=r"patch shop\.call has no option 'group'; did you mean 'groups'\?"):
        patcher.plan()
    assert not patcher.plugins.problems


def test_options_for_an_unknown_patch_are_an_error() -> None:
    patcher = pc.Patcher([CALL], settings=pc.Settings(options={"shop.cal": {}}))
    with pytest.raises(pc.UnknownName, match=r"options are set for 'shop\.cal'.*did you mean 'shop\.call'"):
        patcher.plan()


@pytest.mark.parametrize("patches", [[PRICE, PRICE], [PRICE, "shop.price"]])
def test_patches_given_by_hand_that_clash_are_an_error(patches) -> None:
    with pytest.raises(pc.DeclarationError, match=r"is already used by local code|expected a Patch, got 'shop\.price'"):
        pc.Patcher(patches).plan()


# --- policy --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("misfit", [{"needs": "nolibrary"}, {"requires": "nolibrary>=1"}, {"when": lambda: False}])
def test_a_required_patch_that_does_not_fit_raises_and_applies_nothing(shop, misfit) -> None:
    required = pc.Patch("shop.required", [pc.Replace("shop:label", new)], required=True, priority=9, **misfit)
    patcher = pc.Patcher([PRICE, required])
    with pytest.raises(pc.PatchError, match=r"patch shop\.required \(local code\) cannot be applied: ") as e:
        patcher.apply()
    assert shop.price() == "price"
    assert e.value.report["shop.required"].status == "skipped"
    assert e.value.report["shop.price"].reason == "not tried"


def test_a_required_patch_that_says_disabled_as_its_reason_still_raises(shop) -> None:
    required = pc.Patch("shop.required", LABEL.changes, required=True, when=lambda: pc.Skip("disabled on this chip"))
    with pytest.raises(pc.PatchError, match="disabled on this chip"):
        pc.Patcher([required]).apply()


def test_a_required_patch_that_a_user_disables_is_not_missed(shop) -> None:
    required = pc.Patch("shop.required", LABEL.changes, required=True)
    with pc.Patcher([required], disable="*") as patcher:
        assert patcher.report()["shop.required"].status == "skipped"


def test_strict_raises_for_what_the_plan_finds_before_anything_is_touched(shop) -> None:
    told = []
    loaded = plugins(before_apply=lambda patch: told.append(patch.name))
    rival = pc.Patch("shop.rival", [pc.Replace("shop:price", len)])
    patcher = pc.Patcher([PRICE, rival], plugins=loaded, strict=True)
    with pytest.raises(pc.PatchError, match=r"shop:price is patched by both") as e:
        patcher.apply()
    assert told == []
    assert e.value.report["shop.rival"].status == "failed"


def test_a_hook_can_veto_a_patch(shop) -> None:
    vetoed = lambda patch: pc.Skip("not on this chip") if patch.name == "shop.price" else None  # noqa: E731
    with pc.Patcher([PRICE, LABEL], plugins=plugins(before_apply=vetoed)) as patcher:
        assert shop.price() == "price"
        assert shop.label is new
        record = patcher.report()["shop.price"]
    assert (record.status, record.reason) == ("skipped", "vetoed by plugin test, test-patches 1.0: not on this chip")
    assert record.changes[0].status == "skipped"


@pytest.mark.parametrize("policy", ["warn", "ignore", "raise"])
@pytest.mark.parametrize("answer", ["warn", "ignore", "raise"])
def test_on_failure_overrides_the_policy(shop, caplog, policy, answer) -> None:
    told = []

    def on_failure(patch: Any, error: Any, context: Any) -> str:
        told.append((patch.name, type(error), str(context.provenance)))
        return answer

    patcher = pc.Patcher([PRICE, BAD], plugins=plugins(on_failure=on_failure), settings=pc.Settings(on_failure=policy))
    caplog.set_level(logging.DEBUG, "patchcore")
    if answer == "raise":
        with pytest.raises(pc.PatchError, match="shop has no missing"):
            patcher.apply()
        assert shop.price() == "price"
    else:
        with patcher:
            assert shop.price is new
            counted = "1 applied, 1 failed" if answer == "warn" else "1 applied"
            assert patcher.report().summary() == counted
            assert patcher.report()["shop.bad"].status == "failed"
    assert told == [("shop.bad", pc.TargetNotFound, "local code")]
    levels = {r.levelname for r in caplog.records if "shop.bad (local code) failed" in r.getMessage()}
    assert levels == {{"warn": "WARNING", "ignore": "DEBUG", "raise": "ERROR"}[answer]}


def test_hooks_are_told_which_of_the_patchers_applies_that_share_plugins(shop, make_package) -> None:
    told = []

    def before_apply(patch: Any, context: Any) -> None:
        told.append(("before", patch.name, context.patcher))

    def on_failure(patch: Any, error: Any, context: Any) -> str:
        told.append(("failed", patch.name, context.patcher))
        return "ignore"

    make_package({"warehouse": ""})
    late = pc.Patch("warehouse.bad", [pc.Replace("warehouse:missing", new)])
    shared = plugins(before_apply=before_apply, on_failure=on_failure)
    one = pc.Patcher([PRICE, late], plugins=shared)
    two = pc.Patcher([late], plugins=shared)
    with one, two:
        importlib.import_module("warehouse")
    assert told == [
        ("before", "shop.price", one),
        ("before", "warehouse.bad", one),
        ("before", "warehouse.bad", two),
        ("failed", "warehouse.bad", one),
        ("failed", "warehouse.bad", two),
    ]


def test_no_built_in_hook_is_called_for_each_patch_where_none_is_concerned(shop) -> None:
    hooks = ("remarks", "before_apply", "after_apply")
    plain = pc.Patcher([PRICE])
    library = pc.Patcher([pc.Patch("library", pc.Replace("json:dumps", new))])
    found = [[h for h in hooks if p.collect() and p.plugins.implements(h)] for p in (plain, library)]
    assert found == [[], ["before_apply", "after_apply"]]


def test_after_collect_hears_of_all_patches_and_may_add_hooks(shop) -> None:
    class Added:
        @pc.hookimpl
        def before_apply(self, patch: pc.Patch) -> None:
            told.append(patch.name)

    def after_collect(plugins: Plugins, candidates: Any) -> None:
        told.extend((candidate.patch.name, candidate.provenance.plugin) for candidate in candidates)
        plugins.add(Added(), "added")
        plugins.add(Added(), "added")

    told: list[Any] = []
    loaded = plugins(register_patches=lambda: [LABEL, "no patch"], after_collect=after_collect)
    with pc.Patcher([PRICE], plugins=loaded):
        assert told == [("shop.price", "local"), ("shop.label", "test"), "shop.price", "shop.label"]


def test_after_apply_hears_each_status_and_again_after_an_import(make_package, shop) -> None:
    make_package({"later": "def f(): pass"})
    told = []
    loaded = plugins(after_apply=lambda patch, outcome: told.append((patch.name, outcome.status)))
    later = pc.Patch("shop.later", [pc.Replace("later:f", new)])
    patcher = pc.Patcher([PRICE, LABEL, BAD, later], plugins=loaded, disable="shop.label")
    with patcher:
        pass_one = [
            ("shop.bad", "failed"),
            ("shop.label", "skipped"),
            ("shop.later", "pending"),
            ("shop.price", "applied"),
        ]
        assert sorted(told) == pass_one
        told.clear()
        importlib.import_module("later")
        assert told == [("shop.later", "applied")]


def test_after_apply_hears_of_every_patch_of_an_apply_that_raises(shop) -> None:
    told: dict[str, str] = {}
    loaded = plugins(after_apply=lambda patch, outcome: told.update({patch.name: outcome.status}))
    with pytest.raises(pc.PatchError):
        pc.Patcher([PRICE, BAD, LABEL], plugins=loaded, strict=True).apply()
    assert told == {"shop.price": "reverted", "shop.bad": "failed", "shop.label": "skipped"}
    told.clear()
    misfit = pc.Patch("shop.misfit", requires="absent>=1", required=True)
    with pytest.raises(pc.PatchError):
        pc.Patcher([PRICE, misfit], plugins=loaded).apply()
    assert told == {"shop.price": "skipped", "shop.misfit": "skipped"}


@pytest.mark.parametrize(("strict", "others"), [(False, {}), (True, {"shop.price": "reverted"})])
def test_after_apply_hears_of_a_patch_that_fails_in_a_later_import(make_package, shop, strict, others) -> None:
    make_package({"later": "def f(): pass"})
    told: list[tuple[str, str]] = []
    loaded = plugins(after_apply=lambda patch, outcome: told.append((patch.name, outcome.status)))
    patcher = pc.Patcher([PRICE, pc.Patch("shop.later", [pc.Replace("later:g", new)])], plugins=loaded, strict=strict)
    patcher.apply()
    assert told == [("shop.price", "applied"), ("shop.later", "pending")]
    told.clear()
    try:
        importlib.import_module("later")
    except pc.PatchError:
        assert strict
    assert dict(told) == {"shop.later": "failed", **others}
    assert len(told) == len(dict(told))
    patcher.revert()


def test_a_plan_has_what_a_plugin_vetoes_and_prepares_nothing_for_it(shop) -> None:
    calls = []

    def before_apply(patch: pc.Patch, planning: bool) -> Any:
        calls.append((patch.name, planning))
        return pc.Skip("frozen") if patch is PRICE else None

    patcher = pc.Patcher([PRICE, LABEL], plugins=plugins(before_apply=before_apply))
    plan = patcher.plan()
    assert (plan["shop.price"].verdict, plan["shop.label"].verdict) == ("skipped", "apply")
    assert plan["shop.price"].reason == "vetoed by plugin test, test-patches 1.0: frozen"
    assert plan["shop.price"].asked_for
    assert {planning for _, planning in calls} == {True}
    calls.clear()
    with patcher:
        assert {planning for _, planning in calls} == {False}
        assert patcher.applied_plan == plan


def test_an_error_that_is_no_patch_error_reverts_too(shop, monkeypatch) -> None:
    def explode(*arguments: Any, **named: Any) -> None:
        raise MemoryError

    patcher = pc.Patcher([PRICE])
    with monkeypatch.context() as context:
        context.setattr("patchcore.patcher.ENGINE.rebind", explode)
        with pytest.raises(MemoryError):
            patcher.apply()
    assert shop.price() == "price"


# --- what is told --------------------------------------------------------------------------------------------------


def test_a_patch_error_carries_the_report(shop) -> None:
    with pytest.raises(pc.PatchError) as e:
        pc.Patcher([PRICE, BAD], strict=True).apply()
    assert isinstance(e.value.report, pc.Report)
    assert e.value.report["shop.bad"].status == "failed"
    assert isinstance(e.value.__cause__, pc.TargetNotFound)


def test_the_report_before_apply_is_empty(shop) -> None:
    report = pc.Patcher([PRICE]).report()
    assert report.patches == ()
    assert report.environment["pid"]


def test_the_summary_is_logged_on_rank_0_only(shop, monkeypatch, caplog) -> None:
    caplog.set_level(logging.INFO, "patchcore")
    with pc.Patcher([PRICE]):
        pass
    assert "1 applied" in caplog.text
    caplog.clear()
    monkeypatch.setenv("RANK", "1")
    with pc.Patcher([PRICE]):
        pass
    assert caplog.text == ""


@pytest.mark.parametrize("rank", ["0", "1", "7"])
def test_failures_are_logged_on_every_rank(shop, monkeypatch, caplog, rank) -> None:
    monkeypatch.setenv("RANK", rank)
    broken = pc.Patch("shop.when", [pc.Replace("shop:label", new)], when=lambda: 1 / 0)
    loaded = plugins(before_apply=lambda: 1 / 0)
    with pc.Patcher([BAD, broken], plugins=loaded) as patcher:
        shop.price = new
    assert "patch shop.bad (local code) failed: replace shop:missing: shop has no missing" in caplog.text
    assert "patch shop.when [local]: its when condition raised ZeroDivisionError" in caplog.text
    assert "plugin test (test-patches 1.0): before_apply failed: ZeroDivisionError" in caplog.text
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert patcher.report().environment["rank"] == int(rank)


def test_a_failure_in_a_later_import_is_logged(make_package, caplog) -> None:
    make_package({"later": ""})
    with pc.Patcher([pc.Patch("shop.later", [pc.Replace("later:f", new)])]):
        import later  # noqa: F401

        assert "patch shop.later (local code) failed: replace later:f: later has no f" in caplog.text


def test_the_policy_ignore_says_nothing_above_debug(shop, caplog) -> None:
    caplog.set_level(logging.INFO, "patchcore")
    broken = pc.Patch("shop.when", [pc.Replace("shop:label", new)], when=lambda: 1 / 0)
    with pc.Patcher([BAD, broken], settings=pc.Settings(on_failure="ignore")):
        pass
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_the_notes_of_a_revert_are_logged(shop, caplog) -> None:
    with pc.Patcher([PRICE]):
        shop.price = len
    assert "shop:price: other code had put builtins:len on top of the patch" in caplog.text


@pytest.mark.parametrize("variable", RANKS)
def test_the_rank_is_read_from_the_launchers_variable(monkeypatch, variable) -> None:
    assert process_rank() == 0
    monkeypatch.setenv(variable, "3")
    assert process_rank() == 3
    monkeypatch.setenv("RANK", "5")
    assert process_rank() == 5
    monkeypatch.setenv(variable, "not a number")
    monkeypatch.setenv("RANK", "")
    assert process_rank() == 0


def test_a_working_directory_that_was_deleted_does_not_stop_a_patcher(shop, monkeypatch) -> None:
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr("os.getcwd", gone)
    with pc.Patcher([PRICE]) as patcher:
        assert patcher.report().environment["directory"] == ""


def test_repr_says_whether_it_is_applied(shop) -> None:
    patcher = pc.Patcher([PRICE, LABEL])
    assert repr(patcher) == "<Patcher not applied, 0 patches>"
    with patcher:
        assert repr(patcher) == "<Patcher applied, 2 patches>"


# --- what comes to fit later ---------------------------------------------------------------------------------------


TAX = pc.Patch("tax.rate", [pc.Replace("tax:rate", new)])
KERNEL = pc.Patch("shop.kernel", [pc.Replace("shop:stock", "kernels:stock")], needs=["kernels"])
LATER = {"tax": "def rate(): return 'rate'", "kernels": "def stock(): return 'kernel'"}


def statuses(report: pc.Report) -> dict[str, str]:
    return {record.name: record.status for record in report.patches}


def test_a_refresh_applies_what_has_come_to_fit(make_package, shop) -> None:
    original = shop.price
    with pc.Patcher([PRICE, TAX, KERNEL], strict=True) as patcher:
        assert statuses(patcher.report()) == {"shop.price": "applied", "tax.rate": "skipped", "shop.kernel": "skipped"}
        make_package({"kernels": LATER["kernels"]})
        assert statuses(patcher.refresh()) == {
            "shop.price": "applied",
            "shop.kernel": "applied",
            "tax.rate": "skipped",
        }
        assert (shop.price, shop.stock()) == (new, "kernel")
        make_package({"tax": LATER["tax"]})
        assert patcher.refresh()["tax.rate"].status == "pending"
        assert importlib.import_module("tax").rate is new
        assert [entry.patch.name for entry in patcher.applied_plan if entry.verdict != "apply"] == []
    assert (shop.price, shop.stock()) == (original, "stock")
    assert importlib.import_module("tax").rate() == "rate"


def test_a_refresh_without_news_changes_nothing(make_package, shop) -> None:
    told = []
    loaded = plugins(after_apply=lambda patch: told.append(patch.name))
    stacked = pc.Patch("shop.wrap", [pc.Wrap("shop:price", lambda original: f"A({original()})")])
    with pc.Patcher([stacked, TAX, LABEL], plugins=loaded, disable="shop.label") as patcher:
        before = patcher.report()
        told.clear()
        for _ in range(3):
            assert patcher.refresh() == before
        assert told == []
        assert shop.price() == "A(price)"
        make_package({"kernels": ""})  # nobody needs it
        assert patcher.refresh() == before


def test_a_refresh_before_apply_or_after_revert_applies_nothing(shop) -> None:
    patcher = pc.Patcher([PRICE])
    assert patcher.refresh().patches == ()
    assert shop.price() == "price"
    patcher.apply()
    reverted = patcher.revert()
    assert patcher.refresh() == reverted
    assert shop.price() == "price"
    assert not patcher.applied


def test_a_refresh_looks_at_conditions_again(shop) -> None:
    ready = []
    patch = PRICE.evolve(when=lambda: bool(ready) or pc.Skip("not yet"))
    with pc.Patcher([patch]) as patcher:
        assert patcher.report()["shop.price"].reason == "not yet"
        ready.append(True)
        record = patcher.refresh()["shop.price"]
        assert (record.status, record.reason) == ("applied", "")
        ready.clear()
        assert patcher.refresh()["shop.price"].status == "applied"
        assert shop.price is new


def test_a_refresh_says_a_new_reason(make_package, shop) -> None:
    patch = pc.Patch("p", [pc.Replace("tax:rate", new)], needs=["kernels"])
    with pc.Patcher([patch]) as patcher:
        assert "needs module kernels" in patcher.report()["p"].reason
        make_package({"kernels": ""})
        assert patcher.refresh()["p"].reason == "tax is not installed"


def test_after_apply_is_told_once_of_a_patch_that_came_to_fit(make_package, shop) -> None:
    told = []
    loaded = plugins(after_apply=lambda patch, outcome: told.append((patch.name, outcome.status)))
    with pc.Patcher([PRICE, TAX, KERNEL], plugins=loaded) as patcher:
        told.clear()
        make_package(LATER)
        patcher.refresh()
        assert sorted(told) == [("shop.kernel", "applied"), ("tax.rate", "pending")]
        told.clear()
        importlib.import_module("tax")
        patcher.refresh()
        assert told == [("tax.rate", "applied")]


def test_a_patch_that_was_vetoed_stays_so_and_one_that_comes_to_fit_can_be(make_package, shop) -> None:
    asked = []

    def before_apply(patch: Any) -> Any:
        asked.append(patch.name)
        return pc.Skip("no") if patch.name != "shop.kernel" else None

    with pc.Patcher([PRICE, TAX, KERNEL], plugins=plugins(before_apply=before_apply)) as patcher:
        assert asked == ["shop.price"]
        make_package(LATER)
        report = patcher.refresh()
        assert sorted(asked) == ["shop.kernel", "shop.price", "tax.rate"]
        assert patcher.refresh() == report
        assert len(asked) == 3
        assert statuses(report) == {"shop.price": "skipped", "shop.kernel": "applied", "tax.rate": "skipped"}
        assert report["tax.rate"].reason == "vetoed by plugin test, test-patches 1.0: no"


def test_a_patch_that_failed_is_not_tried_again(shop, caplog) -> None:
    with pc.Patcher([PRICE, BAD]) as patcher:
        shop.missing = len
        caplog.clear()
        assert patcher.refresh()["shop.bad"].status == "failed"
        assert caplog.records == []
        assert shop.missing is len


BAD_KERNEL = pc.Patch("shop.kernel", [pc.Replace("shop:stock", "kernels:nosuch")], needs=["kernels"])


def test_a_patch_that_comes_to_fit_and_fails_takes_no_other_with_it(make_package, shop, caplog) -> None:
    with pc.Patcher([PRICE, BAD_KERNEL, TAX]) as patcher:
        make_package(LATER)
        report = patcher.refresh()
        assert statuses(report) == {"shop.price": "applied", "shop.kernel": "failed", "tax.rate": "pending"}
        assert len([r for r in caplog.records if "shop.kernel (local code) failed" in r.getMessage()]) == 1
        assert shop.price is new


def test_under_the_policy_to_raise_a_refresh_that_fails_reverts_everything(make_package, shop) -> None:
    patcher = pc.Patcher([PRICE, BAD_KERNEL], strict=True)
    patcher.apply()
    assert shop.price is new
    make_package({"kernels": LATER["kernels"]})
    with pytest.raises(
        pc.PatchError, match=r"shop\.kernel \(local code\) failed: .*kernels:nosuch does not exist"
    ) as e:
        patcher.refresh()
    assert statuses(e.value.report)["shop.kernel"] == "failed"
    assert shop.price() == "price"
    assert not patcher.applied


def test_a_plan_that_fails_under_the_policy_to_raise_reverts_everything(shop) -> None:
    broken = []
    patch = LABEL.evolve(when=lambda: 1 / 0 if broken else pc.Skip("not yet"))
    patcher = pc.Patcher([PRICE, patch], strict=True)
    patcher.apply()
    broken.append(True)
    with pytest.raises(pc.PatchError, match=r"shop\.label \(local code\) cannot be applied: .*ZeroDivisionError"):
        patcher.refresh()
    assert shop.price() == "price"


def test_a_patch_that_comes_to_fit_stacks_on_those_before_it(make_package, shop) -> None:
    inner = pc.Patch("shop.inner", [pc.Wrap("shop:price", lambda original: f"inner({original()})")])
    outer = pc.Patch(
        "shop.outer", [pc.Wrap("shop:price", lambda original: f"outer({original()})")], after=[inner], needs=["kernels"]
    )
    with pc.Patcher([outer, inner]) as patcher:
        assert shop.price() == "inner(price)"
        make_package({"kernels": ""})
        patcher.refresh()
        assert shop.price() == "outer(inner(price))"
    assert shop.price() == "price"


def test_a_patch_that_comes_to_fit_goes_under_those_after_it(make_package, shop) -> None:
    inner = pc.Patch("shop.inner", [pc.Wrap("shop:price", lambda original: f"inner({original()})")], needs=["kernels"])
    outer = pc.Patch("shop.outer", [pc.Wrap("shop:price", lambda original: f"outer({original()})")], after=[inner])
    with pc.Patcher([outer, inner]) as patcher:
        assert shop.price() == "outer(price)"
        make_package({"kernels": ""})
        patcher.refresh()
        assert shop.price() == "outer(inner(price))"


def test_a_patch_that_comes_to_fit_does_not_put_another_out(make_package, shop) -> None:
    rival = pc.Patch("shop.a", [pc.Replace("shop:price", len)], needs=["kernels"])
    with pc.Patcher([rival, PRICE]) as patcher:
        make_package({"kernels": ""})
        assert statuses(patcher.refresh()) == {"shop.a": "failed", "shop.price": "applied"}
        assert shop.price is new
        plan = patcher.applied_plan
        assert (plan["shop.a"].verdict, plan["shop.price"].verdict) == ("failed", "apply")


def test_the_applied_plan_is_that_of_the_last_apply_or_refresh(make_package, shop) -> None:
    patcher = pc.Patcher([PRICE, TAX])
    assert patcher.applied_plan["tax.rate"].verdict != "apply"
    make_package({"tax": LATER["tax"]})
    assert patcher.applied_plan["tax.rate"].verdict == "apply"  # the one that would be
    with patcher:
        applied = patcher.applied_plan
        assert applied["tax.rate"].verdict == "apply"
        patcher.disable("shop.price")
        assert patcher.applied_plan is applied
        assert patcher.plan()["shop.price"].verdict != "apply"
    assert patcher.applied_plan is applied


# --- local modules -------------------------------------------------------------------------------------------------


def test_local_modules_are_imported_from_their_directories_first_and_leave_them_last(
    tmp_path, make_package, monkeypatch
) -> None:
    source = "import patchcore as pc\n@pc.hookimpl\ndef register_patches(): return [pc.Patch('{}.p', [])]\n"
    names = ("deals_one", "deals_two")
    make_package(dict.fromkeys(names, "raise ImportError('the wrong one')"))
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text(source.format(name))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    modules = tuple(LocalModule(name, str(tmp_path / name)) for name in names)
    patcher = pc.Patcher.discover(plugins=[], settings=pc.Settings(modules=modules))
    assert {candidate.patch.name for candidate in patcher.collect()} == {"deals_one.p", "deals_two.p"}
    assert not patcher.plugins.problems
    assert sys.path == [*before, *(str(tmp_path / name) for name in names)]
    assert [p.file for p in patcher.plugins.provenances.values()] == [
        str(tmp_path / name / f"{name}.py") for name in names
    ]


def test_a_patch_of_a_plugin_stays_that_plugins_when_it_is_handed_over(shop) -> None:
    provenance = Provenance("vision", "vision-npu", "1.0")
    patcher = pc.Patcher([Candidate(PRICE, provenance)])
    record = patcher.apply()["shop.price"]
    assert (record.plugin, record.distribution, record.version) == ("vision", "vision-npu", "1.0")
    assert shop.price() == "new"
    patcher.revert()


def test_a_name_that_is_taken_twice_among_the_patches_handed_over_is_an_error(shop) -> None:
    with pytest.raises(pc.DeclarationError, match=r"'shop\.price' is already used by"):
        pc.Patcher([PRICE, Candidate(PRICE, Provenance("vision"))]).plan()
