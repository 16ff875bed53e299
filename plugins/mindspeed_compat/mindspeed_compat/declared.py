"""Patches from the registrations of MindSpeed's features: one patch for each feature, in MindSpeed's order.

MindSpeed keeps one entry for each target: a replacement below, and wrappers on top of it in the order of their
registration. Features are called one after the other, so patches that are listed in the order of the features stack in
the same way, with the replacement below (``Patcher(order="listed")``). Where that does not hold, changes go into more
patches of their feature, which come after all first ones:

- ``mindspeed.FEATURE.late`` has the wrappers of a target that a later feature replaces, and those on top of them;
- ``mindspeed.FEATURE.last`` has the changes of an entry whose place another entry patches, too, under another spelling.
  MindSpeed puts them on top.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from mindspeed_compat.locating import Place, locate
from mindspeed_compat.registrations import Owner, Registration, Registrations
from patchcore import DummyImport, Literal, Patch, Replace, original
from patchcore.plugin import Candidate, Change, Provenance, version_of

__all__ = ["Declared", "Entry", "base_name", "declare", "patch_name"]


class Entry(NamedTuple):
    """An entry of MindSpeed's table that has news.

    Args:
        text: the target, in MindSpeed's notation.
        patch: MindSpeed's ``Patch``.
        known: the functions of it that are in force already, from the lowest one.
    """

    text: str
    patch: Any
    known: Sequence[Any]

    @property
    def functions(self) -> list[Any]:
        """The replacement, if there is one, and the wrappers."""
        return [*([] if self.patch.patch_func is None else [self.patch.patch_func]), *self.patch.wrappers]


class Declared(NamedTuple):
    """Patches from registrations.

    Args:
        candidates: the patches in order, with their features as provenance.
        places: the place of each entry, by its text.
        spellings: texts on places that have two spellings, of which the second puts the first out of use.
        added: the targets that exist nowhere, and are added.
    """

    candidates: list[Candidate]
    places: dict[str, Place]
    spellings: list[str]
    added: list[str]


#: The stages of patches, in order, and the ends of the names of their patches.
_FIRST, _LATE, _LAST = range(3)
_ENDS = ("", ".late", ".last")


class _Item(NamedTuple):
    """A change, with its rank in a patch: modules that are made, then replacements, then wrappers; and its stage."""

    rank: int
    change: Change
    registration: Registration
    stage: int


def patch_name(feature: str) -> str:
    """Return the name of the patch of a feature, ``mindspeed.FEATURE``."""
    return f"mindspeed.{re.sub(r'[^a-zA-Z0-9_.-]', '_', feature)}"


def base_name(name: str) -> str:
    """Return the name of the first patch of a feature, for any of its patches: without stage and number."""
    return re.sub(r"(\.late|\.last)?(\.\d+)?$", "", name)


def declare(
    entries: Iterable[Entry], registrations: Registrations, taken: Iterable[str] = (), dummies: Iterable[str] = ()
) -> Declared:
    """Return patches that do what MindSpeed's ``apply_patches`` would do with ``entries``.

    Args:
        entries: with news, in MindSpeed's order.
        registrations: which feature has registered each function.
        taken: names of patches that are in use.
        dummies: the top-level packages that patches in force have made.

    Raises:
        ModuleNotFoundError: the module of a target is missing; the message names the feature.
        ImportError: it fails at its import.
    """
    entries = list(entries)
    places = {entry.text: _located(entry, registrations) for entry in entries}
    items: list[_Item] = []
    spellings: list[str] = []
    added: list[str] = []
    order = _order(entries, registrations)
    by_place: dict[Any, list[Entry]] = {}
    for entry in entries:
        place = places[entry.text]
        key = entry.text if place.slot is None else place.slot.identity
        earlier = by_place.setdefault(key, [])
        found = [registrations.find(entry.patch, function) for function in entry.functions]
        known = [registration for registration in found if registration is not None]
        replaces = next((each for each in known if not each.wraps), None)
        if replaces is not None:
            spellings += (_spelled(entry, replaces, other, registrations) for other in earlier)
        inverted = replaces is not None and any(order[each.owner] < order[replaces.owner] for each in known)
        if len(earlier) > 1:  # the last ones of a place stack by one spelling
            place = place._replace(target=places[earlier[-1].text].target)
        items += _changes(entry, place, known, _LAST if earlier else _LATE if inverted else _FIRST)
        if not place.exists and place.target.path and not entry.patch.create_dummy:
            added.append(entry.text)
        earlier.append(entry)
    made = {place.module.partition(".")[0] for place in places.values() if place.module is not None}
    return Declared(_patches(items, order, taken, {*dummies, *made}), places, spellings, added)


def _located(entry: Entry, registrations: Registrations) -> Place:
    try:
        return locate(entry.text, create_dummy=entry.patch.create_dummy)
    except ImportError as error:
        owners = {each.owner for each in (registrations.find(entry.patch, f) for f in entry.functions) if each}
        who = ", ".join(sorted(map(str, owners)))
        raise type(error)(f"{error}, which {who} patches", name=error.name, path=error.path) from error


def _order(entries: Sequence[Entry], registrations: Registrations) -> dict[Owner, int]:
    """Return the number of each owner: that of its first registration in ``entries``."""
    found: dict[Owner, int] = {}
    for entry in entries:
        for function in entry.functions:
            registration = registrations.find(entry.patch, function)
            if registration is not None:
                found[registration.owner] = min(found.get(registration.owner, registration.number), registration.number)
    return found


def _changes(entry: Entry, place: Place, made: Sequence[Registration], stage: int) -> Iterator[_Item]:
    """Yield the changes of one entry; ``stage`` is that of its wrappers."""
    target, functions, known = place.target, [each.function for each in made], len(entry.known)
    below = _LAST if stage == _LAST else _FIRST
    if place.module is not None:
        yield _Item(0, DummyImport(place.module), made[0], _FIRST)
    if not target.path:
        return
    if functions[:known] != list(entry.known):  # changed below its top: the whole stack, without the one in force
        base = None if made[0].wraps else made[0].function
        value = original(target) if base is None else base
        for wrapper in functions if base is None else functions[1:]:
            value = wrapper(value)
        yield _Item(1, Replace(target, _value(value)), made[0], _LAST)
        return
    if not place.exists and made[known].wraps:  # MindSpeed calls the first wrapper with None
        yield _Item(1, Replace(target, made[known].function(None), create="always"), made[known], below)
        known += 1
    # As in MindSpeed, an attribute of a class must exist.
    create = False if place.exists or not (place.is_in_module or entry.patch.create_dummy) else "always"
    for registration in made[known:]:
        function = registration.function
        if registration.wraps:
            yield _Item(2, Replace(target, factory=function, same_name=True), registration, stage)
        else:
            yield _Item(1, Replace(target, _value(function), create=create, same_name=True), registration, below)


def _value(function: Any) -> Any:
    return Literal(function) if isinstance(function, str) else function


def _spelled(entry: Entry, replaces: Registration, other: Entry, registrations: Registrations) -> str:
    """Return that the replacement of ``entry`` puts that of ``other`` out of use, though neither knows the other."""
    owners = {str(each.owner): None for each in map(partial(registrations.find, other.patch), other.functions) if each}
    return (
        f"{entry.text} and {other.text} are one place: {replaces.owner} replaces what {', '.join(owners)} "
        "has put there, which is not called any more"
    )


def _patches(
    items: Sequence[_Item], order: Mapping[Owner, int], taken: Iterable[str], dummies: Container[str]
) -> list[Candidate]:
    """Return the patches of each stage, in the order of their owners."""
    version = version_of("mindspeed") or version_of("mindspeed-compat")
    distribution = "mindspeed" if version_of("mindspeed") else "mindspeed-compat"
    names = set(taken)
    found: list[Candidate] = []
    for stage, end in enumerate(_ENDS):
        below = [candidate.patch.name for candidate in found]
        for owner in sorted(order, key=order.__getitem__):
            theirs = [each for each in items if each.registration.owner == owner and each.stage == stage]
            own = sorted(theirs, key=_rank)
            if not own:
                continue
            name = _free_name(f"{patch_name(owner.name)}{end}", names)
            names.add(name)
            patch = Patch(
                name,
                list(dict.fromkeys([*_dummies_of(own, dummies), *(item.change for item in own)])),
                summary=f"feature {owner}",
                required=True,
                signatures="any",
                after=below,
            )
            found.append(Candidate(patch, Provenance("mindspeed", distribution, version, owner.where, owner.file)))
    return found


def _dummies_of(items: Iterable[_Item], dummies: Container[str]) -> Iterator[DummyImport]:
    """Yield the dummy of each module that ``items`` change and that no library has: the patch needs no library then."""
    for item in items:
        if item.change.target.root in dummies and item.change.target.path:
            yield DummyImport(item.change.target.module)


def _rank(item: _Item) -> tuple[int, int]:
    return item.rank, item.registration.number


def _free_name(name: str, taken: Container[str]) -> str:
    """Return ``name``, with a number if it is taken: by an earlier phase, or by another feature of the same name."""
    numbers = (f"{name}.{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], numbers) if each not in taken)
