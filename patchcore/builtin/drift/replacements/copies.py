"""Replacements that are edited copies of their originals: how far they are behind, read from sources."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Optional

from patchcore.builtin.drift.definitions import Definition, Sources
from patchcore.builtin.drift.replacements.named import definition_of
from patchcore.builtin.drift.syntax import normalised, relaid
from patchcore.declare.changes import Change
from patchcore.declare.target import Target
from patchcore.errors import TargetNotFound, Unseen
from patchcore.stdlib import difflib

__all__ = [
    "FEWEST_LINES",
    "Copy",
    "compare_copy",
    "copy_of",
    "means_the_same",
    "members_in",
    "methods_of",
    "only_members",
    "three_way",
]

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

#: A shorter function is not recognised as a copy: many functions have the same three lines.
FEWEST_LINES = 5
#: The least similarity of a copy to its original, as :meth:`difflib.SequenceMatcher.ratio` counts lines.
_LEAST_SIMILARITY = 0.5


class Copy(NamedTuple):
    """An edited copy of an original, compared with the recorded releases of it.

    Args:
        release: the recorded version that the copy is most like.
        changed: how many lines of the original have changed between that version and the present one.
        followed: how many of these changes the copy has.
        is_equal: true if the copy is equal to the present original, and to no recorded one.
        base: the normalised source of ``release``.
        is_older: true if the copy is more like that version than like the present one.
    """

    release: str
    changed: int
    followed: int
    is_equal: bool
    base: str
    is_older: bool = False

    @property
    def is_stale(self) -> bool:
        """True if the copy lacks a change."""
        return self.followed < self.changed


def compare_copy(copy: str, releases: Sequence[tuple[str, str]], now: str) -> Optional[Copy]:
    """Compare a replacement with the originals of several releases; return ``None`` if it is no copy.

    A changed line counts once where it was taken out and once where it was put in. Indents, the line of the ``def``
    and decorators do not count: a copy of a method is often a function.

    Args:
        copy: normalised source of the replacement.
        releases: versions that are recorded, the oldest first, each with the normalised source of the original.
        now: normalised source of the original in the version that is installed.
    """
    mine, new = _lines(copy), _lines(now)
    olds = [(version, source, _lines(source)) for version, source in releases]
    likeness = [_similarity(mine, lines) for _, _, lines in olds]
    present = _similarity(mine, new)
    if len(new) < FEWEST_LINES or not olds or max(*likeness, present) < _LEAST_SIMILARITY:
        return None
    best = max(range(len(olds)), key=lambda place: (likeness[place], place))
    version, source, old = olds[best]
    if mine == new:
        return Copy(version, 0, 0, all(lines != mine for _, _, lines in olds), source)
    had, has, kept = Counter(old), Counter(new), Counter(mine)
    added, removed = has - had, had - has
    followed = sum(min(count, max(kept[line] - had[line], 0)) for line, count in added.items())
    followed += sum(min(count, max(had[line] - kept[line], 0)) for line, count in removed.items())
    return Copy(version, sum(added.values()) + sum(removed.values()), followed, False, source, likeness[best] > present)


def copy_of(change: Change, sources: Sources) -> str:
    """Return the normalised source of a change's replacement, ``""`` if it cannot be read.

    Imports nothing: a replacement that is named by a target is read from the file of its module.

    Args:
        change: of a patch.
        sources: where to look.
    """
    found = definition_of(change, sources) if change.replaces and not change.adds else None
    try:
        return "" if found is None else normalised(found.nodes)
    except RecursionError:
        return ""


def means_the_same(copy: Definition, original: Definition, sources: Sources) -> bool:
    """True if the names that two equal functions read from their modules mean the same objects."""
    names = {node.id for node in ast.walk(copy.node) if isinstance(node, ast.Name)}
    names &= set(sources.names_of(copy.module)) | set(sources.names_of(original.module))
    for name in names:
        try:
            one, other = (sources.locate(Target(where.module, (name,))) for where in (copy, original))
        except (Unseen, TargetNotFound):
            return False
        if (one.module, one.name) != (other.module, other.name):
            return False
    return True


def members_in(source: str) -> frozenset[str]:
    """Return the names of the methods and classes that a class defines, read from its normalised source."""
    return frozenset(node.name for node in _class_in(source).body if isinstance(node, _DEFINITIONS))


def methods_of(
    copy: str, releases: Sequence[tuple[str, str]], now: str
) -> list[tuple[str, str, list[tuple[str, str]], str]]:
    """Return the methods that a replacing class and its original have, as :func:`compare_copy` takes them.

    Args:
        copy: the normalised source of the replacing class.
        releases: versions that are recorded, each with the normalised source of the original class.
        now: of the original in the version that is installed.

    Returns:
        name, source of the copy, releases that have the method, and its source now; without those that never changed.
    """
    mine, new = _methods(copy), _methods(now)
    old = [(version, _methods(text)) for version, text in releases]
    found = []
    for name, source in mine.items():
        known = [(version, methods[name]) for version, methods in old if name in methods]
        if name in new and any(text != new[name] for _, text in known):
            found.append((f"{_class_in(now).name}.{name}()", source, known, new[name]))
    return found


def _methods(source: str) -> dict[str, str]:
    return {node.name: ast.unparse(node) for node in _class_in(source).body if isinstance(node, _DEFINITIONS)}


def only_members(source: str, names: frozenset[str]) -> str:
    """Return a class without the methods and classes whose names are not among ``names``.

    Args:
        source: normalised.
        names: of those that stay.
    """
    found = _class_in(source)
    found.body = [node for node in found.body if not isinstance(node, _DEFINITIONS) or node.name in names]
    found.body = found.body or [ast.Pass()]
    return ast.unparse(found)


def _class_in(source: str) -> ast.ClassDef:
    """Return the class of a normalised source, an empty one if this Python cannot read it."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, RecursionError):  # written by a newer Python
        statements = []
    (empty,) = ast.parse("class _: pass").body
    return next(node for node in [*statements, empty] if isinstance(node, ast.ClassDef))


