"""What comes first: whether something is wrong, and what."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Optional

from patchcore.builtin.html import Content, Element, badge, code, command, fold, folded, h, header, section, table
from patchcore.builtin.page.html.parts import Links
from patchcore.builtin.page.merge import Finding
from patchcore.builtin.page.model import STATUSES, PatchView, Run
from patchcore.builtin.page.words import clock, duration
from patchcore.builtin.run.roles import RANK
from patchcore.objects.printable import counted
from patchcore.report import FAILED

__all__ = ["headline", "verdict_section"]

_MOST_FINDINGS = 40  # more are folded away
_MOST_COMMANDS = 3


def headline(run: Run) -> Element:
    """Return the head of the page: the verdict in one line, the run, how many patches have which status."""
    wrong = len(run.findings)
    runs = sorted({process.run for process in run.processes})
    return header(
        f"patchcore report, run {', '.join(runs)}",
        counted(wrong, "finding") if wrong else "No findings",
        h("p", _sizes(run), class_="sizes"),
        h("p", [[badge(mark, "mark"), " "] for mark in run.marks]) if run.marks else None,
        h(
            "ul",
            [_tally(status, run) for status in STATUSES if _having(status, run)],
            _never_hit(run),
            class_="tallies",
        ),
        good=not wrong,
    )


def verdict_section(run: Run, links: Links) -> Element:
    """Return the section with the findings, the failures with their reasons, and patches that were never hit."""
    content: list[Content] = []
    if run.findings:
        content += [_findings(run.findings[:_MOST_FINDINGS])]
        more = run.findings[_MOST_FINDINGS:]
        if more:
            content.append(fold(counted(len(more), "more finding"), _findings(more)))
    else:
        content.append(
            h(
                "p",
                "No patch and no plugin failed, all processes have the same patches, and all main processes finished.",
            )
        )
    content += [_next(run), _problems(run), _notes(run), _hits(run, links)]
    return section("verdict", "Verdict", content)


def _sizes(run: Run) -> str:
    ranks = {process.rank for process in run.processes if process.content["role"] == RANK}
    hosts = list(dict.fromkeys(process.content["environment"]["host"] for process in run.processes))
    parts = [counted(len(run.processes), "process", "processes")]
    if ranks:
        parts.append(counted(len(ranks), "rank"))
    parts.append(f"on {hosts[0]}" if len(hosts) == 1 else f"on {counted(len(hosts), 'host')}")
    starts = [p.content["timeline"]["started"] for p in run.processes if p.content.get("timeline")]
    end = max(process.content["written"] for process in run.processes)
    when = f"{clock(min(starts))}, {duration(end - min(starts))}" if starts else f"last report of {clock(end)}"
    return f"{', '.join(parts)}; {when}"


def _having(status: str, run: Run) -> list[PatchView]:
    return [patch for patch in run.patches if patch.status == status]


def _tally(status: str, run: Run) -> Element:
    found = _having(status, run)
    return h("li", h("a", h("strong", str(len(found))), f" {status}", href=f"#patches-{status}"), class_=status)


def _never_hit(run: Run) -> Optional[Element]:
    found = [patch for patch in run.patches if patch.never_hit]
    if not found:
        return None
    return h("li", h("a", h("strong", str(len(found))), " never hit", href="#never-hit"), class_="pending")


def _findings(findings: Sequence[Finding]) -> Element:
    rows = [
        (badge(f.kind, "failed"), code(f.subject) if f.subject else "", folded(f.message), folded(f.processes))
        for f in findings
    ]
    return table("Findings", ("Kind", "Subject", "Message", "Processes"), rows)


def _next(run: Run) -> list[Element]:
    """Commands that say more about what is wrong, of which the reader copies one."""
    wrong = [patch.name for patch in run.patches if patch.status == FAILED or patch.differs or patch.never_hit]
    commands = [f"patchcore explain {shlex.quote(name)}" for name in wrong[:_MOST_COMMANDS]]
    if not commands and run.findings:
        commands = ["patchcore doctor"]
    return [h("p", "Next:"), *map(command, commands)] if commands else []


def _problems(run: Run) -> Content:
    found: dict[tuple[str, str, str], str] = {}
    for process in run.processes:
        for problem in process.content["problems"]:
            found.setdefault((problem["plugin"], problem["where"], problem["message"]), problem["traceback"])
    return [
        fold(["Traceback of plugin ", code(plugin), f", {where}: ", message], h("pre", traceback, tabindex="0"))
        for (plugin, where, message), traceback in found.items()
        if traceback
    ]


def _notes(run: Run) -> Optional[Element]:
    notes = dict.fromkeys(note for process in run.processes for note in process.content["notes"])
    return (
        fold(counted(len(notes), "note"), h("ul", [h("li", folded(note)) for note in notes]), open=True)
        if notes
        else None
    )


def _hits(run: Run, links: Links) -> list[Element]:
    title = h("h3", "Patches that were never hit", id="never-hit")
    if not run.counted:
        how: list[Content] = ["Calls were not counted in this run. ", code("patchcore run --count"), " counts them."]
        return [title, h("p", how)]
    found = [patch for patch in run.patches if patch.never_hit]
    if not found:
        return [title, h("p", "None: each applied patch whose calls can be counted was called.")]
    rows = [(links.code(patch.name), patch.origin, f"{patch.calls or 0:,}") for patch in found]
    return [title, table("Applied, but never called", ("Patch", "From", "Calls of targets"), rows, numeric=1)]
