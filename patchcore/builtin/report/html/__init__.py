"""One self-contained page about a run: the processes' reports -> view model -> templates beside this module.

Whatever text reports have is escaped. The same reports make the same page.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Optional

from patchcore.builtin.html import PageSection, render
from patchcore.builtin.report.compare import compare
from patchcore.builtin.report.html.timeline import timeline_of
from patchcore.builtin.report.model import STATUSES, Run, origin_of, view_of
from patchcore.builtin.report.reading import Process
from patchcore.builtin.report.sections import plugin_sections
from patchcore.builtin.report.words import clock, duration, span
from patchcore.builtin.run.roles import RANK
from patchcore.builtin.shared.files import write_whole
from patchcore.builtin.shared.finding import Finding
from patchcore.errors import SettingsError
from patchcore.objects.printable import counted
from patchcore.report import FAILED

__all__ = ["make_page", "write_page"]

_MOST_COMMANDS = 3


def make_page(
    processes: Sequence[Process], unreadable: Iterable[Finding] = (), compared: Optional[Sequence[Process]] = None
) -> str:
    """Return the page, as HTML.

    Args:
        processes, unreadable: at least one process; see :class:`patchcore.builtin.report.reading.Reports`.
        compared: the processes of another run, to show the differences.
    """
    run = view_of(processes, unreadable)
    told = plugin_sections(processes)
    sections = [PageSection("verdict", "Verdict", "verdict.html", _next_commands(run))]
    if compared is not None:
        content = compare(compared, processes), compared[0].run, processes[0].run
        sections.append(PageSection("compared", "Compared with another run", "compared.html", content))
    if told:
        sections.append(PageSection("told", "Reports of plugins", "told.html", told))
    sections += [
        PageSection("processes", "Processes", "processes.html"),
        PageSection("timeline", "Timeline", "timeline.html", timeline_of(run)),
        PageSection("patches", "Patches", "patches.html"),
        PageSection("targets", "Targets", "targets.html"),
        PageSection("references", "References", "references.html"),
        PageSection("environment", "Environment", "environment.html"),
        PageSection("options", "Options", "options.html"),
    ]
    runs = ", ".join(sorted({process.run for process in processes}))
    return render(
        "report.html",
        __package__,
        title=f"patchcore: run {runs}",
        command="patchcore report --html",
        over=f"patchcore report, run {runs}",
        heading=counted(len(run.findings), "finding") if run.findings else "No findings",
        summary=_summary(run),
        good=not run.findings,
        sections=sections,
        run=run,
        anchors=_anchors(run),
        by_status=run.by_status,
        never_hit=run.never_hit,
        statuses=STATUSES,
        origin_of=origin_of,
        filters={"clock": clock, "duration": duration, "span": span, "percent": "{:.2f}%".format},
    )


def write_page(
    processes: Sequence[Process],
    path: Path,
    unreadable: Iterable[Finding] = (),
    compared: Optional[Sequence[Process]] = None,
) -> None:
    """Write the page to ``path``, whole or not at all.

    Args:
        processes, unreadable, compared: see :func:`make_page`.
        path: of the page.

    Raises:
        SettingsError: it cannot be written there, or Jinja2 is not installed.
    """
    try:
        write_whole(path, make_page(processes, unreadable, compared))
    except OSError as error:
        raise SettingsError(f"the page cannot be written to {path}: {error.strerror or error}") from error


def _anchors(run: Run) -> dict[str, str]:
    """Return the id of the place on the page of each patch and target, by name."""
    return {
        **{target.target: f"target-{number}" for number, target in enumerate(run.targets, 1)},
        **{patch.name: f"patch-{number}" for number, patch in enumerate(run.patches, 1)},
    }


def _next_commands(run: Run) -> list[str]:
    """Return commands that show more about the faults, for the reader to copy one."""
    wrong = [patch.name for patch in run.patches if patch.status == FAILED or patch.differs or patch.never_hit]
    commands = [f"patchcore explain {shlex.quote(name)}" for name in wrong[:_MOST_COMMANDS]]
    return commands or (["patchcore doctor"] if run.findings else [])


def _summary(run: Run) -> str:
    """Return how many processes ran where and when."""
    ranks = {process.rank for process in run.processes if process.content["role"] == RANK}
    hosts = list(dict.fromkeys(process.content["environment"]["host"] for process in run.processes))
    parts = [counted(len(run.processes), "process")]
    if ranks:
        parts.append(counted(len(ranks), "rank"))
    parts.append(f"on {hosts[0]}" if len(hosts) == 1 else f"on {counted(len(hosts), 'host')}")
    starts = [p.content["timeline"]["started"] for p in run.processes if p.content.get("timeline")]
    end = max(process.content["written"] for process in run.processes)
    when = f"{clock(min(starts))}, {duration(end - min(starts))}" if starts else f"last report of {clock(end)}"
    return f"{', '.join(parts)}; {when}"
