"""Who took part in the run: processes in groups that are alike, and where ranks differ."""

from __future__ import annotations

from collections.abc import Sequence

from patchcore.builtin.html import Content, Element, badge, code, fold, h, section, table
from patchcore.builtin.page.html.parts import Links, standings
from patchcore.builtin.page.merge import Process
from patchcore.builtin.page.model import Run
from patchcore.builtin.page.words import clock
from patchcore.objects.printable import counted

__all__ = ["processes_section"]


def processes_section(run: Run, links: Links) -> Element:
    """Return the section."""
    alike = run.grouped(lambda process: (*_facts(process), process.content["digest"]))
    digests = list(dict.fromkeys(process.content["digest"] for process in run.processes))
    rows = [
        (
            run.who(group) if len(alike) > 1 or len(group) > 1 else str(group[0]),
            badge("finished" if finished else "unfinished", "applied" if finished else "failed"),
            summary,
            f"set {digests.index(group[0].content['digest']) + 1}",
            code(program),
        )
        for group in alike
        for _, finished, summary, program in [_facts(group[0])]
    ]
    return section(
        "processes",
        "Processes",
        table("Processes that are alike together", ("Processes", "State", "Patches", "Manifest", "Program"), rows),
        _agreement(run, digests),
        _differences(run, links),
        fold(f"Each of {counted(len(run.processes), 'process', 'processes')}", _each(run.processes)),
    )


def _facts(process: Process) -> tuple[str, bool, str, str]:
    content = process.content
    return content["role"], content["finished"], content["summary"], " ".join(content["environment"]["program"].split())


def _agreement(run: Run, digests: Sequence[str]) -> Content:
    if len(run.processes) == 1:
        return None
    if len(digests) == 1:
        return h("p", "All have the same manifest: patches, options, versions and files.")
    text = f"There are {counted(len(digests), 'manifest')} (patches with verdicts, options, versions, files)."
    if any(finding.kind == "difference" for finding in run.findings):
        return h("p", f"{text} The differences are among the ", h("a", "findings", href="#verdict"), ".")
    return h("p", f"{text} They differ only in patches that workers need not have, which is not a finding.")


def _differences(run: Run, links: Links) -> Content:
    found = [patch for patch in run.patches if patch.differs]
    if not found:
        return None
    rows = [(links.code(patch.name), patch.only_on or "all processes", standings(patch.standings)) for patch in found]
    return table("Patches that do not have the same status on all ranks", ("Patch", "There on", "Status"), rows)


def _each(processes: Sequence[Process]) -> Element:
    rows = []
    for process in processes:
        content, facts = process.content, process.content["environment"]
        started = content["timeline"]["started"] if content.get("timeline") else None
        name = facts["name"] if facts["name"] != "MainProcess" else ""
        rows.append(
            (
                f"{process.rank}",
                content["role"],
                f"{facts['pid']}",
                facts["host"],
                name,
                "" if started is None else clock(started),
                clock(content["written"]),
            )
        )
    columns = ("Rank", "Role", "Process id", "Host", "Name", "Started", "Last report")
    return table("Every process", columns, rows)
