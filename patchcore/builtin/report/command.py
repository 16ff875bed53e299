"""``patchcore report``: merge the reports of a run's processes, as text, JSON or a page; exit 1 on findings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, Optional

from patchcore.builtin.html import need_jinja
from patchcore.builtin.report.compare import compare
from patchcore.builtin.report.hits import Hits, count_hits, never_hit
from patchcore.builtin.report.jobs import correct_clocks, linked_runs, with_groups, without_replaced
from patchcore.builtin.report.merge import findings, groups_of, some_of
from patchcore.builtin.report.pending import count_pending
from patchcore.builtin.report.reading import Process, read_reports
from patchcore.builtin.report.report_file import SHARED_PARTS
from patchcore.builtin.report.sections import PluginSection, plugin_sections
from patchcore.builtin.report.words import who
from patchcore.builtin.shared.rows import print_table, print_text
from patchcore.cli import options as shared
from patchcore.cli.output import print_json
from patchcore.errors import SettingsError, did_you_mean
from patchcore.objects.printable import counted, printable

__all__ = ["add_arguments", "main"]

_DEFAULT_PAGE = "report.html"

#: Processes that are shown one by one; more are shown in groups.
_MOST_ROWS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Show the processes of a run and the status of the patches in each; exit with 1 when processes differ, when a "
        "patch or plugin failed, when a patch missed the import that it waited for, or when a rank did not finish."
    )
    parser.add_argument(
        "directories",
        metavar="DIR",
        type=Path,
        nargs="*",
        help="a directory given to patchcore run --report-dir; several, with their subfolders, are read as one",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        nargs="?",
        const=_DEFAULT_PAGE,
        help=f"write one self-contained page and print its path (default: DIR/{_DEFAULT_PAGE})",
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--run", metavar="ID", help="show this run (default: the latest)")
    choice.add_argument("--all", action="store_true", help="show all runs as if they were one")
    parser.add_argument(
        "--processes",
        action="store_true",
        help=f"show each process; the default is groups of equal processes if there are more than {_MOST_ROWS}, and in "
        "JSON always",
    )
    parser.add_argument("--pending", action="store_true", help="list pending patches by the import that they wait for")
    parser.add_argument("--compare", metavar="ID", help="show the differences from this other run of DIR")
    shared.add_format(parser)
    parser.set_defaults(command=main, usage_error=parser.error)


def main(options: argparse.Namespace) -> int:
    """Print the processes and the findings, or write a page; 1 when there are findings."""
    directories, page = _paths(options)
    if page is not None:
        need_jinja("patchcore report --html")
    with_events = page is not None or (options.format == "json" and options.processes)
    every, unreadable = read_reports(*directories, events=with_events)
    correct_clocks(every)
    processes = with_groups(every if options.all else _of_run(every, options.run, options.compare))
    compared = None if options.compare is None else _compared(every, processes, options)
    differences = [] if compared is None else compare(compared, processes)
    found = findings(processes, unreadable)
    hits = count_hits(processes)
    pending = count_pending(processes)
    if page is not None:
        from patchcore.builtin.report.html import write_page  # most calls do not need it

        write_page(processes, page, unreadable, compared)
        print(page)
    elif options.format == "json":
        print_json(
            {
                "runs": sorted({process.run for process in processes}),
                **_view(processes, whole=options.processes),
                "findings": [finding._asdict() for finding in found],
                "hits": [hit._asdict() for hit in hits],
                "never_hit": never_hit(hits),
                "lines": [
                    {"title": section.title, **section.table.to_dict()}
                    for section in plugin_sections(processes)
                    if section.table and section.table.of_lines
                ],
                "pending": [
                    {"reason": each.reason, "patches": each.patches, "processes": list(map(str, each.processes))}
                    for each in pending
                ],
                **({} if compared is None else {"differences": [difference._asdict() for difference in differences]}),
            }
        )
    else:
        title = f"Run {', '.join(sorted({process.run for process in processes}))}"
        if len(processes) <= _MOST_ROWS or options.processes:
            print_table(title, ("RANK", "ROLE", "PID", "HOST", "STATE", "PATCHES", "PROGRAM"), _rows(processes))
        else:
            print_table(title, ("PROCESSES", "HOSTS", "STATE", "PATCHES", "WHICH", "PROGRAM"), _group_rows(processes))
            print_text(f"  {counted(len(processes), 'process')}; --processes shows each", indent=2)
        print()
        for section in plugin_sections(processes):
            _print_section(section, processes)
        if hits:
            _print_hits(hits, processes)
        if pending and not options.pending:
            names = {name for each in pending for name in each.patches}
            modules = counted(len(pending), "module")
            print_text(f"{counted(len(names), 'patch')} pending: {modules} not imported; --pending lists them")
            print()
        elif pending:
            rows = [(p.reason, str(len(p.patches)), who(p.processes, processes), ", ".join(p.patches)) for p in pending]
            print_table("Pending", ("WHY", "PATCHES", "PROCESS", "NAMES"), rows)
            print()
        if compared is not None:
            runs = (compared[0].run, processes[0].run)
            print_table(f"Run {runs[0]} compared with run {runs[1]}", ("WHAT", "NAME", *runs), differences)
            print()
        if found:
            print_table(
                "Findings",
                ("KIND", "PROCESS", "SUBJECT", "MESSAGE"),
                [(f.kind, f.processes, f.subject, f.message) for f in found],
            )
        else:
            print("no findings")
    return 1 if found else 0


def _print_section(section: PluginSection, processes: Sequence[Process]) -> None:
    """Print a section: a table by line if it is about lines of the program, else the texts that the processes wrote."""
    if not section.lines:
        return
    table = section.table
    if table is None or not table.of_lines:
        lines = [(some_of(processes, having), line) for line, having in section.lines.items()]
        print_table(section.title, ("PROCESS", "WHAT"), lines)
    else:
        heads = (*(name.replace("_", " ").upper() for name in table.columns), *(["COUNT"] if table.counts else []))
        rows = [
            (
                f"{row.file}:{row.line}",
                *map("\n".join, row.cells(table.columns)),
                *([str(row.count)] if table.counts else []),
                "all processes"
                if len(row.processes) == len(processes)
                else who(list(row.processes.values()), processes),
            )
            for row in table.rows
        ]
        print_table(section.title, ("PLACE", *heads, "PROCESS"), rows)
        print_text(f"  {table.summary}", indent=4)
    print()


def _print_hits(hits: Sequence[Hits], processes: Sequence[Process]) -> None:
    rows = [
        (h.patch, str(h.calls), "" if h.replaced is None else str(h.replaced), str(h.processes), h.target) for h in hits
    ]
    print_table("Calls", ("PATCH", "CALLS", "REPLACED", "PROCESSES", "TARGET"), rows)
    missed = never_hit(hits)
    if missed:
        unfinished = sum(not process.content["finished"] for process in processes)
        but = f" (so far: {counted(unfinished, 'process')} did not finish)" if unfinished else ""
        print_text(f"never hit: {', '.join(missed)}{but}", indent=2)
    print()


def _paths(options: argparse.Namespace) -> tuple[list[Path], Optional[Path]]:
    """Return the report directories and where the page goes, ``None`` for no page."""
    directories, page = options.directories, options.html
    if page is not None and options.format == "json":
        options.usage_error("argument --html: not allowed with argument --format json")
    if not directories and page not in (None, _DEFAULT_PAGE):  # report --html DIR
        directories, page = [Path(page)], _DEFAULT_PAGE
    if not directories:
        options.usage_error("the following arguments are required: DIR")
    if page is None:
        return directories, None
    return directories, directories[0] / page if page == _DEFAULT_PAGE else Path(page)


def _compared(every: Sequence[Process], shown: Sequence[Process], options: argparse.Namespace) -> list[Process]:
    """Return the processes of the run to compare with."""
    if options.all:
        raise SettingsError("--compare compares one run with another; leave out --all")
    found = _of_run(every, options.compare)
    if found[0].run in {process.run for process in shown}:
        raise SettingsError(f"--compare {options.compare}: this is the run that is shown; name another one")
    return found


def _of_run(processes: Sequence[Process], run: Any, compared: Optional[str] = None) -> list[Process]:
    """Return the processes of one run, the latest by default; print the runs that are left out to stderr.

    Runs whose ranks have formed a group are one: those of the nodes of a job. The default is never the run that it is
    ``compared`` with.
    """
    linked = linked_runs(processes)
    times: dict[frozenset[str], float] = {}
    for process in processes:
        times[linked[process.run]] = max(times.get(linked[process.run], 0.0), process.content["written"])
    runs = sorted(times, key=lambda names: times[names])
    if run is None:
        others = [names for names in runs if compared not in names]
        *earlier, shown = others or runs
        if earlier:
            left_out = printable(", ".join(name for names in earlier for name in sorted(names)))
            print(f"patchcore: reports of earlier runs are left out: {left_out} (--run ID, --all)", file=sys.stderr)
    elif run in linked:
        shown = linked[run]
    else:
        names = [name for each in runs for name in sorted(each)]
        known = printable(", ".join(names))
        raise SettingsError(f"no report of run {run!r} (there are: {known}){did_you_mean(run, names)}")
    return sorted((process for process in processes if process.run in shown), key=lambda process: process.order)


def _view(processes: Sequence[Process], *, whole: bool) -> dict[str, Any]:
    """Return the processes for JSON: in groups that have equal parts, or each with all of its report."""
    if whole:
        return {"processes": [process.content for process in processes]}
    groups = groups_of(processes)
    numbers = {id(process): number for number, group in enumerate(groups) for process in group}
    return {
        "groups": [{name: group[0].content[name] for name in SHARED_PARTS} for group in groups],
        "processes": [
            {
                "group": numbers[id(process)],
                **{name: value for name, value in process.content.items() if name not in (*SHARED_PARTS, "timeline")},
                "started": process.content["timeline"]["started"],
            }
            for process in processes
        ],
    }


def _group_rows(processes: Sequence[Process]) -> list[tuple[str, ...]]:
    """Return a row for the processes that have the same group of ranks, role, state, patches and program."""
    current = set(map(id, without_replaced(processes)))
    groups: dict[tuple[str, ...], list[Process]] = {}
    for process in processes:
        content = process.content
        program = " ".join(content["environment"]["program"].split())
        key = (process.group, content["role"], _state(process, current), content["summary"], program)
        groups.setdefault(key, []).append(process)
    return [
        (
            f"{len(group):,}",
            f"{len({process.content['environment']['host'] for process in group}):,}",
            *key[2:-1],
            f"{who(group, ())}{f' of {key[0]}' if key[0] else ''}",
            key[-1],
        )
        for key, group in groups.items()
    ]


def _state(process: Process, current: Container[int]) -> str:
    """Return the state of a process; ``current`` has the ``id`` of those that no later generation has replaced."""
    if id(process) not in current:
        return "replaced"
    return "error" if process.content["error"] else "finished" if process.content["finished"] else "unfinished"


def _rows(processes: Sequence[Process]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    current = set(map(id, without_replaced(processes)))
    for process in processes:
        content, facts = process.content, process.content["environment"]
        name = "" if facts["name"] == "MainProcess" else f"[{facts['name']}] "
        rank = f"{process.rank} of {process.group}" if process.group else str(process.rank)
        texts = (rank, content["role"], str(facts["pid"]), facts["host"], _state(process, current), content["summary"])
        rows.append((*texts, name + " ".join(facts["program"].split())))
    return rows
