"""engine.py: patches are written whole or not at all, now or on import, and taken back exactly."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest

import patchcore as pc
from patchcore.engine.engine import ENGINE

SHOP = """
    def price(): return "price"
    def label(): return "label"
    def stock(): return "stock"
    def order(): return "order"
    def total(): return "total"
    class Item:
        def weigh(self): return "weigh"
        @staticmethod
        def unit(): return "unit"
    class Book(Item):
        pass
    TABLE = {"price": price}
"""


def new() -> str:
    return "new"


def tagged(tag: str) -> Any:
    def wrapper(original: Any, *args: Any) -> str:
        return f"{tag}({original(*args)})"

    return wrapper


@pytest.fixture
def shop(make_package) -> ModuleType:
    make_package({"shop": SHOP})
    return importlib.import_module("shop")


# --- transactional -------------------------------------------------------------------------------------------------


def test_when_change_3_of_5_fails_1_and_2_are_undone_and_the_report_says_why(shop) -> None:
    before = dict(vars(shop))
    names = ("price", "label", "stok", "order", "total")
    patcher = pc.Patcher([pc.Patch("shop.all", [pc.Replace(f"shop:{name}", new) for name in names])])
    record = patcher.apply()["shop.all"]
    assert vars(shop) == before
    assert record.status == "failed"
    assert record.reason == "shop has no stok (target shop:stok); did you mean 'stock'?"
    assert [c.status for c in record.changes] == ["reverted", "reverted", "failed", "skipped", "skipped"]
    assert record.changes[0].reason == "undone because replace shop:stok failed"
    assert record.changes[3].reason == "not tried because replace shop:stok failed"
    assert patcher.revert()["shop.all"].status == "failed"


def test_a_failure_in_a_later_import_undoes_what_consumers_have_taken_by_value(make_package) -> None:
    make_package(
        {
            "shop": SHOP,
            "later": "",
            "replacements": "def price(): return 'replaced'",
            "before": "from shop import price as cost, label as tag",
            "between": """
                from shop import price as cost, label as tag, Item
                class Mine(Item):
                    cost = staticmethod(cost)
            """,
        }
    )
    import before
    import shop

    originals = {name: vars(shop)[name] for name in ("price", "label")}
    changes = [
        pc.Replace("shop:price", "replacements:price"),
        pc.Wrap("shop:label", tagged("A")),
        pc.Replace("later:missing", new),
    ]
    with pc.Patcher([pc.Patch("shop.patch", changes)]) as patcher:
        import between
        import replacements

        home = replacements.price
        assert before.cost is between.cost is between.Mine.cost is shop.price is home
        assert between.tag is shop.label
        assert between.tag() == "A(label)"
        assert patcher.report()["shop.patch"].status == "pending"
        import later  # noqa: F401

        assert patcher.report()["shop.patch"].status == "failed"
        for consumer in (before, between):
            assert consumer.cost is originals["price"]
            assert consumer.tag is originals["label"]
        assert between.Mine.cost is originals["price"]
        assert isinstance(vars(between.Mine)["cost"], staticmethod)
        assert replacements.price is home


def test_strict_undoes_everything_applied_before_the_failure_and_raises(shop) -> None:
    before = dict(vars(shop))
    good = pc.Patch("shop.good", [pc.Replace("shop:price", new)])
    bad = pc.Patch("shop.bad", [pc.Replace("shop:nothing", new)])
    patcher = pc.Patcher([good, bad, pc.Patch("shop.never", [pc.Replace("shop:label", new)])], strict=True)
    with pytest.raises(
        pc.PatchError, match=r"patch shop\.bad \(local code\) failed: replace shop:nothing: shop has no"
    ) as e:
        patcher.apply()
    assert vars(shop) == before
    assert not patcher.applied
    assert [r.status for r in e.value.report.patches] == ["reverted", "failed", "skipped"]
    assert e.value.report["shop.never"].reason == "not tried"


def test_strict_inside_an_import_fails_the_import_and_undoes_everything(make_package, shop) -> None:
    make_package({"later": ""})
    before = dict(vars(shop))
    good = pc.Patch("shop.good", [pc.Replace("shop:price", new)])
    bad = pc.Patch("later.bad", [pc.Replace("later:missing", new)])
    patcher = pc.Patcher([good, bad], strict=True)
    patcher.apply()
    assert shop.price is new
    with pytest.raises(pc.PatchError, match="later has no missing"):
        import later
    assert vars(shop) == before
    assert not patcher.applied
    import later  # noqa: F401  # nobody watches any more


def test_strict_inside_an_import_that_a_replacement_makes_is_not_swallowed(make_package, shop) -> None:
    make_package({"kernels": "import inner\ndef price(): return 'kernel'", "inner": ""})
    before = dict(vars(shop))
    bad = pc.Patch("inner.bad", [pc.Replace("inner:missing", new)])
    outer = pc.Patch("shop.price", [pc.Replace("shop:price", "kernels:price")])
    patcher = pc.Patcher([bad, outer], strict=True)
    with pytest.raises(pc.PatchError, match="inner has no missing"):
        patcher.apply()
    assert vars(shop) == before


def test_required_raises_where_the_policy_is_to_warn(shop) -> None:
    patch = pc.Patch("shop.bad", [pc.Replace("shop:price", new), pc.Replace("shop:nothing", new)], required=True)
    with pytest.raises(pc.PatchError, match="shop has no nothing"):
        pc.Patcher([patch]).apply()
    assert shop.price() == "price"


def test_an_interrupt_during_apply_leaves_nothing_applied(shop) -> None:
    before = dict(vars(shop))

    def factory(original: Any) -> Any:
        raise KeyboardInterrupt

    first = pc.Patch("shop.first", [pc.Replace("shop:price", new)])
    second = pc.Patch("shop.second", [pc.Replace("shop:label", new), pc.Replace("shop:stock", factory=factory)])
    patcher = pc.Patcher([first, second])
    with pytest.raises(KeyboardInterrupt):
        patcher.apply()
    assert vars(shop) == before
    assert not patcher.applied


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_a_failing_function_patched_by_hand_is_undone(shop, error) -> None:
    before = dict(vars(shop))

    def by_hand(module: Any, options: Any) -> None:
        module.price = new
        module.Item.weigh = new
        module.added = new
        raise error("half way")

    patcher = pc.Patcher([pc.Patch("shop.call", [pc.Call(by_hand, module="shop")])])
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            patcher.apply()
    else:
        assert "half way" in patcher.apply()["shop.call"].reason
    assert vars(shop) == before
    assert shop.Item().weigh() == "weigh"
    patcher.revert()


# --- several Patchers ----------------------------------------------------------------------------------------------


def test_a_second_patcher_shares_the_patch_and_the_last_holder_releases_it(shop) -> None:
    original = shop.price
    patch = pc.Patch("shop.wrap", [pc.Wrap("shop:price", tagged("A"))])
    first, second = pc.Patcher([patch]), pc.Patcher([patch])
    first.apply()
    second.apply()
    assert shop.price() == "A(price)"
    first.revert()
    assert shop.price() == "A(price)"
    assert first.report()["shop.wrap"].status == "reverted"
    assert first.report()["shop.wrap"].reason == "another Patcher still applies it"
    second.revert()
    assert shop.price is original


def test_equal_declarations_made_twice_are_one_patch(shop) -> None:
    wrapper = tagged("A")

    def declare() -> pc.Patch:
        return pc.Patch("shop.wrap", [pc.Wrap("shop:price", wrapper)])

    with pc.Patcher([declare()]), pc.Patcher([declare()]):
        assert shop.price() == "A(price)"


def test_different_patches_of_two_patchers_stack_and_come_off_in_any_order(shop) -> None:
    original = shop.price
    first = pc.Patcher([pc.Patch("shop.a", [pc.Wrap("shop:price", tagged("A"))])])
    second = pc.Patcher([pc.Patch("shop.b", [pc.Wrap("shop:price", tagged("B"))])])
    first.apply()
    second.apply()
    assert shop.price() == "B(A(price))"
    first.revert()
    assert shop.price() == "B(price)"
    second.revert()
    assert shop.price is original


def test_a_shared_patch_that_fails_on_import_is_told_to_every_holder(make_package) -> None:
    make_package({"later": ""})
    patch = pc.Patch("later.bad", [pc.Replace("later:missing", new)])
    strict, lenient = pc.Patcher([patch], strict=True), pc.Patcher([patch])
    strict.apply()
    lenient.apply()
    with pytest.raises(pc.PatchError):
        import later  # noqa: F401
    assert strict.report()["later.bad"].status == "failed"
    assert lenient.report()["later.bad"].status == "failed"
    assert not strict.applied
    assert lenient.applied
    lenient.revert()


def test_a_patch_that_failed_is_tried_again_by_the_next_patcher(shop) -> None:
    patch = pc.Patch("shop.patch", [pc.Replace("shop:missing", new)])
    first = pc.Patcher([patch])
    assert first.apply()["shop.patch"].status == "failed"
    original = shop.missing = shop.price
    with pc.Patcher([patch]) as second:
        assert second.report()["shop.patch"].status == "applied"
        assert shop.missing is new
    assert shop.missing is original
    first.revert()


# --- aliases and conflicts -----------------------------------------------------------------------------------------

ALIASED = {"lib": "from lib.ops import area", "lib.ops": "def area(): return 'area'"}


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "imported later"])
@pytest.mark.parametrize("order", [("lib.ops:area", "lib:area"), ("lib:area", "lib.ops:area")])
def test_an_alias_to_the_same_object_does_not_wrap_twice(make_package, loaded, order) -> None:
    make_package(ALIASED)
    if loaded:
        import lib.ops
    wrapper = tagged("A")
    patcher = pc.Patcher([pc.Patch("lib.area", [pc.Wrap(target, wrapper) for target in order])])
    patcher.apply()
    import lib.ops

    assert lib.area() == "A(area)"
    assert lib.ops.area() == "A(area)"
    assert patcher.report()["lib.area"].status == "applied"
    patcher.revert()
    assert lib.area is lib.ops.area
    assert lib.area() == "area"


def test_the_same_change_twice_in_a_patch_is_made_once(shop) -> None:
    wrapper = tagged("A")
    with pc.Patcher([pc.Patch("shop.wrap", [pc.Wrap("shop:price", wrapper), pc.Wrap("shop.price", wrapper)])]):
        assert shop.price() == "A(price)"


def test_a_method_wrapped_in_the_base_class_is_not_wrapped_again_where_it_is_inherited(shop) -> None:
    wrapper = tagged("A")
    changes = [pc.Wrap("shop:Item.weigh", wrapper), pc.Wrap("shop:Book.weigh", wrapper)]
    with pc.Patcher([pc.Patch("shop.wrap", changes)]) as patcher:
        assert shop.Book().weigh() == "A(weigh)"
        assert patcher.report()["shop.wrap"].changes[1].reason == "through shop:Item.weigh"
    assert "weigh" not in vars(shop.Book)


def test_a_conflict_through_an_alias_that_no_source_shows_is_found_when_it_is_applied(make_package) -> None:
    make_package({**ALIASED, "lib": "import lib.ops\nglobals().update(area=lib.ops.area)"})
    inner = pc.Patch("lib.inner", [pc.Wrap("lib.ops:area", tagged("inner"))])
    outer = pc.Patch("lib.outer", [pc.Wrap("lib:area", tagged("outer"))])
    patcher = pc.Patcher([inner, outer])
    assert not patcher.plan().conflicts
    patcher.apply()
    import lib.ops

    record = patcher.report()["lib.outer"]
    assert record.status == "failed"
    assert (
        "lib:area (reached through lib.ops:area) is patched by both lib.inner (local code) and lib.outer"
        in record.reason
    )
    assert "declare after=['lib.inner'] in lib.outer" in record.reason
    assert lib.area is lib.ops.area
    assert lib.area() == "inner(area)"
    patcher.revert()
    assert lib.area is lib.ops.area
    assert lib.area() == "area"


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "imported later"])
def test_patches_that_declare_their_order_stack_through_an_alias(make_package, loaded) -> None:
    make_package({**ALIASED, "user": "from lib import area"})
    if loaded:
        import lib.ops
        import user
    inner = pc.Patch("lib.inner", [pc.Wrap("lib.ops:area", tagged("inner"))])
    outer = pc.Patch("lib.outer", [pc.Wrap("lib:area", tagged("outer"))], after=["lib.inner"])
    patcher = pc.Patcher([outer, inner])
    patcher.apply()
    import lib.ops
    import user

    assert lib.ops.area() == lib.area() == user.area() == "outer(inner(area))"  # one function, which has one body
    patcher.revert()
    assert user.area is lib.area is lib.ops.area
    assert lib.area() == "area"


def test_an_alias_that_the_replacement_itself_reads_stays_the_original(make_package) -> None:
    make_package({**ALIASED, "plug": "from lib import area as plain\ndef area(): return f'plug({plain()})'"})
    import lib.ops
    import plug

    patch = pc.Patch("lib.area", [pc.Replace("lib.ops:area", "plug:area")])
    with pc.Patcher([patch]) as patcher:
        assert lib.area() == lib.ops.area() == "plug(area)"
        assert patcher.report()["lib.area"].changes[0].kept == ("plug:plain",)
    assert plug.plain is lib.area


def test_stacked_wrappers_keep_the_originals_that_either_of_them_reads(make_package) -> None:
    make_package(
        {
            "lib": "def area(): return 'area'",
            "plug": """
                from lib import area
                def second(original): return f"second({original()} {area()})"
            """,
        }
    )
    import lib
    import plug

    first = pc.Patch("lib.first", [pc.Wrap("lib:area", tagged("first"))])
    second = pc.Patch("lib.second", [pc.Wrap("lib:area", plug.second)], after=["lib.first"])
    with pc.Patcher([first, second]):
        assert lib.area() == "second(first(area) area)"
    assert plug.area is lib.area


def test_patching_the_replacement_where_it_is_defined_is_no_conflict(make_package, shop) -> None:
    make_package({"kernels": "def price(): return 'kernel'"})
    import kernels

    home = kernels.price
    uses = pc.Patch("shop.price", [pc.Replace("shop:price", "kernels:price")])
    wraps = pc.Patch("kernels.price", [pc.Wrap("kernels:price", tagged("A"))])
    original = shop.price
    patcher = pc.Patcher([uses, wraps])
    assert [r.status for r in patcher.apply().patches] == ["applied", "applied"]
    assert kernels.price() == "A(kernel)"
    patcher.revert()
    assert kernels.price is home
    assert shop.price is original


def test_one_replacement_in_two_slots_is_no_conflict(shop) -> None:
    originals = shop.price, shop.label
    first = pc.Patch("shop.first", [pc.Replace("shop:price", new)])
    second = pc.Patch("shop.second", [pc.Replace("shop:label", new)])
    patcher = pc.Patcher([first, second])
    assert [r.status for r in patcher.apply().patches] == ["applied", "applied"]
    patcher.revert()
    assert (shop.price, shop.label) == originals


# --- modules that come later, in another way, or not at all --------------------------------------------------------


@pytest.mark.parametrize("loaded", [True, False], ids=["loaded", "imported later"])
def test_an_unknown_submodule_fails_with_the_nearest_name(make_package, loaded) -> None:
    make_package({"lib": "", "lib.operators": "", "lib.layers": ""})
    if loaded:
        import lib
    patcher = pc.Patcher([pc.Patch("lib.patch", [pc.Replace("lib.operator:area", new)])])
    patcher.apply()
    import lib  # noqa: F401

    record = patcher.report()["lib.patch"]
    assert record.status == "failed"
    assert record.reason == "lib has no module 'lib.operator'; did you mean 'lib.operators'?"
    patcher.revert()


def test_a_module_that_its_parent_makes_at_run_time_is_patched(make_package) -> None:
    make_package(
        {
            "lib": """
                import sys, types
                made = sys.modules["lib.made"] = types.ModuleType("lib.made")
                exec("def area(): return 'area'", made.__dict__)
            """,
            "lib.other": "",
        }
    )
    with pc.Patcher([pc.Patch("lib.patch", [pc.Wrap("lib.made:area", tagged("A"))])]) as patcher:
        import lib

        assert patcher.report()["lib.patch"].status == "applied"
        assert lib.made.area() == "A(area)"
    assert lib.made.area() == "area"


def test_a_module_put_in_sys_modules_by_hand_is_patched_by_the_next_refresh(monkeypatch) -> None:
    told = []

    class Hooks:
        @pc.hookimpl
        def after_apply(self, patch: Any, outcome: Any) -> None:
            told.append(outcome.status)

    plugins = plugins_with(Hooks())
    module = ModuleType("byhand")
    spec = importlib.machinery.ModuleSpec("byhand", None)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder("byhand", spec)])
    with pc.Patcher([pc.Patch("byhand.patch", [pc.Replace("byhand:f", new)])], plugins=plugins) as patcher:
        assert told == ["pending"]
        original = module.f = lambda: "original"
        monkeypatch.setitem(sys.modules, "byhand", module)
        assert patcher.report()["byhand.patch"].status == "pending"
        assert patcher.refresh()["byhand.patch"].status == "applied"
        assert module.f is new
        assert told == ["pending", "applied"]
    assert module.f is original


class Finder:
    def __init__(self, name: str, spec: Any) -> None:
        self.name, self.spec = name, spec

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return self.spec if name == self.name else None


def plugins_with(plugin: Any) -> Any:
    from patchcore.plugins import Plugins

    plugins = Plugins(discover=False)
    plugins.load([(pc.plugins.Provenance("test"), lambda: plugin)])
    return plugins


def test_a_module_imported_again_is_patched_again_and_both_are_restored(make_package, shop) -> None:
    old, original = shop, shop.price
    with pc.Patcher(
        [pc.Patch("shop.patch", [pc.Replace("shop:price", new), pc.Wrap("shop:Item.weigh", tagged("A"))])]
    ) as p:
        del sys.modules["shop"]
        again = importlib.import_module("shop")
        assert again is not old
        assert again.price is old.price is new
        assert again.Item().weigh() == "A(weigh)"
        assert p.report()["shop.patch"].changes[0].slots == ("shop:price",)
    assert old.price is original
    assert again.price() == "price"
    assert again.Item().weigh() == "weigh"


def test_a_reloaded_module_is_patched_again_without_wrapping_twice(make_package, shop) -> None:
    make_package({"user": "from shop import price as cost"})
    import user

    first = pc.Patch("shop.a", [pc.Wrap("shop:price", tagged("A")), pc.Wrap("shop:Item.weigh", tagged("A"))])
    second = pc.Patch("shop.b", [pc.Wrap("shop:price", tagged("B"))], after=["shop.a"])
    with pc.Patcher([first, second]):
        item = shop.Item
        importlib.reload(shop)
        assert shop.Item is not item
        assert shop.price() == "B(A(price))"
        assert shop.Item().weigh() == item().weigh() == "A(weigh)"
        assert user.cost is not shop.price  # as after any reload
        assert user.cost() == "B(A(price))"
    assert shop.price() == "price"
    assert shop.Item().weigh() == "weigh"
    assert item().weigh() == "weigh"
    assert user.cost() == "price"


def test_a_wrapper_whose_module_imports_the_target_first_is_put_in_place_when_that_module_is_done(make_package) -> None:
    make_package(
        {
            "shop": SHOP,
            "plug": """
                import shop
                def wrapper(original, *args, **kwargs): return f"plug({original(*args, **kwargs)})"
            """,
        }
    )
    with pc.Patcher([pc.Patch("shop.patch", [pc.Wrap("shop:price", "plug:wrapper")])], strict=True):
        import plug

        assert plug.shop.price() == "plug(price)"


def test_a_function_that_patches_by_hand_runs_again_after_a_reload(shop) -> None:
    def by_hand(module: Any, options: Any) -> None:
        module.price = new

    with pc.Patcher([pc.Patch("shop.call", [pc.Call(by_hand, module="shop")])]):
        importlib.reload(shop)
        assert shop.price is new
    assert shop.price() == "price"


def test_a_replacement_whose_module_imports_the_target_first_is_put_in_place_when_that_module_is_done(
    make_package,
) -> None:
    make_package(
        {
            "shop": SHOP,
            "kernels": "from shop import label\nimport user\ndef price(): return f'kernel {label()}'",
            "user": "from shop import price as cost",
        }
    )
    with pc.Patcher([pc.Patch("shop.price", [pc.Replace("shop:price", "kernels:price")])]) as patcher:
        import kernels
        import shop
        import user

        assert patcher.report()["shop.price"].status == "applied"
        assert shop.price is user.cost is kernels.price
        assert shop.price() == "kernel label"
    assert shop.price is user.cost
    assert shop.price() == "price"


def test_a_replacement_whose_module_imports_the_target_and_then_fails_is_failed_with_that_reason(make_package) -> None:
    make_package({"shop": SHOP, "kernels": "import shop\nraise RuntimeError('no device')"})
    with pc.Patcher([pc.Patch("shop.price", [pc.Replace("shop:price", "kernels:price")])]) as patcher:
        with pytest.raises(RuntimeError, match="no device"):
            import kernels  # noqa: F401
        record = patcher.report()["shop.price"]
        assert record.status == "pending"
        assert record.missed
        assert "shop was imported, but kernels, which defines the replacement, could not be imported" in record.reason
        record = patcher.refresh()["shop.price"]
    assert (record.status, record.reason) == ("failed", "RuntimeError: no device")


def test_a_patch_of_two_modules_is_pending_until_both_are_imported(make_package) -> None:
    make_package({"one": "def f(): return 1", "two": "def f(): return 2"})
    with pc.Patcher([pc.Patch("both", [pc.Replace("one:f", new), pc.Replace("two:f", new)])]) as patcher:
        import one

        assert one.f is new
        record = patcher.report()["both"]
        assert record.status == "pending"
        assert record.reason == "changes applied: 1 of 2; waits for the import of two"
        import two

        assert two.f is new
        assert patcher.report()["both"].status == "applied"
    assert (one.f(), two.f()) == (1, 2)


def test_a_patch_that_was_never_imported_is_reverted_without_a_trace(make_package) -> None:
    make_package({"one": ""})
    patcher = pc.Patcher([pc.Patch("never", [pc.Replace("one:f", new)])])
    patcher.apply()
    record = patcher.revert()["never"]
    assert record.status == "reverted"
    assert record.changes[0].reason == "its module was never imported"
    assert not ENGINE._waiting


# --- revert --------------------------------------------------------------------------------------------------------


def test_revert_says_when_somebody_else_patched_on_top_and_restores_the_identical_original(shop) -> None:
    original = shop.price
    patcher = pc.Patcher([pc.Patch("shop.patch", [pc.Replace("shop:price", new)])])
    patcher.apply()
    shop.price = lambda: "foreign"
    report = patcher.revert()
    assert shop.price is original
    assert len(report.notes) == 1
    assert report.notes[0].startswith("shop:price: other code had put test_engine:")
    assert report.notes[0].endswith(" on top of the patch; both are removed")


def test_a_foreign_value_in_a_slot_is_not_looked_for_elsewhere_on_revert(make_package, shop) -> None:
    make_package({"theirs": "def price(): return 'theirs'"})
    import theirs

    home = theirs.price
    lower = pc.Patcher([pc.Patch("shop.a", [pc.Wrap("shop:price", tagged("A"))])])
    upper = pc.Patcher([pc.Patch("shop.b", [pc.Wrap("shop:price", tagged("B"))])])
    lower.apply()
    shop.price = theirs.price
    upper.apply()
    lower.revert()
    upper.revert()
    assert theirs.price is home


def test_reverting_a_call_leaves_the_function_it_put_in_place_where_it_is_defined(make_package, shop) -> None:
    make_package(
        {
            "shop_patches": """
                def fast_price(): return "fast"
                def by_hand(module, options): module.price = fast_price
            """,
            "user": "from shop_patches import fast_price",
        }
    )
    import shop_patches
    import user

    original, fast = shop.price, shop_patches.fast_price
    with pc.Patcher([pc.Patch("shop.call", [pc.Call("shop_patches:by_hand", module="shop")])]):
        assert shop.price is fast
    assert shop.price is original
    assert shop_patches.fast_price is fast
    assert user.fast_price is fast


def test_a_function_that_patches_by_hand_is_not_charged_with_patches_of_modules_it_imports(make_package) -> None:
    make_package({"lib": "def area(): return 'area'", "lib.sub": "def size(): return 'size'"})

    def by_hand(module: Any, options: Any) -> None:
        importlib.import_module("lib.sub")
        module.area = new

    call = pc.Patch("lib.call", [pc.Call(by_hand, module="lib")])
    wrap = pc.Patch("lib.wrap", [pc.Wrap("lib.sub:size", tagged("A"))])
    import lib

    caller, wrapper = pc.Patcher([call]), pc.Patcher([wrap])
    wrapper.apply()
    caller.apply()
    assert caller.report()["lib.call"].changes[0].slots == ("lib:area",)
    caller.revert()
    assert lib.sub.size() == "A(size)"
    wrapper.revert()
    assert lib.sub.size() == "size"
    assert lib.area() == "area"


def test_a_name_the_patch_added_stays_with_a_consumer_that_took_it(make_package, shop) -> None:
    make_package({"user": "from shop import discount"})
    with pc.Patcher([pc.Patch("shop.add", [pc.Replace("shop:discount", new, create=True)])]):
        import user
    assert not hasattr(shop, "discount")
    assert user.discount is new  # there is nothing to go back to


def test_what_create_always_has_replaced_comes_back_and_what_it_has_added_goes(shop) -> None:
    before, price = dict(vars(shop)), shop.price
    changes = [pc.Replace(f"shop:{name}", new, create="always") for name in ("discount", "price")]
    with pc.Patcher([pc.Patch("shop.both", changes)]) as patcher:
        assert shop.discount is shop.price is new
        assert [change.status for change in patcher.report()["shop.both"].changes] == ["applied", "applied"]
    assert vars(shop) == before
    assert shop.price is price


def test_consumers_of_a_second_holder_are_not_taken_for_homes_of_the_replacement(make_package, shop) -> None:
    make_package({"kernels": "def price(): return 'kernel'", "user": "from shop import price as cost"})
    original = shop.price
    patch = pc.Patch("shop.price", [pc.Replace("shop:price", "kernels:price")])
    first, second = pc.Patcher([patch]), pc.Patcher([patch])
    first.apply()
    import user

    second.apply()
    first.revert()
    assert user.cost is shop.price
    second.revert()
    assert user.cost is original


def test_a_function_that_is_only_called_like_the_patched_one_is_left_alone(make_package, shop) -> None:
    make_package({"user": "def price(): return 'mine'\nclass Item:\n    def weigh(self): return 'mine'"})
    import user

    own = dict(vars(user))
    changes = [pc.Replace("shop:price", new), pc.Replace("shop:Item.weigh", new)]
    with pc.Patcher([pc.Patch("shop.patch", changes)]):
        assert user.price() == user.Item().weigh() == "mine"
        assert dict(vars(user)) == own


def test_swapping_two_functions_takes_their_consumers_along_and_back(make_package, shop) -> None:
    make_package({"user": "from shop import price, label"})
    import user

    price, label = shop.price, shop.label
    swap = [pc.Replace("shop:price", label), pc.Replace("shop:label", price)]
    with pc.Patcher([pc.Patch("shop.swap", swap)]):
        assert (shop.price, shop.label) == (label, price)
        assert (user.price, user.label) == (label, price)
    assert (shop.price, shop.label) == (price, label)
    assert (user.price, user.label) == (price, label)


def test_a_product_that_depends_on_a_removed_layer_and_cannot_be_made_anew_is_noted(shop) -> None:
    def subclass(original: Any) -> Any:
        if original is not shop.Fancy:
            raise TypeError("made for Fancy only")
        return type("Fancier", (original,), {})

    original = shop.Item
    shop.Fancy = type("Fancy", (original,), {})
    lower = pc.Patcher([pc.Patch("shop.a", [pc.Replace("shop:Item", shop.Fancy)])])
    upper = pc.Patcher([pc.Patch("shop.b", [pc.Replace("shop:Item", factory=subclass)])])
    lower.apply()
    upper.apply()
    (note,) = lower.revert().notes
    assert (
        note == "shop:Item: shop.b is reverted too, because it cannot be applied on top of shop:Item: "
        "TypeError: made for Fancy only"
    )
    assert shop.Item is original
    upper.revert()
    assert shop.Item is original


# --- many ----------------------------------------------------------------------------------------------------------


class CountingFinder:
    """A finder that finds nothing, and counts what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        self.asked.append(name)


