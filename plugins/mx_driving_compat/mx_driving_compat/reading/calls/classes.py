"""Reads patch classes of API 2.0: ``class X(Patch)`` with ``patches()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Union

from mx_driving_compat.reading.calls.atomic import AtomicReader, ReadChange, brief
from mx_driving_compat.reading.declarations import Construction, PatchDeclaration, Remark
from mx_driving_compat.reading.program.source import Scope, Source, Unknown, called_name
from mx_driving_compat.reading.program.walking import FoundCall, Walker, function_scope

__all__ = ["PatchClasses", "grouped"]

_ATOMIC = ("AtomicPatch", "RegistryPatch", "LegacyPatch")
_PARTS = ("patches", "apply_all")
#: Class attributes, and the arguments of ``pc.Patch`` with the same meaning.
_NAMES = {"conflicts_with": "conflicts", "legacy_name": "legacy_names"}


class PatchClasses:
    """The patch classes of a file.

    Args:
        source: the file.
        reader: of the entries that the classes list.
    """

    def __init__(self, source: Source, reader: AtomicReader) -> None:
        self.source = source
        self.reader = reader
        self.walker = Walker(source)
        #: The ``id`` of each call that was read.
        self.seen: set[int] = set()
        self.classes = {
            statement.name: statement
            for statement in source.defined.values()
            if isinstance(statement, ast.ClassDef) and self._is_patch(statement)
        }

    def name_of(self, class_name: str) -> str:
        """Return the name that the patches of a class have."""
        found = self.source.member(self.classes[class_name], "name")
        value = getattr(found, "value", None)
        try:
            return Scope(self.source.constants).text(value) if isinstance(value, ast.expr) else class_name
        except Unknown:
            return class_name

    def read(self, class_name: str) -> list[PatchDeclaration]:
        """Return the patches of a class: one for each set of required versions, none for a class without changes."""
        owner = self.classes[class_name]
        changes = list(self._changes(owner))
        keywords, remarks = self._keywords(owner)
        if remarks and changes:
            changes.append(ReadChange(remarks[0].line, None, changes[-1].requires, remarks))
        return grouped(self.name_of(class_name), owner.lineno, changes, keywords)

    def _changes(self, owner: ast.ClassDef) -> Iterator[ReadChange]:
        method = self.source.member(owner, "patches")
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        scope = function_scope(method, Scope(self.source.constants), owner=owner.name)
        for found in self.walker.calls(method.body, scope):
            if self.source.imported(found.node.func) in _ATOMIC:
                self.seen.add(id(found.node))
                yield self.reader.read(found)
            elif called_name(found.node) in _PARTS and isinstance(found.node.func, ast.Attribute):
                yield _part(found)

    def _keywords(self, owner: ast.ClassDef) -> tuple[dict[str, Any], tuple[Remark, ...]]:
        summary = (ast.get_docstring(owner) or "").partition("\n")[0].strip()
        keywords: dict[str, Any] = {"summary": summary} if summary else {}
        remarks = []
        for attribute, argument in _NAMES.items():
            found = self.source.member(owner, attribute)
            value = getattr(found, "value", None)
            if found is None:
                continue
            try:
                if not isinstance(value, ast.expr):
                    raise Unknown("it is computed")
                names = Scope(self.source.constants).literal(value)
            except Unknown as reason:
                advice = f"{reason}; write {argument}=[...]"
                remarks.append(Remark(found.lineno, f"{owner.name}.{attribute}", advice))
                continue
            listed = [names] if isinstance(names, str) else list(names or ())
            if listed:
                keywords[argument] = listed
        return keywords, tuple(remarks)

    def _is_patch(self, owner: ast.ClassDef) -> bool:
        """Return whether a class derives from ``Patch``, directly or not."""
        for base in owner.bases:
            if self.source.imported(base) is not None:
                return True
            found = self.source.defined.get(base.id) if isinstance(base, ast.Name) else None
            if isinstance(found, ast.ClassDef) and found is not owner and self._is_patch(found):
                return True
        return False


def grouped(name: str, line: int, changes: list[ReadChange], keywords: Mapping[str, Any]) -> list[PatchDeclaration]:
    """Return a patch for each set of required versions: a patch is applied whole or not at all.

    Args:
        name: of the patch; where there are several, one that is for a version has the version in its name.
        line: where it is.
        changes: with the work that is left to do.
        keywords: further arguments of each patch.
    """
    groups: dict[tuple[str, ...], list[ReadChange]] = {}
    for change in changes:
        groups.setdefault(change.requires, []).append(change)
    made = []
    for requires, members in groups.items():
        own = dict(keywords)
        own_name = name
        if requires:
            own["requires"] = list(requires)
        if requires and len(groups) > 1:
            own_name = ".".join([name, *map(_version_name, requires)])
            own["legacy_names"] = [*own.get("legacy_names", ()), name]
        listed: list[Union[Construction, Remark]] = []
        for member in members:
            listed += [member.change] if member.change is not None else []
            listed += member.left
        notes = tuple(note for member in members for note in member.notes)
        made.append(PatchDeclaration(own_name, line, tuple(listed), own, notes, known_as=name))
    return made


def _version_name(requirement: str) -> str:
    """Return ``mmcv2`` for ``mmcv>=2``, ``mmcv1`` for ``mmcv<2``, ``not_mmdet3`` for ``mmdet!=3.*``."""
    if requirement.endswith("<2"):
        return f"{requirement[:-2]}1"
    plain = "".join(character for character in requirement if character not in "<>=!*").rstrip(".")
    return f"not_{plain}" if "!=" in requirement else plain


def _part(found: FoundCall) -> ReadChange:
    line = found.line
    advice = "the changes of another class are part of this one; copy them, or declare after=[...]"
    return ReadChange(line, None, found.conditions.requires, (Remark(line, brief(found.node), advice),))
