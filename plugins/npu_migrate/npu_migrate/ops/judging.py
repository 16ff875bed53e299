"""Compares the operators that were traced with those that torch_npu has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Optional

from npu_migrate.ops.records import OperatorRecord
from npu_migrate.ops.tables import COMPOSITE, FALLBACK, KERNEL, Table, excluded_dtypes

__all__ = [
    "COMPOSED",
    "ELSEWHERE",
    "HANDLED",
    "MISSING",
    "STATUSES",
    "SUPPORTED",
    "UNKNOWN",
    "Comparison",
    "Row",
    "Trace",
    "judge",
]

#: The outcome of an operator with torch_npu: a kernel of its own; a kernel for all devices that calls others; nothing;
#: the table does not know it; it was called with CPU tensors only, while others were on the NPU.
SUPPORTED, COMPOSED, MISSING, UNKNOWN, ELSEWHERE = STATUSES = (
    "supported",
    "composite",
    "missing",
    "unknown",
    "CPU only",
)

#: The text for a missing operator that is not called once patches are applied.
HANDLED = "handled"

#: In which order rows are shown.
_ORDER = (MISSING, UNKNOWN, HANDLED, COMPOSED, SUPPORTED, ELSEWHERE)

_STATUS_OF = {KERNEL: SUPPORTED, COMPOSITE: COMPOSED, FALLBACK: MISSING, None: UNKNOWN}


@dataclass(frozen=True)
class Trace:
    """One run of the program.

    Args:
        name: ``cpu``, ``npu`` or ``npu with patches``.
        device: the kind of device whose operators it is for.
        exit_code: of the program.
        processes: how many have imported torch.
        records: by operator and kind of device.
        torch: version that was traced, ``None`` where no process imported it.
        emulated: calls that were made to emulate kernels, and are in no record.
    """

    name: str
    device: str
    exit_code: int
    processes: int
    records: Mapping[tuple[str, str], OperatorRecord]
    torch: Optional[str] = None
    emulated: int = 0

    def on(self, device: str) -> dict[str, OperatorRecord]:
        """Return the records of one kind of device, by operator."""
        return {operator: record for (operator, kind), record in self.records.items() if kind == device}


@dataclass(frozen=True)
class Row:
    """One operator.

    Args:
        operator: the dispatcher's name.
        status: one of ``STATUSES``.
        record: the record to show: that of the NPU's trace if there is one, else that of the CPU's.
        calls: how often each trace has seen it, by the trace's name: on its device; for ``ELSEWHERE`` with CPU tensors.
        falls_back: for one that is missing: whether it runs on the CPU, or raises.
        left: for one that is missing: the calls that remain with patches applied; ``None`` where that was not traced.
        handled_by: patches that replace functions it was called in, where none or fewer calls remain.
    """

    operator: str
    status: str
    record: OperatorRecord
    calls: Mapping[str, int]
    falls_back: Optional[bool] = None
    left: Optional[int] = None
    handled_by: tuple[str, ...] = ()

    @property
    def handled(self) -> bool:
        """True when it is missing, and no call of it is left with patches applied."""
        return self.status == MISSING and self.left == 0

    @property
    def excluded(self) -> tuple[str, ...]:
        """Dtypes of its calls on the NPU that torch_npu's documentation leaves out for it."""
        return () if self.status == ELSEWHERE else excluded_dtypes(self.operator, self.record.dtypes)

    @property
    def outcome(self) -> str:
        """The status as it is shown: ``HANDLED`` for one that is missing and that patches handle."""
        return HANDLED if self.handled else self.status


