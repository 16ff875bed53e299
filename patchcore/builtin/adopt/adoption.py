"""Decides which findings of an audit become declarations, and how they are grouped into patches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from patchcore.builtin.audit.findings import PATCHCORE
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError

__all__ = ["Adopted", "Adoption", "Left", "adopt"]

#: Why a finding of a kind cannot be declared.
_KINDS = {
    "removed": "a patch replaces or adds, and takes nothing away",
    "body": "the code of the function itself was written; wrap the function: pc.wrap",
    "module": "a whole module was put in the place of another: pc.ReplaceImport",
}


class Adopted(NamedTuple):
    """A finding that becomes a change.

    Args:
        target: the place.
        replacement: where the code is, ``shop_patches:price``.
        adds: whether the library has no such name.
        written: ``file:line`` that makes the patch in the program; empty if it is not known.
    """

    target: str
    replacement: str
    adds: bool
    written: str


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
    """The changes that one maker makes: they become one patch.

    Args:
        name: the last part of the patch's name.
        maker: the distribution or module that makes them in the program.
        changes: in the order of the audit.
        requires: the libraries with the versions on which they were seen.
    """

    name: str
    maker: str
    changes: tuple[Adopted, ...]
    requires: tuple[str, ...]


class Adoption(NamedTuple):
    """The patches of a program, to be declared or left.

    Args:
        groups: become patches.
        left: do not.
    """

    groups: tuple[Group, ...]
    left: tuple[Left, ...]


def adopt(rows: Iterable[Mapping[str, str]]) -> Adoption:
    """Sort the findings of an audit.

    Args:
        rows: of the processes of a program, see :meth:`Finding.to_dict`. Patches of patchcore, and those that a library
            makes in every process, are nobody's to adopt and are passed over.
    """
    groups: dict[str, list[Mapping[str, str]]] = {}
    left: dict[str, Left] = {}
    for row in {row["target"]: row for row in rows}.values():
        if row["by"] == PATCHCORE or row["known"]:
            continue
        why = _obstacle(row)
        if why:
            left[row["target"]] = Left(row["target"], why, row["written at"])
        else:
            groups.setdefault(row["by"], []).append(row)
    return Adoption(tuple(_group(maker, found) for maker, found in groups.items()), tuple(left.values()))


def _obstacle(row: Mapping[str, str]) -> str:
    """Return why a finding cannot be declared; empty if it can."""
    if row["kind"] in _KINDS:
        return _KINDS[row["kind"]]
    if row["conflict"]:
        return f"a conflict: {row['conflict']}"
    try:
        Target.parse(row["target"])
    except DeclarationError as error:
        return str(error)
    if not row["replacement"]:
        return f"no module has a name for {row['after']}: it is a closure, a lambda, or in the program's own file"
    return ""


def _group(maker: str, rows: Iterable[Mapping[str, str]]) -> Group:
    changes, requires = [], {}
    for row in rows:
        changes.append(Adopted(row["target"], row["replacement"], row["kind"] == "added", row["written at"]))
        if row["version"]:
            package = row["target"].partition(":")[0].partition(".")[0]
            requires[package] = f"{package}=={row['version'].partition('+')[0]}"
    name = re.sub(r"\W+", "_", maker.partition(" ")[0]).strip("_").lower() or "program"
    return Group(name, maker, tuple(changes), tuple(requires.values()))
