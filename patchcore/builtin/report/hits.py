"""Hits: the calls that the processes of a run have counted, taken together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

from patchcore.builtin.report.reading import Process
from patchcore.report import APPLIED, REVERTED

__all__ = ["Hits", "count_hits", "never_hit"]


class Hits(NamedTuple):
    """The calls of one target through one patch.

    Args:
        patch: its name.
        target: as declared, with its module.
        calls: of all processes that count.
        replaced: how many of them ``when_call`` has sent to the replacement, ``None`` without ``when_call``.
        processes: how many processes have called it.
    """

    patch: str
    target: str
    calls: int
    replaced: Optional[int]
    processes: int


def count_hits(processes: Sequence[Process]) -> list[Hits]:
    """Return the calls of each counted target, in the order of the reports; nothing without counts."""
    found: dict[tuple[str, str], Hits] = {}
    equal: dict[int, list[Process]] = {}  # processes whose patches are one object; most are
    for process in processes:
        equal.setdefault(id(process.content["patches"]), []).append(process)
    for members in equal.values():
        for patch in members[0].content["patches"]:
            for change in patch["changes"] if patch["status"] in (APPLIED, REVERTED) else ():
                calls, replaced = change["calls"], change["replaced"]
                if calls is None:
                    continue
                was_called = bool(calls)
                calls *= len(members)
                replaced = None if replaced is None else replaced * len(members)
                before = found.get((patch["name"], change["target"]))
                if before is not None:
                    calls += before.calls
                    replaced = replaced if before.replaced is None else (replaced or 0) + before.replaced
                hit = (0 if before is None else before.processes) + was_called * len(members)
                key = patch["name"], change["target"]
                found[key] = Hits(*key, calls, replaced, hit)
    return list(found.values())


def never_hit(hits: Sequence[Hits]) -> list[str]:
    """Return the patches whose counted targets no process has called."""
    calls: dict[str, int] = {}
    for hit in hits:
        calls[hit.patch] = calls.get(hit.patch, 0) + hit.calls
    return [patch for patch, number in calls.items() if not number]
