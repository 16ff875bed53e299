"""The comparison as rows of tables, as a page, and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from npu_migrate.ops.judging import ELSEWHERE, HANDLED, MISSING, SUPPORTED, UNKNOWN, Comparison, Row
from npu_migrate.ops.phases import PHASES
from npu_migrate.ops.records import OTHERS
from npu_migrate.ops.tables import Table as OperatorTable
from patchcore.plugin import TablesPage, TextTable, counted

__all__ = [
    "COLUMNS",
    "EXCLUDED_COLUMNS",
    "EXCLUDED_TITLE",
    "MISSING_COLUMNS",
    "excluded_rows",
    "make_page",
    "missing_rows",
    "rows",
    "summary",
    "view",
]

COLUMNS = ("OPERATOR", "STATUS", "CALLS", "PHASES", "DTYPES", "WHERE")
MISSING_COLUMNS = ("OPERATOR", "WITHOUT A KERNEL", "CALLED AT", "PATCHES")
EXCLUDED_TITLE = "Dtypes that torch_npu's documentation leaves out"
EXCLUDED_COLUMNS = ("OPERATOR", "DTYPES", "CALLED AT")


def summary(comparison: Comparison) -> str:
    """Return the result in one line."""
    judged = sum(row.status != ELSEWHERE for row in comparison.rows)
    counts = ", ".join(f"{number} {outcome}" for outcome, number in comparison.counts.items())
    operators, table = counted(judged, "operator"), comparison.table
    return f"{operators} on {comparison.device}, torch_npu {table.torch_npu}: {counts or 'none'}"


def rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return a row of ``COLUMNS`` for each operator."""
    return [
        (
            row.operator,
            row.outcome,
            _calls(row),
            " ".join(phase for phase in PHASES if phase in row.record.phases),
            " ".join(_known(row.record.dtypes)),
            _first(row.record.sites),
        )
        for row in comparison.rows
    ]


def missing_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return a row of ``MISSING_COLUMNS`` for each operator that is missing or unknown."""
    return [
        (row.operator, _consequence(row), "\n".join(_known(row.record.sites)), _handling(row))
        for row in comparison.rows
        if row.status in (MISSING, UNKNOWN)
    ]


def excluded_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return a row of ``EXCLUDED_COLUMNS`` for each operator with dtypes that the documentation leaves out."""
    return [
        (row.operator, " ".join(row.excluded), "\n".join(_known(row.record.sites)))
        for row in comparison.rows
        if row.excluded
    ]


def make_page(comparison: Comparison, script: Sequence[str] = ()) -> TablesPage:
    """Return the page of a comparison.

    Args:
        comparison: of a program.
        script: the program with its arguments, where it is a script.
    """
    facts = [
        ("Program", comparison.program),
        ("Compared with", _describe(comparison.table)),
        *((f"Trace {trace.name}", _described(trace)) for trace in comparison.traces),
    ]
    tables = []
    missing = missing_rows(comparison)
    if missing:
        tables.append(TextTable("Without a known kernel", MISSING_COLUMNS, missing))
    excluded = excluded_rows(comparison)
    if excluded:
        tables.append(TextTable(EXCLUDED_TITLE, EXCLUDED_COLUMNS, excluded))
    columns = ("OPERATOR", "STATUS", "CALLS", "PHASES", "DTYPES", "SHAPES", "CALLED AT", "CALLED BY")
    wide = [
        (*cells[:5], "\n".join(_with_numbers(row.record.shapes)), "\n".join(_with_numbers(row.record.sites)),
         "\n".join(_with_numbers(row.record.callers)))
        for cells, row in zip(rows(comparison), comparison.rows)
    ]  # fmt: skip
    tables.append(TextTable("Operators", columns, wide))
    missing_ones = len(comparison.missing)
    return TablesPage(
        "patchcore ops --html",
        counted(missing_ones, "operator is missing", "operators are missing")
        if missing_ones
        else "No operator is missing",
        summary(comparison),
        good=not (missing_ones or comparison.failed),
        facts=facts,
        notes=comparison.notes,
        tables=tables,
        next_commands=[f"patchcore run --emulate-npu {shlex.join(script)}"] if script else [],
        kinds={MISSING: "failed", UNKNOWN: "pending", HANDLED: "applied", SUPPORTED: "applied"},
    )


def view(comparison: Comparison) -> dict[str, Any]:
    """Return all of it for JSON."""
    return {
        "program": comparison.program,
        "table": {
            "torch_npu": comparison.table.torch_npu,
            "torch": comparison.table.torch,
            "source": dict(comparison.table.source),
        },
        "device": comparison.device,
        "traces": [
            {
                "name": trace.name,
                "device": trace.device,
                "exit_code": trace.exit_code,
                "processes": trace.processes,
                "torch": trace.torch,
            }
            for trace in comparison.traces
        ],
        "counts": comparison.counts,
        "notes": list(comparison.notes),
        "operators": [
            {
                **asdict(row.record),
                "status": row.status,
                "excluded_dtypes": list(row.excluded),
                "traced": dict(row.calls),
                "falls_back": row.falls_back,
                "left_with_patches": row.left,
                "handled": row.handled,
                "handled_by": list(row.handled_by),
            }
            for row in comparison.rows
        ],
    }


def _calls(row: Row) -> str:
    return ", ".join(f"{name} {number}" for name, number in row.calls.items())


def _known(table: dict[str, int]) -> list[str]:
    """The keys of a table of counts, the most frequent first, and how many there are besides."""
    keys = sorted((key for key in table if key != OTHERS), key=lambda key: -table[key])
    return [*keys, f"and {table[OTHERS]} more calls"] if OTHERS in table else keys


def _with_numbers(table: dict[str, int]) -> list[str]:
    keys = sorted((key for key in table if key != OTHERS), key=lambda key: -table[key])
    return [f"{key}, {table[key]}x" for key in [*keys, OTHERS] if key in table]


def _first(sites: dict[str, int]) -> str:
    names = [key for key in sites if key != OTHERS]
    if not names:
        return ""
    more = len(names) - 1
    return names[0] + (f" (+{more})" if more and OTHERS not in sites else "") + (" (+more)" if OTHERS in sites else "")


def _consequence(row: Row) -> str:
    if row.status == UNKNOWN:
        return "not in the table, so it is unknown whether it has a kernel"
    return "runs on the CPU" if row.falls_back else "raises an error"


def _handling(row: Row) -> str:
    """The effect of patches on it, according to a trace with patches."""
    if row.left is None:
        return ""
    if row.left >= row.record.total:
        return "no patch changes that"
    names = ", ".join(row.handled_by) or "patches (which ones is not known: they replace no Python function around it)"
    return f"handled by {names}" if row.handled else f"{row.left} of {row.record.total} calls left with {names}"


def _describe(table: OperatorTable) -> str:
    source = table.source
    wheel = f"{source['wheel']}, sha256 {source['sha256']}"
    return f"{source['distribution']} for torch {table.torch}: {wheel}; {source['how']}"


def _described(trace: Any) -> str:
    operators = len(trace.on(trace.device))
    processes = counted(trace.processes, "process")
    return f"{counted(operators, 'operator')} on {trace.device}, {processes}, exit code {trace.exit_code}"
