"""Writes findings as tables, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

from npu_migrate.migrate.findings import LEVELS, NEEDS_A_PERSON, Finding
from patchcore.plugin import TablesPage, TextTable, counted

__all__ = [
    "SCHEMA_VERSION",
    "WRITERS",
    "as_csv",
    "as_dict",
    "as_json",
    "as_page",
    "left_out_lines",
    "summary",
    "tables",
]

#: Version of the JSON; raised when a key changes its meaning or goes.
SCHEMA_VERSION = 1

_MOST_NAMED = 5  # of the files that are left out for one reason


def as_dict(findings: Sequence[Finding], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON view.

    Args:
        findings: all of them.
        facts: further facts about the run.
    """
    counts = Counter(finding.level for finding in findings)
    return {
        "schema_version": SCHEMA_VERSION,
        **facts,
        "counts": {level: counts[level] for level in LEVELS},
        "findings": [finding.to_dict() for finding in findings],
    }


def as_json(findings: Sequence[Finding], facts: Mapping[str, Any]) -> str:
    """Return the JSON text."""
    return json.dumps(as_dict(findings, facts), indent=2) + "\n"


def as_csv(findings: Iterable[Finding]) -> str:
    """Return a line of headings and one for each finding."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Finding._fields)
    writer.writerows(findings)
    return text.getvalue()


def tables(findings: Sequence[Finding], *, changes: bool) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Return title, headings and rows of a table for each level that has findings.

    Args:
        findings: all of them.
        changes: whether to list the rewritten places, which a diff shows as well.
    """
    made: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = []
    for level, meaning in LEVELS.items():
        found = [finding for finding in findings if finding.level == level]
        if not found or (level == "change" and not changes):
            continue
        if level == "change":
            rows: list[tuple[str, ...]] = [(f.place, f.rule, f"{_short(f.before)} -> {_short(f.after)}") for f in found]
            made.append((f"{level}: {meaning}", ("PLACE", "RULE", "WHAT"), rows))
        else:
            rows = [(f.place, f.rule, _short(f.before), f.note) for f in found]
            made.append((f"{level}: {meaning}", ("PLACE", "RULE", "WHAT", "NOTE"), rows))
    return made


def as_page(findings: Sequence[Finding], facts: Mapping[str, Any]) -> str:
    """Return the page."""
    human = sum(finding.level in (*NEEDS_A_PERSON, "review") for finding in findings)
    path, written_to = shlex.quote(str(facts["path"])), facts["written_to"]
    verb = "changed" if written_to else "to change"
    rows = [(each["name"], each["why"]) for each in facts["left_out"]]
    left_out = [TextTable("left out: not read", ("PLACE", "WHY"), rows)] if rows else []
    commands = [f"patchcore ops {path}"] if written_to else [f"patchcore migrate {path} --write"]
    return TablesPage(
        "patchcore migrate --report",
        counted(human, "place needs a person", "places need a person") if human else "No place needs a person",
        summary(findings, facts["files"], facts["changed"], verb),
        good=False if any(finding.level in NEEDS_A_PERSON for finding in findings) else None if human else True,
        facts=[("Path", str(facts["path"])), ("Written to", written_to or "nothing was written")],
        tables=[*(TextTable(*each) for each in tables(findings, changes=True)), *left_out],
        next_commands=commands,
    ).render()


def summary(findings: Sequence[Finding], files: int, changed: int, verb: str = "to change") -> str:
    """Return one line: how many files, changed ones, and findings of each level."""
    counts = Counter(finding.level for finding in findings)
    found = ", ".join(f"{counts[level]} {level}" for level in LEVELS if counts[level])
    return f"{counted(files, 'file')}, {changed} {verb}; {found or 'nothing found'}"


#: The writer of a report, by the end of its name.
WRITERS: Mapping[str, Callable[[Sequence[Finding], Mapping[str, Any]], str]] = {
    ".csv": lambda findings, facts: as_csv(findings),
    ".html": as_page,
    ".json": as_json,
}


def left_out_lines(left_out: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the files that were not read, a line for each reason.

    Args:
        left_out: names and reasons.
    """
    names: dict[str, list[str]] = {}
    for each in left_out:
        names.setdefault(each["why"], []).append(each["name"])
    return [
        f"left out ({why}): {', '.join(found[:_MOST_NAMED])}"
        + (f" and {len(found) - _MOST_NAMED} more" if found[_MOST_NAMED:] else "")
        for why, found in names.items()
    ]


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 4]} ..."
