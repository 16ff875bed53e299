"""journal.py: layers on slots, and the way back."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from patchcore.declare.slots import ClassSlot, NamespaceSlot, Slot
from patchcore.engine.journal import Journal, Layer, Record
from patchcore.objects.modules import ABSENT


class Owner:
    """Whose layers these are; stands in for an application."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class Change:
    """Stands in for a change; ``source`` says what it does."""

    makes_product = True

    def __init__(self, source: Any) -> None:
        self.source = source


A, B, C = Owner("A"), Owner("B"), Owner("C")


def original() -> str:
    return "original"


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def module() -> ModuleType:
    made = ModuleType("shop")
    made.price = original
    return made


@pytest.fixture
def slot(module: ModuleType) -> Slot:
    return NamespaceSlot(module, "price", "shop:price")


def wrapping(name: str) -> Any:
    """Return a ``build`` whose product says what it was built on."""

    def build(below: Any, slot: Slot) -> Any:
        if below is ABSENT:
            raise LookupError("nothing there")

        def product() -> str:
            return f"{name}({below()})"

        return product

    return build


def wrap(journal: Journal, slot: Slot, owner: Owner) -> Record:
    below = slot.lookup()
    build = wrapping(owner.name)
    return journal.push(slot, Layer(owner, Change(owner.name), build(below, slot), below, build))


def first(slot: Slot, gone: Any) -> Record:
    return next(g.record for g in gone if g.record.slot.identity != slot.identity)


def put(journal: Journal, slot: Slot, owner: Owner, product: Any) -> Record:
    return journal.push(slot, Layer(owner, Change(product), product, slot.lookup(), lambda below, slot: product))


def remove(journal: Journal, *owners: Owner) -> list[str]:
    return journal.remove(owners, origin=first)


def test_removing_a_layer_that_added_a_name_takes_the_name_away(journal, module) -> None:
    slot = NamespaceSlot(module, "discount", "shop:discount")
    put(journal, slot, A, original)
    remove(journal, A)
    assert "discount" not in vars(module)


def test_removal_from_the_middle_makes_the_layers_above_anew_and_keeps_those_below(journal, module, slot) -> None:
    for owner in (A, B, C):
        wrap(journal, slot, owner)
    record = journal.find(slot)
    lowest = record.layers[0].product
    remove(journal, B)
    assert module.price() == "C(A(original))"
    assert record.layers[0].product is lowest


def test_a_dropped_layer_does_not_disturb_who_patches_the_slot_next(journal, module) -> None:
    slot = NamespaceSlot(module, "discount", "shop:discount")
    put(journal, slot, A, original)
    wrap(journal, slot, B)
    remove(journal, A)
    put(journal, slot, C, original)
    remove(journal, B)
    assert module.discount is original
    remove(journal, C)
    assert "discount" not in vars(module)


def test_a_follower_that_somebody_else_bound_is_left_alone_and_noted(journal, slot) -> None:
    consumer = ModuleType("consumer")
    consumer.cost = original
    journal.follow(wrap(journal, slot, A), NamespaceSlot(consumer, "cost", "consumer:cost"))
    consumer.cost = len
    assert remove(journal, A) == ["consumer:cost is not restored: other code bound it to builtins:len"]
    assert consumer.cost is len


def test_followers_stay_when_somebody_else_wrote_to_the_slot_in_between(journal, module, slot) -> None:
    consumer = ModuleType("consumer")
    consumer.cost = original
    journal.follow(wrap(journal, slot, A), NamespaceSlot(consumer, "cost", "consumer:cost"))
    module.price = lambda: "foreign"
    wrap(journal, slot, B)
    assert consumer.cost is module.price
    remove(journal, A, B)
    assert consumer.cost is original