@dataclass(frozen=True)
class Comparison:
    """The result.

    Args:
        program: the command that was run.
        table: the table that it was compared with.
        traces: the runs.
        device: kind of device of the trace that was judged.
        rows: missing operators first.
        notes: remarks for the reader.
    """

    program: str
    table: Table
    traces: tuple[Trace, ...]
    device: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def failed(self) -> bool:
        """True when no run on the device that was judged ended well."""
        return all(trace.exit_code for trace in self.traces if trace.device == self.device)

    @property
    def missing(self) -> list[Row]:
        """The rows without a kernel that no patch handles."""
        return [row for row in self.rows if row.outcome == MISSING]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each outcome, in the order in which they are shown."""
        found = {outcome: sum(row.outcome == outcome for row in self.rows) for outcome in _ORDER}
        return {outcome: number for outcome, number in found.items() if number}


def judge(
    program: str,
    table: Table,
    traces: tuple[Trace, ...],
    *,
    patched: Optional[Trace] = None,
    fallback: bool = True,
) -> Comparison:
    """Compare traces with a table. Where the program fails on the NPU without patches, that with patches counts, too.

    Args:
        program: the command that was run.
        table: the operators of torch_npu.
        traces: on the CPU, on the NPU, or both.
        patched: the program on the NPU with patches applied.
        fallback: False where ``TORCH_NPU_FALLBACK_CPU_DISABLE`` makes an operator without a kernel an error.
    """
    main = next((trace for trace in traces if trace.device != "cpu" and trace.on(trace.device)), traces[0])
    everything = traces if patched is None else (*traces, patched)
    judged = main.on(main.device)
    remains = None if patched is None or patched.exit_code else patched.on(main.device)
    if main.exit_code and remains is not None:  # without patches it ended too early to see everything
        judged = {**judged, **remains}
        traces = everything
    rows = [_judged(record, table, traces, remains, fallback=fallback) for record in judged.values()]
    rows += _elsewhere(judged, traces)
    rows.sort(key=lambda row: (_ORDER.index(row.outcome), row.operator))
    notes = tuple(_notes(table, main, everything))
    return Comparison(program, table, everything, main.device, tuple(rows), notes)


def _judged(
    record: OperatorRecord,
    table: Table,
    traces: tuple[Trace, ...],
    remains: Optional[Mapping[str, OperatorRecord]],
    *,
    fallback: bool,
) -> Row:
    operator = record.operator
    status = _STATUS_OF[table.word(operator)]
    calls = _calls(operator, traces)
    if status != MISSING:
        return Row(operator, status, record, calls)
    falls_back = table.fallback and fallback
    if remains is None:
        return Row(operator, status, record, calls, falls_back)
    left = remains[operator].total if operator in remains else 0
    handled_by = tuple(sorted(record.patches)) if left < record.total else ()
    return Row(operator, status, record, calls, falls_back, left, handled_by)


def _elsewhere(judged: Mapping[str, OperatorRecord], traces: tuple[Trace, ...]) -> Iterator[Row]:
    """Rows for the operators that only CPU tensors had."""
    found: dict[str, OperatorRecord] = {}
    for trace in traces:
        for operator, record in trace.on("cpu").items():
            if operator not in judged:
                found.setdefault(operator, record)
    for operator, record in found.items():
        yield Row(operator, ELSEWHERE, record, _calls(operator, traces, device="cpu"))


def _calls(operator: str, traces: tuple[Trace, ...], *, device: Optional[str] = None) -> dict[str, int]:
    records = {trace.name: trace.records.get((operator, device or trace.device)) for trace in traces}
    return {name: 0 if record is None else record.total for name, record in records.items()}


def _notes(table: Table, main: Trace, traces: tuple[Trace, ...]) -> Iterator[str]:
    for trace in traces:
        if trace.exit_code:
            yield f"the program ended with exit code {trace.exit_code} on {trace.name}; the operators until then count"
        elif not trace.records:
            yield f"the program ran no operator of torch on {trace.name}"
        elif not trace.on(trace.device):
            yield (
                f"no operator ran on the NPU in the trace {trace.name}, the program puts no tensor on it: write "
                f".to('npu') or .to('cuda')"
            )
        if trace.emulated:
            yield (
                f"kernels of mx_driving or torch_npu are emulated on {trace.name}; the {trace.emulated} operators that "
                f"compute them here are not counted, because an NPU does not run them"
            )
    if main.device == "cpu":
        yield "judged by what runs on the CPU, where torch has operators that an NPU does not run (mkldnn, oneDNN)"
    if main.torch and main.torch.split("+")[0].split(".")[:2] != table.torch.split(".")[:2]:
        yield f"traced with torch {main.torch}, compared with a torch_npu for torch {table.torch}"
