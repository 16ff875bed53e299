"""Makes the interface work in each process of ``patchcore run --compat mx_driving``."""

from __future__ import annotations

from mx_driving_compat import install
from patchcore import Patcher, Report, Section, hookimpl
from patchcore.plugin import FAILED, PatchRecord, counted

__all__ = ["take_part"]


def take_part(patcher: Patcher) -> None:
    """Install ``mx_driving.patcher`` in this process, and apply the patches of its parent process.

    Args:
        patcher: of the run in this process; its reports will have sections about the migration.
    """
    install()
    patcher.plugins.manager.register(_Reporter(), "mx_driving_compat.report")
    from mx_driving_compat.predefined import catalogue
    from mx_driving_compat.run import carrying

    if patcher.settings.count:
        catalogue.count_calls()
    carrying.begin()


class _Reporter:
    """A plugin that adds sections about the migration's patches to reports."""

    @hookimpl
    def report_sections(self) -> list[Section]:
        return [*self._of_patches(), *self._of_workers()]

    def _of_patches(self) -> list[Section]:
        from mx_driving_compat.patches.application import runs

        # A patch of the parent process has two records: one while it waited, one when it was applied.
        records = list({record.name: record for run in runs() for record in run.records()}.values())
        if not records:
            return []
        counts = Report(tuple(records)).summary()
        # The plugins' patches, which every patcher has, would be most of the lines.
        told = (record for record in records if record.distribution is None or record.status == FAILED)
        lines = (f"{r.status} {r.name}{f': {r.reason}' if r.reason else ''}{_hits(r)}" for r in told)
        data = [{"name": r.name, "status": r.status, "reason": r.reason, "calls": r.calls} for r in records]
        return [Section("mx_driving.patcher", (counts, *lines), counts=f"mx_driving.patcher: {counts}", data=data)]

    def _of_workers(self) -> list[Section]:
        from mx_driving_compat.collecting.recipes import left_behind

        behind = left_behind()
        lines = tuple(f"{name}: {reason}" for name, reason in behind)
        data = [{"name": name, "reason": reason} for name, reason in behind]
        return [Section("not carried to spawned workers", lines, data=data)] if behind else []


def _hits(record: PatchRecord) -> str:
    return "" if record.calls is None else f" ({counted(record.calls, 'call')})"
