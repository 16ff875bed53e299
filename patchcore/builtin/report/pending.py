"""Why patches of a run are pending: the imports that they wait for, each with its patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from patchcore.builtin.report.reading import Process
from patchcore.report import PENDING

__all__ = ["Pending", "count_pending"]


class Pending(NamedTuple):
    """Patches that wait for the same thing.

    Args:
        reason: of their changes: ``waits for the import of shop.prices``.
        patches: their names.
        processes: in which at least one of them waits.
    """

    reason: str
    patches: list[str]
    processes: list[Process]


def count_pending(processes: Sequence[Process]) -> list[Pending]:
    """Return the pending patches grouped by the reason, the reason of most patches first."""
    found: dict[str, Pending] = {}
    for process in processes:
        for patch in process.content["patches"]:
            if patch["status"] != PENDING:
                continue
            reasons = [change["reason"] for change in patch["changes"] if change["status"] == PENDING]
            for reason in dict.fromkeys(filter(None, reasons or [patch["reason"]])):
                pending = found.setdefault(reason, Pending(reason, [], []))
                if patch["name"] not in pending.patches:
                    pending.patches.append(patch["name"])
                if not pending.processes or pending.processes[-1] is not process:
                    pending.processes.append(process)
    return sorted(found.values(), key=lambda pending: -len(pending.patches))