def test_a_follower_with_layers_of_its_own_is_rebuilt_without_a_note(journal, module, slot) -> None:
    consumer = ModuleType("consumer")
    consumer.cost = original
    alias = NamespaceSlot(consumer, "cost", "consumer:cost")
    journal.follow(wrap(journal, slot, A), alias)
    wrap(journal, alias, B)
    assert consumer.cost() == "B(A(original))"
    assert remove(journal, A) == []
    assert consumer.cost() == "B(original)"
    assert remove(journal, B) == []
    assert consumer.cost is original


def test_a_slot_that_somebody_else_has_restored_already_needs_no_note(journal, module, slot) -> None:
    wrap(journal, slot, A)
    module.price = original
    assert remove(journal, A) == []
    assert module.price is original


def test_a_deleted_attribute_is_there_again(journal, module, slot) -> None:
    wrap(journal, slot, A)
    del module.price
    assert remove(journal, A) == ["shop:price: other code had put a deletion on top of the patch; both are removed"]
    assert module.price is original


def test_a_value_between_two_layers_comes_back_when_the_upper_one_goes(journal, module, slot) -> None:
    wrap(journal, slot, A)
    foreign = module.price = lambda: "foreign"
    wrap(journal, slot, B)
    assert module.price() == "B(foreign)"
    assert remove(journal, B) == []
    assert module.price is foreign
    (note,) = remove(journal, A)
    assert "put there by other code, is removed" in note
    assert module.price is original


def test_a_value_between_two_layers_is_kept_and_noted_when_the_lower_one_goes(journal, module, slot) -> None:
    wrap(journal, slot, A)
    foreign = module.price = lambda: "foreign"
    wrap(journal, slot, B)
    (note,) = remove(journal, A)
    assert note.startswith("shop:price: test_journal:")
    assert note.endswith("which other code made from a reverted patch, is kept")
    assert module.price() == "B(foreign)"
    remove(journal, B)
    assert module.price is original
    assert foreign() == "foreign"


def test_a_value_of_somebody_else_is_never_retired(journal, module, slot) -> None:
    wrap(journal, slot, A)
    module.price = len
    wrap(journal, slot, B)
    journal.remove([A, B], origin=first)
    retired = journal.retired
    assert len not in [gone.old for gone in retired]
    assert len(retired) == 2


def test_chains_of_aliases_are_rebuilt(journal, module, slot) -> None:
    outer, inner = ModuleType("outer"), ModuleType("inner")
    wrap(journal, slot, A)
    inner.price = module.price
    wrap(journal, NamespaceSlot(inner, "price", "inner:price"), B)
    outer.price = inner.price
    wrap(journal, NamespaceSlot(outer, "price", "outer:price"), C)
    assert outer.price() == "C(B(A(original)))"
    remove(journal, A)
    assert outer.price() == "C(B(original))"
    remove(journal, B)
    assert outer.price() == "C(original)"
    assert inner.price is original
    remove(journal, C)
    assert outer.price is original


def test_an_alias_that_is_a_staticmethod_stays_one(journal, module, slot) -> None:
    wrap(journal, slot, A)
    klass = type("Shop", (), {"price": staticmethod(module.price)})
    alias = ClassSlot(klass, "price", "shop:Shop.price")
    journal.push(alias, Layer(B, Change("B"), staticmethod(len), alias.lookup(), lambda below, slot: staticmethod(len)))
    remove(journal, A)
    remove(journal, B)
    assert isinstance(vars(klass)["price"], staticmethod)
    assert klass.price is original


def test_a_slot_that_holds_a_replacement_as_its_own_keeps_it(journal, module, slot) -> None:
    kernels = ModuleType("kernels")
    kernels.price = len
    home = NamespaceSlot(kernels, "price", "kernels:price")
    put(journal, slot, A, len)
    wrap(journal, home, B)
    journal.remove([A], origin=lambda slot, gone: None if slot.identity == home.identity else gone[0].record)
    assert journal.find(home).base is len
    remove(journal, B)
    assert kernels.price is len


