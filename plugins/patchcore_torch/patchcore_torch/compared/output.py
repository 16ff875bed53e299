"""A comparison as text, as JSON and as a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from patchcore.plugin import TablesPage, TextTable, counted, print_line, print_table
from patchcore_torch.compared.judging import Comparison, Difference, Pair
from patchcore_torch.compared.reading import Key, Process
from patchcore_torch.recording.records import NAMES

__all__ = ["make_page", "print_comparison", "view"]

#: The number of rows that are shown without ``--all``.
_SHOWN = 10
_COLUMNS = ("PROCESS", "STEP", "PHASE", "NAME", "ITEM", "ERROR", "ALLOWED", "FAULT")


def print_comparison(comparison: Comparison, *, everything: bool) -> None:
    """Print the first divergence, and the others in a table.

    Args:
        comparison: to print.
        everything: show every row, not only the first ones.
    """
    for line in summary(comparison):
        print_line(line)
    rows = _rows(comparison)[1:]
    if rows:
        shown = rows if everything else rows[:_SHOWN]
        print_table("after it", _COLUMNS, shown)
        if len(shown) < len(rows):
            print_line(f"  and {len(rows) - len(shown)} more: --all shows them")
    for line in remarks(comparison):
        print_line(line)


def summary(comparison: Comparison) -> list[str]:
    """Return the result in lines: the first divergence, or that there is none."""
    agreed = sum(process.agreed for process in comparison.processes)
    if not comparison.diverges:
        largest = max(process.largest for process in comparison.processes)
        start = "no divergence up to where the recordings end" if comparison.gaps else "no divergence"
        return [f"{start}: {counted(agreed, 'record')} agree; the largest difference is {largest:.3g}"]
    found = comparison.first_divergence
    if found is None:
        return ["nothing could be compared: the two recordings have no record in common"]
    process, pair = found
    lines = [f"first divergence: {pair.first.key}{_in(process, comparison)}", f"  {pair.fault}"]
    kind = pair.first.kind.rpartition(":")[2]
    lines.append(f"  {kind} at {pair.first.place}" if pair.first.place else f"  by {kind}")
    if pair.first.dtype != pair.second.dtype:
        lines.append(f"  {pair.first.dtype} in the first run, {pair.second.dtype} in the second")
    for label, record in (("first", pair.first), ("second", pair.second)):
        numbers = " ".join(f"{name} {number:.6g}" for name, number in zip(NAMES, record.numbers))
        lines.append(f"  {label:6} {numbers} ({record.device})")
    patches = process.patches_at(pair.first)
    if patches:
        lines.append(f"  patched in one of the runs: {', '.join(patches)}")
    total = sum(len(each.pairs) for each in comparison.processes)
    lines.append(f"{counted(process.before, 'record')} before it agree; {total} of {agreed + total} diverge")
    return lines


def remarks(comparison: Comparison) -> list[str]:
    """Return what could not be compared, and what the recordings lack."""
    lines = []
    for names, which in ((comparison.alone_first, "first"), (comparison.alone_second, "second")):
        if names:
            lines.append(f"only in the {which} recording: {', '.join(names)}")
    for process in comparison.processes:
        where = _in(process, comparison)
        for keys, which in ((process.only_first, "first"), (process.only_second, "second")):
            if keys:
                lines.append(f"{counted(len(keys), 'record')} only in the {which} run{where}, the first: {keys[0]}")
        for steps, which in ((process.steps_first, "first"), (process.steps_second, "second")):
            if steps:
                lines.append(f"only the {which} run has steps {', '.join(map(str, steps))}{where}")
    lines += comparison.gaps
    for recording in (comparison.first, comparison.second):
        for recorded in recording.processes.values():
            lines += [f"{recording.folder}, {recorded.name}: {text}" for text in _faults(recorded)]
    return lines


def _faults(process: Process) -> list[str]:
    faults = []
    if process.attempts > 1:
        faults.append(f"was started {process.attempts} times; of a step that is there twice, the last one counts")
    if process.unseen:
        faults.append(f"{counted(process.unseen, 'tensor')} without values, not recorded")
    return faults


def _in(process: Difference, comparison: Comparison) -> str:
    return f" in {process.process}" if len(comparison.first.processes) > 1 else ""


def _rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return a row for each pair with a fault, the first divergence first."""
    found = sorted(
        (
            (pair.first.key.step, number, process, pair)
            for number, process in enumerate(comparison.processes)
            for pair in process.pairs
        ),
        key=lambda entry: entry[:2],
    )
    return [_row(process, pair) for _, _, process, pair in found]


def _row(process: Difference, pair: Pair) -> tuple[str, ...]:
    key: Key = pair.first.key
    name = f"{key.operator} in {key.name}" if key.operator else key.name
    call = f", call {key.call}" if key.call > 1 else ""
    error = "-" if math.isinf(pair.error) else f"{pair.error:.2g}"
    return (
        process.process,
        str(key.step),
        key.phase,
        f"{name}{call}",
        key.item,
        error,
        f"{pair.allowed:.2g}",
        pair.fault.partition(":")[0],
    )


def view(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison for JSON."""
    return {
        "schema_version": 1,
        "first": str(comparison.first.folder),
        "second": str(comparison.second.folder),
        "diverges": comparison.diverges,
        "gaps": list(comparison.gaps),
        "processes": [_view(process) for process in comparison.processes],
        "remarks": remarks(comparison),
    }


def _view(process: Difference) -> dict[str, Any]:
    return {
        "process": process.process,
        "agreed": process.agreed,
        "agreed_before": process.before,
        "largest_agreed_error": process.largest,
        "only_first": [key._asdict() for key in process.only_first],
        "only_second": [key._asdict() for key in process.only_second],
        "divergences": [
            {
                **pair.first.key._asdict(),
                "class": pair.first.kind,
                "place": pair.first.place,
                "patches": process.patches_at(pair.first),
                "error": None if math.isinf(pair.error) else pair.error,
                "allowed": pair.allowed,
                "fault": pair.fault,
                "first": _tensor(pair.first),
                "second": _tensor(pair.second),
            }
            for pair in process.pairs
        ],
    }


def _tensor(record: Any) -> dict[str, Any]:
    numbers = dict(zip(NAMES, record.numbers))
    return {"dtype": record.dtype, "shape": list(record.shape), "device": record.device, "bad": record.bad, **numbers}


def make_page(comparison: Comparison) -> TablesPage:
    """Return the page."""
    first, *rest = summary(comparison)
    tables: Sequence[TextTable] = []
    rows = _rows(comparison)
    if rows:
        tables = [TextTable("Divergences, in the order of execution", [name.capitalize() for name in _COLUMNS], rows)]
    return TablesPage(
        "patchcore compare",
        "Two runs",
        first,
        good=not comparison.diverges and not comparison.gaps,
        facts=[("first run", str(comparison.first.folder)), ("second run", str(comparison.second.folder))],
        notes=[*(line.strip() for line in rest), *remarks(comparison)],
        tables=tables,
    )
