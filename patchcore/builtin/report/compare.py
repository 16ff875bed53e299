"""Compares two runs fact by fact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from patchcore.builtin.report.model import view_of
from patchcore.builtin.report.reading import Process
from patchcore.builtin.report.words import duration
from patchcore.report import APPLIED

__all__ = ["RunDifference", "compare"]

_NONE = "-"
_CALLS = "calls"


class RunDifference(NamedTuple):
    """A fact that differs between two runs.

    Args:
        kind: a patch, the calls of a patch, a library, a setting, or a fact of the run.
        name: of the patch, library or setting.
        before, after: the value in each run; ``-`` if it has none.
    """

    kind: str
    name: str
    before: str
    after: str


def compare(before: Sequence[Process], after: Sequence[Process]) -> list[RunDifference]:
    """Return the differences between two runs.

    Args:
        before, after: their processes, at least one each.
    """
    first, second = _facts(before), _facts(after)
    keys = list({**first, **second})
    if not all(any(kind == _CALLS for kind, _ in facts) for facts in (first, second)):  # one of them did not count
        keys = [key for key in keys if key[0] != _CALLS]
    return [
        RunDifference(*key, first.get(key, _NONE), second.get(key, _NONE))
        for key in keys
        if first.get(key) != second.get(key)
    ]


def _facts(processes: Sequence[Process]) -> dict[tuple[str, str], str]:
    """Return the facts of a run, as text, by kind and name."""
    run = view_of(processes, ())
    facts = {("run", "findings"): str(len(run.findings)), ("run", "processes"): str(len(processes))}
    starts = [p.content["timeline"]["started"] for p in processes if p.content.get("timeline")]
    if starts:
        facts["run", "duration"] = duration(max(p.content["written"] for p in processes) - min(starts))
    for process in processes:
        content = process.content
        facts.setdefault(("run", "program"), " ".join(content["environment"]["program"].split()))
        facts.setdefault(("run", "python"), content["environment"]["python"])
        facts.setdefault(("run", "patchcore"), content["manifest"]["patchcore"])
        names = dict.fromkeys(setting["name"] for setting in content["settings"])
        for name in names:
            values = [str(setting["value"]) for setting in content["settings"] if setting["name"] == name]
            facts.setdefault(("setting", name), ", ".join(values))
        for name, version in sorted(content["manifest"]["libraries"].items()):
            facts.setdefault(("library", name), version or "not installed")
    for patch in run.patches:
        reason = "" if patch.status == APPLIED else patch.standings[0].reason
        facts["patch", patch.name] = f"{patch.status}: {reason}" if reason else patch.status
        if patch.hits is not None:
            facts[_CALLS, patch.name] = f"{patch.hits:,}"
    return facts