def three_way(base: str, now: str, copy: str) -> str:
    """Return the changes of the original and of its copy since ``base``, as ``git diff --cc`` shows a merge.

    The first column is that of the original, the second that of the copy: ``++`` is a line that both have added, ``+``
    and a space one that the copy lacks. Lines in which all three agree are left out, but for two around each change.

    Args:
        base: normalised source of the release that the copy was made from.
        now: of the present original.
        copy: of the replacement.
    """
    old, new, mine = (relaid(text).splitlines() for text in (base, now, copy))
    while mine[:1] and mine[0].startswith("@"):  # the copy's own: @pc.patch(...)
        del mine[0]
    theirs, ours = _against(old, new), _against(old, mine)
    lines: list[tuple[str, str]] = []
    for place in range(len(old) + 1):
        added, own = theirs[0].get(place, []), ours[0].get(place, [])
        for _, first, last, start, end in _opcodes(added, own):
            both = [line for line in added[first:last] if line in own[start:end]]
            lines += (("++" if line in both else "+ ", line) for line in added[first:last])
            lines += ((" +", line) for line in own[start:end] if line not in both)
        if place < len(old):
            mark = ("-" if place in theirs[1] else " ") + ("-" if place in ours[1] else " ")
            lines.append((mark, old[place]))
    return "\n".join(_with_context(lines))


def _against(old: list[str], new: list[str]) -> tuple[dict[int, list[str]], set[int]]:
    """Return the lines added before each line of ``old``, and the places of those that were removed."""
    added: dict[int, list[str]] = {}
    removed: set[int] = set()
    for tag, first, last, start, end in _opcodes(old, new):
        if tag != "equal":
            removed.update(range(first, last))
            if start < end:
                added.setdefault(last, []).extend(new[start:end])
    return added, removed


def _opcodes(one: list[str], other: list[str]) -> list[tuple[str, int, int, int, int]]:
    return list(difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes())


def _with_context(lines: list[tuple[str, str]]) -> list[str]:
    changed = [i for i, (mark, _) in enumerate(lines) if mark.strip()]
    near = sorted({j for i in changed for j in range(max(i - 2, 0), min(i + 3, len(lines)))})
    found: list[str] = []
    for before, i in zip([None, *near], near):
        if before is not None and i != before + 1:
            found.append("@@")
        found.append(f"{lines[i][0]} {lines[i][1]}".rstrip())
    return found


def _lines(source: str) -> list[str]:
    lines = [line.strip() for line in relaid(source).splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if line.startswith(("def ", "async def ", "class "))), -1)
    return lines[first + 1 :]


def _similarity(one: list[str], other: list[str]) -> float:
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= _LEAST_SIMILARITY else 0.0
