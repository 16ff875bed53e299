"""Decides which findings of an audit become declarations, and how they are grouped and ordered as patches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from patchcore.builtin.audit.findings import PATCHCORE
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError, SettingsError, did_you_mean

__all__ = ["MAKES", "Adopted", "Adoption", "Group", "Left", "adopt", "parse_phases"]

#: The end of a replacement that is made of what is below it.
MAKES = "()"
#: Why a finding of a kind cannot be declared.
_KINDS = {
    "removed": "a patch replaces or adds, and takes nothing away",
    "body": "the code of the function itself was written; wrap the function: pc.wrap",
    "module": "a whole module was put in the place of another: pc.ReplaceImport",
}
#: The name of the patch that makes modules.
_MODULES = "modules"
#: What no module has under a name, and no function of a module makes of the original alone.
_NAMELESS = "a closure of other values, a lambda, a partial object, or code of the program's own file"


class Adopted(NamedTuple):
    """A layer of a finding, which becomes a change.

    Args:
        target: the place.
        replacement: where the code is, ``shop_patches:price``; with ``()`` at its end, it is made of what is below.
        adds: whether the library has no such name.
        written: ``file:line`` that makes the patch in the program; empty if it is not known.
        misfit: why the new code does not accept every call of the target; empty if it does.
    """

    target: str
    replacement: str
    adds: bool
    written: str
    misfit: str = ""


class Left(NamedTuple):
    """A finding that stays in the program.

    Args:
        target: the place.
        why: it cannot be declared.
        written: as above.
    """

    target: str
    why: str
    written: str


class Group(NamedTuple):
    """Changes that one maker makes: they become one patch.

    Args:
        name: the last part of the patch's name.
        maker: the distribution or module that makes them in the program.
        changes: in the order of the audit.
        requires: the libraries with the versions on which they were seen.
        after: the names of the groups that are below it in a place.
        phase: the one that the patch waits for; empty if it applies as soon as its modules are imported.
        modules: those that nothing else provides and that the patch makes; its changes add names to them.
    """

    name: str
    maker: str
    changes: tuple[Adopted, ...]
    requires: tuple[str, ...]
    after: tuple[str, ...] = ()
    phase: str = ""
    modules: tuple[str, ...] = ()


class Adoption(NamedTuple):
    """The patches of a program, to be declared or left.

    Args:
        groups: become patches, in the order in which they are applied.
        left: do not.
        followers: places that a patch of another place reaches, and that need no declaration; that other one by each.
        conflicts: what the audit calls a conflict in places that are declared, by place.
        importing: places whose new code imports the library that is patched.
    """

    groups: tuple[Group, ...]
    left: tuple[Left, ...]
    followers: Mapping[str, str] = {}
    conflicts: Mapping[str, str] = {}
    importing: tuple[str, ...] = ()


class _Maker(NamedTuple):
    name: str
    phase: str


class _Layer(NamedTuple):
    distribution: str
    maker: _Maker
    change: Adopted
    requires: str


def parse_phases(texts: Iterable[str]) -> dict[str, str]:
    """Return the phases by the package whose patches wait for them, the phase of all others under ``""``.

    Args:
        texts: ``after:shop.cart`` for all patches, ``after:shop.cart=shop`` for those of one package.

    Raises:
        SettingsError: a text is neither, or a package has two phases.
    """
    phases: dict[str, str] = {}
    for text in texts:
        phase, equals, package = text.partition("=")
        if not phase or (equals and not package.isidentifier()):
            raise SettingsError(
                f"--phase {text}: expected a phase, or after:MODULE=PACKAGE for the patches of a package"
            )
        if package in phases:
            raise SettingsError(
                f"--phase {text}: {package or 'every patch'} waits for {phases[package]} already; name one phase"
            )
        phases[package] = phase
    return phases


def adopt(
    rows: Iterable[Mapping[str, str]],
    *,
    split: bool = False,
    phases: Mapping[str, str] = {},
    only: Sequence[str] = (),
) -> Adoption:
    """Sort the findings of an audit.

    Args:
        rows: of the processes of a program, see :meth:`Finding.to_dict`. Patches of patchcore, and those that a library
            makes in every process, are nobody's to adopt and are passed over.
        split: make a patch for each module that defines new code, and not for each distribution.
        phases: for which patches wait, see :func:`parse_phases`. Modules that are made never wait, because programs
            import them before.
        only: the distributions whose patches are adopted, besides the modules that are made; all if empty.

    Raises:
        SettingsError: a name of ``phases`` or ``only`` has no patch.
    """
    rows = list(rows)
    _refuse_unknown("--phase", "patches nothing in", phases, {_package(row["target"]) for row in rows})
    _refuse_unknown("--only", "has no patch of", only, {name for row in rows for name in _makers(row)})
    stacks: dict[str, list[_Layer]] = {}
    left: dict[str, Left] = {}
    followers: dict[str, str] = {}
    conflicts: dict[str, str] = {}
    importing: list[str] = []
    # What a class inherits may be patched, too: first that, then the class.
    ordered = sorted({row["target"]: row for row in rows}.values(), key=lambda row: bool(row["inherited"]))
    bases = _bases(ordered)
    made = [row for row in ordered if _is_made(row)]
    for row in ordered:
        if row["by"] == PATCHCORE or row["known"] or row in made:
            continue
        why = _obstacle(row)
        if why:
            if not only or _name(row["by"]) in only:
                left[row["target"]] = Left(row["target"], why, row["written at"])
        elif row.get("follows"):
            followers[row["target"]] = row["follows"]
        else:
            layers = _layers(row, split=split, phases=phases)
            stacks[row["target"]] = [layer for layer in layers if not only or layer.distribution in only]
            if not stacks[row["target"]]:
                continue
            if row["imports the target"]:
                importing.append(row["target"])
            if row["conflict"]:
                conflicts[row["target"]] = row["conflict"]
    for target, home in list(followers.items()):
        if home in left:
            left[target] = Left(target, f"it has the code of {home}", left[home].written)
        if not stacks.get(home):
            del followers[target]
    left.update((each.target, each) for row in made for each in _nameless(row))
    groups = (*([_modules(made)] if made else []), *_groups(stacks, bases))
    return Adoption(groups, tuple(left.values()), followers, conflicts, tuple(importing))


def _refuse_unknown(option: str, why: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in filter(None, names):
        if name not in known:
            raise SettingsError(f"{option} {name}: the program {why} {name}{did_you_mean(name, known)}")


def _package(target: str) -> str:
    return target.partition(":")[0].partition(".")[0]


def _name(distribution: str) -> str:
    """Return the name of a distribution without its version."""
    return distribution.partition(" ")[0]


def _makers(row: Mapping[str, str]) -> set[str]:
    """Return the distributions that wrote to a place, where that was seen, and that define the code in it."""
    return {_name(row["by"]), *(_name(line.partition(": ")[0]) for line in row["layers"].split("\n") if line)}


def _is_made(row: Mapping[str, str]) -> bool:
    """Return whether the row is about a plain module that the program made and that nothing else provides."""
    is_adopted = row["by"] != PATCHCORE and not row["known"] and not row["patches"]
    return is_adopted and row["kind"] == "module" and bool(row["contents"])


def _modules(rows: Sequence[Mapping[str, str]]) -> Group:
    """Return the group that makes the modules of some rows, with the names in them that lead to code."""
    contents = {entry: row["written at"] for row in rows for entry in _contents(row)}
    names = [target for target, _ in contents if ":" not in target]
    changes = [Adopted(*entry, True, written) for entry, written in contents.items() if entry[1]]
    # a package is made with a module inside it
    modules = [name for name in names if not any(other.startswith(f"{name}.") for other in names)]
    return Group(_MODULES, "the program", tuple(changes), (), modules=tuple(modules))


def _nameless(row: Mapping[str, str]) -> Iterable[Left]:
    for target, reference in _contents(row):
        if ":" in target and not reference:
            yield Left(target, f"no name leads to its value: {_NAMELESS}, or data", row["written at"])


def _contents(row: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Yield the modules and names that a row lists, each with the place of its code; empty for none."""
    for line in row["contents"].split("\n"):
        target, _, reference = line.partition(" ")
        yield target, reference


