"""Takes part in each process of ``patchcore run --compat mindspeed``."""

from __future__ import annotations

import itertools

import mindspeed_compat
from patchcore import Patcher, Report, Section, hookimpl
from patchcore.plugin import PatchRecord, counted

__all__ = ["take_part"]


def take_part(patcher: Patcher) -> None:
    """Take the place of MindSpeed's manager in this process.

    Args:
        patcher: of the run in this process; its reports will have a section about the features.
    """
    choices = patcher.settings.choices
    disabled = [choice.name for choice in choices if not choice.enable and choice.name.startswith("mindspeed.")]
    mindspeed_compat.install(count=patcher.settings.count, disable=list(dict.fromkeys(disabled)))
    patcher.plugins.manager.register(_Reporter(), "mindspeed_compat.report")


class _Reporter:
    """A plugin that adds a section about MindSpeed's features to reports."""

    @hookimpl
    def report_sections(self) -> list[Section]:
        records = list(itertools.chain.from_iterable(p.records() for p in mindspeed_compat.feature_patches()))
        if not records:
            return []
        counts = Report(tuple(records)).summary()
        lines = (f"{r.status} {r.name}: {counted(len(r.changes), 'change')}{_calls(r)}" for r in records)
        data = [
            {
                "patch": r.name,
                "status": r.status,
                "changes": len(r.changes),
                "calls": "" if r.calls is None else r.calls,
            }
            for r in records
        ]
        sections = [Section("MindSpeed", (counts, *lines), counts=f"MindSpeed: {counts}", data=data)]
        found = mindspeed_compat.remarks()
        if found:
            sections.append(Section("MindSpeed findings", tuple(found), data=[{"finding": text} for text in found]))
        return sections


def _calls(record: PatchRecord) -> str:
    return "" if record.calls is None else f", {counted(record.calls, 'call')}"
