"""Read the report directories of a run: a process for each report, in order."""

from __future__ import annotations

import fnmatch
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

from patchcore.builtin.report.report_file import Malformed, SharedLines, read_report
from patchcore.builtin.run.process_report import FILES
from patchcore.builtin.run.roles import LAUNCHER, MAIN, RANK, WORKER
from patchcore.builtin.shared.finding import Finding
from patchcore.errors import SettingsError, describe_error
from patchcore.objects.printable import printable

__all__ = ["Process", "Reports", "read_reports"]

#: The processes of a run are compared with the first of this order: rank 0 itself, not the launcher that started it.
_ROLES = (RANK, MAIN, LAUNCHER, WORKER)


@dataclass(frozen=True)
class Process:
    """One process of a run.

    Args:
        content: its report, as :func:`patchcore.builtin.report.report_file.read_report` returns it.
        group: the name of its group of ranks, empty if the run has one group only.
        modified: when its file was written, by the clock of the file system, in seconds since the epoch.
    """

    content: dict[str, Any]
    group: str = ""
    modified: Optional[float] = None

    @property
    def run(self) -> str:
        """The run that it took part in."""
        return str(self.content["run"])

    @property
    def identity(self) -> tuple[str, ...]:
        """The key of the process: its run, and what no other process has. It stays after ``exec``."""
        environment = self.content["environment"]
        return self.run, self.content["identity"] or f"{environment['pid']} on {environment['host']}"

    @property
    def machine(self) -> str:
        """The machine and container that it ran in; the host in reports that do not have it."""
        return str(self.content["machine"] or self.content["environment"]["host"])

    @property
    def rank(self) -> int:
        """Its rank, or that of the process that started it."""
        return int(self.content["environment"]["rank"])

    @property
    def leads(self) -> bool:
        """False for workers."""
        return bool(self.content["role"] != WORKER)

    @property
    def order(self) -> tuple[str, int, int, int]:
        """Sorts processes: by group and rank, and in each the one that has it first."""
        return self.group, self.rank, _ROLES.index(self.content["role"]), int(self.content["environment"]["pid"])

    def __str__(self) -> str:
        environment = self.content["environment"]
        rank = f"rank {self.rank} of {self.group}" if self.group else f"rank {self.rank}"
        return f"{rank}, {self.content['role']} {environment['pid']} on {environment['host']}"


class Reports(NamedTuple):
    """The content of a report directory.

    Args:
        processes: those whose reports can be read, in order; at least one.
        unreadable: a finding for each file that is no report, or has a field that cannot be.
    """

    processes: list[Process]
    unreadable: list[Finding]


def read_reports(*directories: Path, events: bool = True) -> Reports:
    """Return the processes that have written a report to ``directories``, and findings for files that cannot be read.

    Of several directories, the subfolders are read, too; a report that was collected twice is one process.

    A process that has become another program (``exec``) has written several; the last one counts.

    Args:
        directories: of reports.
        events: keep the events of the timelines.

    Raises:
        SettingsError: there is no such directory, there are no reports in it, or none can be read.
    """
    found: list[Process] = []
    lines: SharedLines = {}
    unreadable: list[Finding] = []
    paths = [path for each in directories for path in _report_files(each, deep=len(directories) > 1)]
    for path in paths:
        try:
            found.append(Process(read_report(path, lines, events=events), modified=path.stat().st_mtime))
        except (OSError, Malformed) as error:
            fault = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else str(error)
            unreadable.append(Finding("unreadable", path.name, f"{fault}; the report is left out"))
    where = ", ".join(map(str, directories))
    if not paths:
        raise SettingsError(f"no reports in {where}: no process of the run had patches, or no program was run")
    if not found:
        faults = "".join(f"\n  {printable(finding.subject)}: {finding.message}" for finding in unreadable)
        raise SettingsError(f"none of the reports in {where} can be read:{faults}")
    found.sort(key=lambda process: float(process.content["written"]))
    last = {process.identity: process for process in found}
    kept: dict[tuple[object, ...], Process] = {}
    for process in found:
        if process.content["finished"] or last[process.identity] is process:
            kept.setdefault((process.identity, process.content["written"], process.content["finished"]), process)
    return Reports(sorted(kept.values(), key=lambda process: process.order), unreadable)


def _report_files(directory: Path, *, deep: bool) -> list[Path]:
    try:
        names = [name for name in os.listdir(directory) if fnmatch.fnmatchcase(name, FILES)]
        below = [Path(folder) for folder, _, _ in os.walk(directory)][1:] if deep else []
    except (FileNotFoundError, NotADirectoryError):
        raise SettingsError(
            f"no directory {str(directory)!r}; patchcore run --report-dir {directory} ... makes one"
        ) from None
    except (OSError, ValueError) as error:  # not allowed, a name that is too long or that has a null character
        raise SettingsError(f"the directory {str(directory)!r} cannot be read: {describe_error(error)}") from error
    found = [directory / name for name in sorted(names)]
    return [*found, *(path for folder in sorted(below) for path in _report_files(folder, deep=False))]