def _obstacle(row: Mapping[str, str]) -> str:
    """Return why a finding cannot be declared; empty if it can."""
    if row["kind"] == "module" and row["before"] == "nothing":
        return "a module with a class of its own was made, and nothing else provides it: pc.StubImport"
    if row["kind"] in _KINDS:
        return _KINDS[row["kind"]]
    if row["patches"] or PATCHCORE in row["conflict"].split():
        return f"a conflict: {row['conflict'] or 'a patch of patchcore is on it'}"
    try:
        Target.parse(row["target"])
    except DeclarationError as error:
        return str(error)
    if not row["layers"]:
        return f"no name leads to {row['after']}: {_NAMELESS}"
    return ""


def _layers(row: Mapping[str, str], *, split: bool, phases: Mapping[str, str]) -> Iterable[_Layer]:
    package = _package(row["target"])
    phase = phases.get(package, phases.get("", ""))
    requires = f"{package}=={row['version'].partition('+')[0]}" if row["version"] else ""
    layers = row["layers"].split("\n")
    for layer in layers:
        maker, _, replacement = layer.partition(": ")
        if maker == row["owner"]:
            maker = row["by"]  # other code has put an object of the library elsewhere in it
        distribution = _name(maker)
        if split:
            maker = replacement.partition(":")[0]
        adds = row["kind"] == "added" and not row["inherited"]
        change = Adopted(row["target"], replacement, adds, row["written at"], row["misfit"])
        yield _Layer(distribution, _Maker(maker, phase), change, requires)


