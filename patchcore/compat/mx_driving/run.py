"""The part of the API in a run of ``patchcore run``: found in every process, reported, and carried to workers."""

from __future__ import annotations

from patchcore.compat.mx_driving import install
from patchcore.hookspecs import hookimpl
from patchcore.patcher import Patcher
from patchcore.report import Section

__all__ = ["take_part"]


def take_part(patcher: Patcher) -> None:
    """Let the program find ``mx_driving.patcher`` here; apply what the process that started this one has applied.

    Args:
        patcher: that of the run in this process, whose reports tell of it.
    """
    install()
    patcher.plugins.manager.register(_Reporter(), "patchcore.compat.mx_driving")
    from patchcore.compat.mx_driving import carrying

    carrying.begin()


class _Reporter:
    """Tells, as a plugin, what the patchers of the migration have done in this process."""

    @hookimpl
    def report_sections(self) -> list[Section]:
        from patchcore.compat.mx_driving.application import in_force

        records = [record for run in in_force() for record in run.records()]
        if not records:
            return []
        lines = tuple(
            f"{record.status} {record.name} [{record.origin}]{f': {record.reason}' if record.reason else ''}"
            for record in records
        )
        data = [{"name": record.name, "status": record.status, "reason": record.reason} for record in records]
        return [Section("mx_driving.patcher", lines, data=data)]