def test_how_often_a_module_is_looked_for_does_not_depend_on_the_number_of_patches(
    make_package, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_package({"shop": "", "shop.tools": SHOP})
    asked = []
    for names in (("price",), ("price", "label", "stock", "order", "total")):
        finder = CountingFinder()
        monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
        patches = [pc.Patch(f"shop.{name}", [pc.Replace(f"shop.tools:{name}", new)]) for name in names]
        with pc.Patcher(patches) as patcher:
            assert {record.status for record in patcher.report().patches} == {"pending"}
        asked.append(finder.asked.count("shop.tools"))
    assert asked[0] == asked[1] > 0


def test_a_module_that_the_function_of_an_earlier_patch_hides_is_missed(make_package, monkeypatch) -> None:
    make_package({"shop": "", "shop.tools": SHOP})

    def hide(*args: Any) -> None:
        monkeypatch.setitem(sys.modules, "shop", None)

    patches = [
        pc.Patch("a.first", [pc.Replace("shop.tools:price", new)]),
        pc.Patch("b.hides", [pc.Call(hide, module="json")]),
        pc.Patch("c.second", [pc.Replace("shop.tools:label", new)]),
    ]
    with pc.Patcher(patches) as patcher:
        assert patcher.report()["a.first"].status == "pending"
        assert patcher.report()["c.second"].status == "failed"