def _bases(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return by place the patched place of a base class, whose new code the class finds below its own."""
    patched = {(row["target"].rpartition(".")[2], row["after"]): row["target"] for row in rows if not row["inherited"]}
    inheriting = [row for row in rows if row["inherited"]]
    found = {row["target"]: patched.get((row["target"].rpartition(".")[2], row["inherited"])) for row in inheriting}
    return {target: base for target, base in found.items() if base}


def _groups(stacks: Mapping[str, list[_Layer]], bases: Mapping[str, str]) -> Iterable[Group]:
    """Yield groups whose changes are one layer of each place: the lowest layers first.

    A maker has as few groups as the order of the layers allows: the next group is of the maker that has no layer above
    those of others, or else the most layers. The layers of a place in a base class are below those of the class.
    """
    rest = {target: list(layers) for target, layers in stacks.items() if layers}
    used: Counter[str] = Counter([_MODULES])
    lower: dict[str, list[str]] = {}
    while rest:
        heads: dict[_Maker, list[str]] = {}
        for target, layers in rest.items():
            if not _others_below(target, rest, bases):
                heads.setdefault(layers[0].maker, []).append(target)
        maker = min(heads, key=lambda each: (_waiting(each, rest, bases), -len(heads[each])))
        targets = heads[maker]
        base = re.sub(r"\W+", "_", _name(maker.name)).strip("_").lower() or "program"
        used[base] += 1
        name = base if used[base] == 1 else f"{base}_{used[base]}"
        layers = [rest[target].pop(0) for target in targets]
        rest = {target: layers for target, layers in rest.items() if layers}
        after = dict.fromkeys(
            below for target in targets for each in (target, bases.get(target, "")) for below in lower.get(each, ())
        )
        for target in targets:
            lower.setdefault(target, []).append(name)
        requires = dict.fromkeys(layer.requires for layer in layers if layer.requires)
        changes = tuple(layer.change for layer in layers)
        yield Group(name, maker.name, changes, tuple(requires), tuple(after), maker.phase)


def _others_below(target: str, rest: Mapping[str, Sequence[_Layer]], bases: Mapping[str, str]) -> bool:
    """Return whether the next layer of a place cannot be made yet: layers are left in a base class.

    One layer of the same maker is made in the same group, in front of it.
    """
    left = rest.get(bases.get(target, ""), ())
    return len(left) > 1 or any(layer.maker != rest[target][0].maker for layer in left)


def _waiting(maker: _Maker, rest: Mapping[str, Sequence[_Layer]], bases: Mapping[str, str]) -> int:
    """Return how many layers of a maker are above other layers that are left."""
    return sum(
        layer.maker == maker
        for target, layers in rest.items()
        for layer in layers[0 if _others_below(target, rest, bases) else 1 :]
    )
