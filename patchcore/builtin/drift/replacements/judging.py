"""What the source of a replacement means for the target that it replaces: the findings of ``check`` on it."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator
from typing import Any, Optional

from patchcore.builtin.drift.fingerprint import Originals
from patchcore.builtin.drift.recorded import ABSENT_SOURCE, DEFINED, Fingerprint, Library, Recorded, version_key
from patchcore.builtin.drift.replacements.calls import Misfit, find_misfit
from patchcore.builtin.drift.replacements.copies import (
    FEWEST_LINES,
    Copy,
    compare_copy,
    copy_of,
    means_the_same,
    members_in,
    methods_of,
    only_members,
    three_way,
)
from patchcore.builtin.drift.replacements.lines import place_of
from patchcore.builtin.drift.replacements.named import definition_of
from patchcore.builtin.drift.replacements.note import KINDS, LIBRARY_COUNTS, Note
from patchcore.builtin.drift.replacements.reads import name_fingerprints, names_read
from patchcore.builtin.drift.syntax import normalised
from patchcore.declare.changes import ALWAYS, Change
from patchcore.declare.target import Target
from patchcore.errors import TargetNotFound, Unseen
from patchcore.objects.modules import is_class
from patchcore.objects.printable import counted
from patchcore.planning.conditions import Environment
from patchcore.planning.plan import PlannedPatch
from patchcore.planning.provenance import Provenance

__all__ = ["Judge"]

#: A name of three characters or more, in normalised source; keywords do not matter: both sides have many of them.
_NAME = re.compile(rf"\b(?!(?:{'|'.join(keyword.kwlist)}|self|cls)\b)[^\W\d]\w{{2,}}")
_SIGNATURE, _READS, _COPY = KINDS[1:4]
_OUTDATED = "outdated"


class Judge:
    """Judges replacements by their sources.

    Args:
        originals: of the library, in the version that counts.
        environment: with that version.
        recorded: the fingerprints to compare with, ``None`` for a plugin that carries none.
    """

    def __init__(self, originals: Originals, environment: Environment, recorded: Optional[Recorded]) -> None:
        self._originals = originals
        self._environment = environment
        self._recorded = recorded
        self._misfits: dict[tuple[int, Target], Optional[Misfit]] = {}

    def without_fingerprint(self, change: Change, target: Target) -> Iterator[Note]:
        """Yield the notes on a change of a plugin that carries no fingerprints."""
        yield from self.of_calls(change, target)
        yield from self.of_names(change, target)

    def accepts_calls(self, change: Change, target: Target) -> bool:
        """True if sources show that a replacement accepts every call of its target."""
        misfit = self._misfit(change, target)
        return misfit is not None and not misfit.reason

    def of_calls(self, change: Any, target: Target, changed: str = "") -> Iterator[Note]:
        """Yield a note if a replacement does not accept every call of its target, as when the patch is applied.

        Args:
            change: of a patch.
            target: of the change.
            changed: the change of the target's signature, if it is known.
        """
        misfit = self._misfit(change, target)
        if misfit is None or not misfit.reason:
            return
        if misfit.caller:
            where = f"; {target.root} passes it: {misfit.caller}"
        elif misfit.is_required:
            where = ""
        else:
            where = f"; nobody in {target.root} passes {', '.join(misfit.missing) or 'so many'}"
        # without signatures="any" the patch is not applied, whoever passes the argument
        is_finding = misfit.is_required or misfit.caller or change.signatures != "any"
        advice = f"Give the replacement of {target} the parameters of its target" if is_finding else ""
        reason = f"{changed}; {misfit.error}" if changed and is_finding else misfit.reason
        yield Note(_SIGNATURE if is_finding else "", f"{reason}{where}", advice, replaces_change=bool(is_finding))

    def concerns(self, change: Change, target: Target, before: Optional[Fingerprint]) -> bool:
        """Return false for a changed class none of whose changed members the replacing class defines."""
        if before is None or not before.members:
            return True
        found = definition_of(change, self._originals.sources)
        if found is None or not isinstance(found.node, ast.ClassDef) or not is_replaced(change):
            return True
        try:
            now = self._originals.fingerprint(change, target).members
        except (Unseen, TargetNotFound):
            return True
        own = self._originals.sources.members(found)
        return any(before.members.get(name) != now.get(name) for name in own if name in before.members or name in now)

    def shares_names(self, change: Change, target: Target, difference: str) -> bool:
        """Return false if no name that a change of the target brings in or takes out is in the replacement.

        A change of a short function is a change of the whole of it: true.

        Args:
            change: of a patch.
            target: of the change.
            difference: of the target's source, a unified diff.
        """
        found = definition_of(change, self._originals.sources)
        now = self._originals.source(self._originals.fingerprint(change, target).source)
        if now.count("\n") < FEWEST_LINES:
            return True
        lines = [line for line in difference.splitlines() if not line.startswith(("---", "+++"))]
        removed, added = (
            set(_NAME.findall(" ".join(line[1:] for line in lines if line.startswith(mark)))) for mark in "-+"
        )
        names = (removed ^ added) or (removed | added)
        if found is None or not names:
            return True
        try:
            return not names.isdisjoint(_NAME.findall(normalised(found.nodes)))
        except RecursionError:
            return True

    def of_copy(self, change: Change, target: Target, library: Library, patch: str, *, drifted: bool) -> Iterator[Note]:
        """Yield notes on a replacement that is a copy of a recorded original and lacks what has changed since.

        Of a class, each method is a copy by itself: a class that adds much to a copied method is not like the original.

        Args:
            change: of the patch.
            target: of the change, as it is recorded.
            library: that has it now.
            patch: name of the patch.
            drifted: true if the target differs from the nearest fingerprint.
        """
        releases = self._recorded.releases(library.name, target) if self._recorded is not None else []
        releases = [(v, text) for v, text in releases if version_key(v) <= version_key(library.version)]
        reviewed = self._recorded.reviewed.get(library.name, {}).get(str(target)) if self._recorded else None
        if reviewed is not None:
            seen = [pair for pair in releases if version_key(pair[0]) >= version_key(reviewed)]
            releases = seen or releases[-1:]
        try:
            one = self._originals.fingerprint(change, target)
            now = self._originals.source(one.source)
        except (Unseen, TargetNotFound):
            return
        if not now or all(text == now for _, text in releases):  # nothing has changed that a copy could lack
            return
        copy = copy_of(change, self._originals.sources)
        if not copy:
            return
        name = f"{target.path[-1]}()" if target.path else str(target)
        parts: list[tuple[str, str, list[tuple[str, str]], str]] = []
        if one.members:
            parts = methods_of(copy, releases, now)
            members = members_in(copy)
            now = only_members(now, members)
            releases = [(version, only_members(text, members)) for version, text in releases]
        found = compare_copy(copy, releases, now)
        if found is not None and found.is_equal:
            mine = definition_of(change, self._originals.sources)
            theirs = self._originals.sources.locate(target)
            if mine is not None and means_the_same(mine, theirs, self._originals.sources):
                text = f"{target}: the replacement is equal to {name} of {library} now"
                yield Note(_OUTDATED, text, f"Remove the change of {target}, the library has it", replaces_change=True)
            return
        advice = f"Adapt the copy of {target}, or mark it as seen: patchcore fingerprint --reviewed {patch}"
        counts = (reviewed is not None, drifted)
        compared = [(part[0], part[1], part[3], compare_copy(*part[1:])) for part in parts]
        stale = [each for each in compared if _is_behind(each[3], *counts)]
        if not stale and _is_behind(found, *counts):
            stale = [(name, copy, now, found)]
        for title, mine_now, theirs_now, each in stale:
            assert each is not None  # it is behind
            text = (
                f"{target}: copy of {title} of {library.name} {each.release}; {library} changed "
                f"{counted(each.changed, 'line')} since, your copy has {each.followed} of them"
            )
            yield Note(_COPY, text, advice, three_way(each.base, theirs_now, mine_now), replaces_change=True)
        whole = found or next((each for *_, each in compared if each is not None), None)
        if not stale and drifted and whole is not None and not whole.is_stale:
            what = f"copy of {name} of {library.name} {whole.release}, has all lines that {library} changed"
            yield Note("", f"{target}: {what}", replaces_change=True)

    def of_names(self, change: Change, target: Target) -> Iterator[Note]:
        """Yield notes on names that the replacement reads and that have vanished, or have another signature."""
        read = names_read(change, target, self._originals.sources, self._environment.is_module)
        now = name_fingerprints(read, self._originals)
        library = Library.of(target, self._environment)
        for name, use in read.items():
            nearest = None if self._recorded is None else self._recorded.nearest_name(library, name)
            before = None if nearest is None else nearest[1]
            present = now.get(name)
            since = f" since {library.name} {nearest[0]}" if nearest is not None else ""
            if present is None:
                continue
            if present.source == ABSENT_SOURCE:
                was_there = before.source == DEFINED if before is not None else use.imported
                if was_there:
                    yield Note(_READS, f"{target}: the replacement reads {name}, which is gone{since}", _ADAPT)
            elif use.can_call and before is not None and before.signature and before.signature != present.signature:
                text = f"the replacement reads {name}, whose signature changed{since}"
                yield Note(_READS, f"{target}: {text}: {before.signature} -> {present.signature or 'none'}", _ADAPT)

    def of_addition(
        self, change: Change, target: Target, provenance: Provenance, *, skip_recorded: bool = False
    ) -> Iterator[Note]:
        """Yield a note on a name that a patch adds: the library has it now, or has no longer the place for it.

        Args:
            change: of a patch, with ``create=True``.
            target: of the change.
            provenance: of the patch; the line of its plugin that declares the target is named.
            skip_recorded: read nothing if the version of the library is recorded.
        """
        library = Library.of(target, self._environment)
        nearest = None if self._recorded is None else self._recorded.nearest_name(library, target)
        if skip_recorded and (nearest is None or nearest[0] == library.version):
            return
        try:  # the module has the name as soon as the patch is applied, its source has not
            self._originals.sources.locate(target)
            present: Optional[Fingerprint] = Fingerprint(DEFINED)
        except TargetNotFound:
            present = Fingerprint(ABSENT_SOURCE)
        except (Unseen, RecursionError):
            present = name_fingerprints([target], self._originals).get(target)
        if nearest is None or present is None:
            return
        place = place_of(target, provenance.file)
        advice = f"Delete the change of {target}{f' ({place})' if place else ''}"
        if present.source == ABSENT_SOURCE:
            reason = self._lacks_owner(target)
            if reason:
                text = f"{target}: the place of this name is gone since {library.name} {nearest[0]}: {reason}"
                yield Note(KINDS[0], text, advice)
        elif nearest[1].source != DEFINED:
            text = f"{target}: {library} has it, {library.name} {nearest[0]} had not: {LIBRARY_COUNTS}"
            yield Note(_OUTDATED, text, advice)

    def of_takeover(self, change: Change, target: Target, since: str, entry: PlannedPatch) -> Iterator[Note]:
        """Yield a note on a name that a patch added with ``create="always"`` and that it replaces now.

        Args:
            change: of the patch.
            target: of the change.
            since: the library and the version that had no such name.
            entry: the patch, with its plugin.
        """
        if getattr(change, "create", False) != ALWAYS:
            return
        try:
            self._originals.sources.locate(target)
        except (Unseen, TargetNotFound, RecursionError):
            return
        place = place_of(target, entry.provenance.file)
        advice = f"Delete the change of {target}{f' ({place})' if place else ''}, or record the release"
        library = Library.of(target, self._environment)
        text = f"{target}: {library} has it, {since} had not: create={ALWAYS!r} replaces that of the library"
        yield Note(_OUTDATED, text, advice)

    def _lacks_owner(self, target: Target) -> str:
        """Return why the class or module that a name would be added to does not exist, ``""`` if it may exist."""
        try:
            self._originals.sources.locate(Target(target.module, target.path[:-1]))
        except TargetNotFound as error:
            return str(error)
        except (Unseen, RecursionError):
            pass
        return ""

    def _misfit(self, change: Change, target: Target) -> Optional[Misfit]:
        key = id(change), target
        if key not in self._misfits:
            self._misfits[key] = find_misfit(change, target, self._originals.sources)
        return self._misfits[key]


def _is_behind(found: Optional[Copy], is_reviewed: bool, drifted: bool) -> bool:
    """True if a replacement is a copy that lacks a change, of an older release or since the target was recorded."""
    return found is not None and found.is_stale and (drifted or found.is_older or is_reviewed)


_ADAPT = "Adapt the replacement to the names that the library has now"


def is_replaced(change: Change) -> bool:
    """True if a change puts a class in the place of another one."""
    return change.replaces and (is_class(change.source) or type(change.source) is Target)
