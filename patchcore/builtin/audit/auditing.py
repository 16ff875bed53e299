"""The audit of this process: its findings with what they miss, as a text and for programs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from patchcore.builtin.audit.findings import PATCHCORE, Finding, find
from patchcore.builtin.audit.recorder import RECORDER
from patchcore.objects.printable import counted

__all__ = ["Audit", "audit", "lines_of"]


class Audit(NamedTuple):
    """The patches in this process, whoever made them.

    Args:
        findings: the patches, by their makers.
        incomplete: why patches may be missing; empty if the audit began before the program.
        notes: further remarks.
        normal: how many changes of namespaces are no patches, by rule.
        watched: the modules and classes that were compared.
        seconds: that recording took.

    Examples:
        >>> import patchcore as pc
        >>> pc.audit().conflicts
        []
    """

    findings: tuple[Finding, ...]
    incomplete: tuple[str, ...]
    notes: tuple[str, ...]
    normal: Counter[str]
    watched: int
    seconds: float

    @property
    def conflicts(self) -> list[Finding]:
        """The findings in which two makers are at odds."""
        return [found for found in self.findings if found.conflict]

    def summary(self) -> str:
        """Return one line: how many patches there are, of how many distributions, and how many conflicts."""
        others = [found for found in self.findings if found.by != PATCHCORE]
        makers = {found.by for found in others}
        texts = [f"{counted(len(others), 'foreign patch')} of {counted(len(makers), 'distribution')}"]
        if len(others) < len(self.findings):
            ours = len(self.findings) - len(others)
            texts.append(f"{counted(ours, 'place')} patched by patchcore")
        texts.append(counted(len(self.conflicts), "conflict"))
        return ", ".join(texts)

    def to_dict(self) -> dict[str, Any]:
        """Return the view for programs."""
        return {
            "findings": [found.to_dict() for found in self.findings],
            "incomplete": list(self.incomplete),
            "notes": list(self.notes),
            "normal": dict(self.normal),
            "watched": self.watched,
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        rows = [found.to_dict() for found in self.findings]
        incomplete = [f"incomplete: {text}" for text in self.incomplete]
        return "\n".join([self.summary(), *incomplete, *lines_of(rows), *self.notes])


def audit(known: Iterable[tuple[str, str, str]] = ()) -> Audit:
    """Return the monkey patches that this process has, whoever made them; the first call starts the record.

    Call it once at the top of a program, before other imports, and again for the result. ``patchcore run --audit`` and
    ``patchcore audit`` start it in every process of a program. An audit that starts late says which libraries it has
    not seen.

    Args:
        known: patches that are shown in one line, see the hook ``known_foreign_patches``.

    Examples:
        >>> import patchcore as pc
        >>> import statistics
        >>> start, original = pc.audit(), statistics.mean
        >>> statistics.mean = lambda data: 0
        >>> [found.target for found in pc.audit().findings if found.target.startswith("statistics")]
        ['statistics:mean']
        >>> statistics.mean = original
    """
    is_new = not RECORDER.started
    RECORDER.start()
    findings, normal = find(RECORDER, known)
    incomplete: list[str] = []
    notes: list[str] = []
    if RECORDER.late:
        some = ", ".join(RECORDER.late[:8]) + (" ..." if len(RECORDER.late) > 8 else "")
        incomplete.append(f"the audit began after {some}: patches that were made before are not seen")
    elif is_new:
        incomplete.append("the audit begins now: call it again after the imports of the program")
    if not RECORDER.writes.watches_namespaces:
        version = ".".join(map(str, sys.version_info[:2]))
        notes.append(f"Python {version} cannot watch writes to modules and classes (3.12 can): writers are guessed")
    if RECORDER.writes.left_out:
        incomplete.append(f"{counted(RECORDER.writes.left_out, 'write')} came after the last one that was kept")
    return Audit(
        tuple(sorted(findings, key=lambda found: (found.by, found.target))),
        tuple(incomplete),
        tuple(notes),
        normal,
        len(RECORDER.copies),
        RECORDER.overhead,
    )


def lines_of(rows: Sequence[dict[str, str]]) -> Iterator[str]:
    """Yield the lines for people.

    Args:
        rows: of findings, see :meth:`Finding.to_dict`.
    """
    makers = dict.fromkeys(row["by"] for row in rows)
    for maker in makers:
        own = [row for row in rows if row["by"] == maker]
        known = [row for row in own if row["known"]]
        yield f"{maker}: {counted(len(own), 'patch')}"
        for row in own:
            if not row["known"]:
                yield from _lines_of_finding(row)
        if known:
            sources = ", ".join(dict.fromkeys(row["known"] for row in known))
            yield (
                f"  {counted(len(known), 'patch')} of every process that uses it ({sources}): "
                + ", ".join(row["target"] for row in known)
            )


def _lines_of_finding(row: dict[str, str]) -> Iterator[str]:
    yield f"  {row['target']}  {_change(row)}"
    if row["conflict"]:
        yield f"    conflict: {row['conflict']}"
    if row["patches"]:
        yield f"    by {counted(len(row['patches'].split(', ')), 'patch')} of patchcore: {row['patches']}"
    where = f"written at {row['written at']}" if row["written at"] else ""
    if where and row["writer is"] == "guessed":
        where += " (a guess)"
    parts = [where, f"called from {row['called from']}" * bool(row["called from"])]
    parts.append(f"after the import of {row['after import']}" * bool(row["after import"]))
    text = ", ".join(filter(None, parts))
    if text:
        yield f"    {text}"
    if row["still original"]:
        yield f"    the original is still in {row['still original']}"


def _change(row: dict[str, str]) -> str:
    if row["kind"] == "added":
        return f"added: {row['after']}"
    if row["kind"] == "removed":
        return f"removed; it was {row['before']}"
    if row["kind"] == "body":
        return f"body of the function: {row['before']} -> {row['after']}"
    return f"{row['before']} -> {row['after']}"