def test_adopting_over_a_patched_slot_takes_its_followers_along(journal, module, slot) -> None:
    consumer = ModuleType("consumer")
    consumer.cost = original
    journal.follow(wrap(journal, slot, A), NamespaceSlot(consumer, "cost", "consumer:cost"))
    before, module.price = module.price, len
    journal.adopt(slot, Layer(B, Change("call"), len, before), before)
    assert consumer.cost is len
    remove(journal, B)
    assert consumer.cost() == module.price() == "A(original)"


def test_renewing_lays_the_layers_over_what_a_reload_put_in_the_slots(journal, module, slot) -> None:
    wrap(journal, slot, A)
    wrap(journal, slot, B)

    def reloaded() -> str:
        return "reloaded"

    module.price = reloaded
    journal.renew(module, origin=first)
    assert module.price() == "B(A(reloaded))"
    remove(journal, B, A)
    assert module.price is reloaded


def test_renewing_forgets_what_was_written_by_hand(journal, module, slot) -> None:
    module.price = len
    journal.adopt(slot, Layer(A, Change("call"), len, original), original)

    def reloaded() -> str:
        return "reloaded"

    module.price = reloaded
    journal.renew(module, origin=first)
    assert module.price is reloaded
    assert not list(journal)
    remove(journal, A)
    assert module.price is reloaded


def test_the_journal_knows_what_it_wrote(journal, module, slot) -> None:
    consumer = ModuleType("consumer")
    consumer.cost = original
    follower = NamespaceSlot(consumer, "cost", "consumer:cost")
    assert not journal.looks_after(slot)
    record = wrap(journal, slot, A)
    journal.follow(record, follower)
    assert journal.wrote(slot, module.price)
    assert journal.wrote(follower, consumer.cost)
    assert not journal.wrote(slot, original)
    assert journal.looks_after(slot)
    assert journal.looks_after(follower)
    consumer.cost = len
    assert not journal.looks_after(follower)
    remove(journal, A)
    assert not journal.looks_after(slot)


def test_a_slot_follows_one_record_at_a_time(journal, module, slot) -> None:
    consumer = ModuleType("consumer")
    consumer.cost = original
    follower = NamespaceSlot(consumer, "cost", "consumer:cost")
    module.fee = original
    first = wrap(journal, slot, A)
    second = wrap(journal, NamespaceSlot(module, "fee", "shop:fee"), B)
    journal.follow(first, follower)
    journal.follow(second, follower)
    remove(journal, A)
    assert consumer.cost is module.fee
    remove(journal, B)
    assert consumer.cost is original


def test_followers_of_a_patched_alias_fall_back_to_what_the_alias_follows(journal, module, slot) -> None:
    package, consumer = ModuleType("package"), ModuleType("consumer")
    package.price = consumer.cost = original
    alias = NamespaceSlot(package, "price", "package:price")
    journal.follow(wrap(journal, slot, A), alias)
    journal.follow(wrap(journal, alias, B), NamespaceSlot(consumer, "cost", "consumer:cost"))
    assert consumer.cost() == "B(A(original))"
    remove(journal, B)
    assert consumer.cost is package.price is module.price
    remove(journal, A)
    assert consumer.cost is package.price is original


def test_an_alias_restored_in_the_same_removal_gets_the_original(journal, module, slot) -> None:
    package = ModuleType("package")
    wrap(journal, slot, A)
    package.price = module.price  # from shop import price
    wrap(journal, NamespaceSlot(package, "price", "package:price"), B)
    remove(journal, A, B)
    assert package.price is module.price is original


def test_an_alias_whose_slot_gets_the_same_layer_is_not_wrapped_twice_when_it_is_rebuilt(journal, module, slot) -> None:
    package = ModuleType("package")
    package.price = original
    alias = NamespaceSlot(package, "price", "package:price")
    journal.follow(wrap(journal, slot, A), alias)
    wrap(journal, alias, B)  # over A's product
    wrap(journal, slot, B)
    assert module.price() == package.price() == "B(A(original))"
    remove(journal, A)
    assert module.price() == package.price() == "B(original)"
    remove(journal, B)
    assert module.price is package.price is original
