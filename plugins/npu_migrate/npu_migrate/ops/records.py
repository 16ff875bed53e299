"""The content of a trace: one record for each operator and kind of device, in files that processes write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Optional

from patchcore.plugin import write_whole

__all__ = ["OTHERS", "OperatorRecord", "ProcessTrace", "count", "merge", "read_processes"]

#: The key that counts the calls after the first few.
OTHERS = "others"

#: How many different shapes and lines of one operator are told apart.
_DISTINCT = 8

_PREFIX = "operators-"


def count(table: dict[str, int], key: str, number: int = 1, *, limit: Optional[int] = None) -> None:
    """Add ``number`` to ``table[key]``, or to ``OTHERS`` where the table has ``limit`` other keys already."""
    if key not in table and limit is not None and len(table) >= limit:
        key = OTHERS
    table[key] = table.get(key, 0) + number


@dataclass
class OperatorRecord:
    """The calls of one operator with tensors on one kind of device.

    Args:
        operator: the dispatcher's name with the overload, ``aten::add.Tensor``; without one it is the default overload.
        device: kind of device, ``"npu"`` where any tensor of the call or its result is on one.
        calls: by the program and by autograd.
        inner: calls by the kernels of composite operators.
        raised: how many of all these ended with an exception.
        phases: forward, backward, optimizer, clipping: how often in each.
        dtypes: of tensors given: in how many calls each.
        shapes: of the tensors given, as text, the first few different ones; ``OTHERS`` counts the rest.
        sites: ``file:line`` of the program, the first few different ones; ``OTHERS`` counts the rest.
        callers: the composite operators that made the inner calls.
        patches: calls from inside functions that a patch replaces, by patch.
    """

    operator: str
    device: str
    calls: int = 0
    inner: int = 0
    raised: int = 0
    phases: dict[str, int] = field(default_factory=dict)
    dtypes: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, int] = field(default_factory=dict)
    sites: dict[str, int] = field(default_factory=dict)
    callers: dict[str, int] = field(default_factory=dict)
    patches: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All calls."""
        return self.calls + self.inner

    def add(
        self,
        phase: str,
        dtypes: Iterable[str],
        shapes: str,
        site: Optional[str],
        *,
        caller: Optional[str] = None,
        patches: Iterable[str] = (),
        raised: bool = False,
    ) -> None:
        """Count one call.

        Args:
            phase, dtypes, shapes, site: of the call.
            caller: the composite operator that made it, ``None`` for the program.
            patches: that replace a function it was made in.
            raised: whether it ended with an exception.
        """
        if caller is None:
            self.calls += 1
        else:
            self.inner += 1
            count(self.callers, caller)
        self.raised += raised
        count(self.phases, phase)
        for dtype in dtypes:
            count(self.dtypes, dtype)
        if shapes:
            count(self.shapes, shapes, limit=_DISTINCT)
        if site is not None:
            count(self.sites, site, limit=_DISTINCT)
        for patch in patches:
            count(self.patches, patch)

    def include(self, other: OperatorRecord) -> None:
        """Add the counts of another process."""
        self.calls += other.calls
        self.inner += other.inner
        self.raised += other.raised
        for name, limit in (("phases", None), ("dtypes", None), ("shapes", _DISTINCT), ("sites", _DISTINCT)):
            for key, number in getattr(other, name).items():
                count(getattr(self, name), key, number, limit=limit)
        for name in ("callers", "patches"):
            for key, number in getattr(other, name).items():
                count(getattr(self, name), key, number)


@dataclass(frozen=True)
class ProcessTrace:
    """The trace of one process.

    Args:
        process: its id.
        arguments: its ``sys.argv``.
        torch: version, ``None`` where torch was not imported.
        records: one for each operator and kind of device.
        emulated: calls that were made to emulate kernels, and are in no record.
    """

    process: int
    arguments: tuple[str, ...]
    torch: Optional[str]
    records: tuple[OperatorRecord, ...]
    emulated: int = 0

    def write(self, folder: Path) -> None:
        """Write it into ``folder``."""
        write_whole(folder / f"{_PREFIX}{self.process}.json", json.dumps(asdict(self)))

    @classmethod
    def of(cls, view: Mapping[str, Any]) -> ProcessTrace:
        """Return the trace that :meth:`write` wrote."""
        records = tuple(OperatorRecord(**record) for record in view["records"])
        return cls(view["process"], tuple(view["arguments"]), view["torch"], records, view["emulated"])


def read_processes(folder: Path) -> list[ProcessTrace]:
    """Return the traces that the processes of a run have written into ``folder``, in the order of their ids."""
    views = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob(f"{_PREFIX}*.json")]
    return [ProcessTrace.of(view) for view in sorted(views, key=lambda view: int(view["process"]))]


def merge(processes: Iterable[ProcessTrace]) -> dict[tuple[str, str], OperatorRecord]:
    """Return the records of several processes as one set, by operator and kind of device."""
    merged: dict[tuple[str, str], OperatorRecord] = {}
    for process in processes:
        for record in process.records:
            key = record.operator, record.device
            merged.setdefault(key, OperatorRecord(*key)).include(record)
    return merged
