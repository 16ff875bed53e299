"""Pairs the records of two recordings, and measures how far each pair is apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional

from patchcore import SettingsError
from patchcore.plugin import counted, did_you_mean, judge_difference
from patchcore_torch.compared.reading import Key, Process, Record, Recording
from patchcore_torch.recording.options import Ranges
from patchcore_torch.recording.records import NAMES

__all__ = ["TOLERANCES", "Comparison", "Difference", "Pair", "compare", "parse_tolerances"]

#: How far apart values of a dtype may be, as a share of the largest value of the tensor. Some hundred times the
#: spacing of numbers in the dtype, because the errors of the layers before add up.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
#: Values that are this small beside the largest one of their phase and step are rounding errors of larger ones that
#: cancel, as the gradient of a bias in front of a normalization: they are measured against this share of the largest.
_FLOOR = 1e-3
_COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


class Pair(NamedTuple):
    """A record of the first recording with that of the second.

    Args:
        first, second: the two.
        error: the largest difference as a share of the largest value; infinite where they cannot be compared.
        allowed: the share.
        fault: the difference in words; empty if it is allowed.
    """

    first: Record
    second: Record
    error: float
    allowed: float
    fault: str


class Difference(NamedTuple):
    """What a process of the two recordings has otherwise.

    Args:
        process: its name.
        pairs: with a fault, in the order of execution of the first recording.
        agreed: how many pairs have none.
        before: of these, those before the first fault.
        largest: the largest error of the pairs that agree.
        only_first, only_second: records that the other recording lacks, in steps that both have.
        steps_first, steps_second: steps that only one has.
        patches: applied in the second recording and not in the first, and the other way round, with their targets.
    """

    process: str
    pairs: tuple[Pair, ...]
    agreed: int
    before: int
    largest: float
    only_first: tuple[Key, ...]
    only_second: tuple[Key, ...]
    steps_first: tuple[int, ...]
    steps_second: tuple[int, ...]
    patches: Mapping[str, tuple[str, ...]]

    def patches_at(self, record: Record) -> list[str]:
        """Return the patches that only one of the runs had, and that change the class or the file of a record."""
        module, _, qualified = record.kind.partition(":")
        found = []
        for name, targets in self.patches.items():
            if any(text.startswith((f"{module}:", f"{module}.{qualified}")) for text in targets):
                found.append(name)
        return found


class Comparison(NamedTuple):
    """Two recordings, compared.

    Args:
        first, second: the recordings.
        processes: those that both have.
        alone_first, alone_second: names of processes that only one has.
        gaps: why the two may differ although all that was compared agrees, a line each: a process, a step or the end
            of a recording is missing that its options include.
    """

    first: Recording
    second: Recording
    processes: tuple[Difference, ...]
    alone_first: tuple[str, ...]
    alone_second: tuple[str, ...]
    gaps: tuple[str, ...]

    @property
    def diverges(self) -> bool:
        """Whether any pair has a fault, or nothing at all could be compared."""
        return any(process.pairs for process in self.processes) or not any(process.agreed for process in self.processes)

    @property
    def first_divergence(self) -> Optional[tuple[Difference, Pair]]:
        """The first pair with a fault: of the earliest step, then of the process whose name comes first."""
        found = [(process.pairs[0].first.key.step, i) for i, process in enumerate(self.processes) if process.pairs]
        if not found:
            return None
        process = self.processes[min(found)[1]]
        return process, process.pairs[0]


def parse_tolerances(texts: Iterable[str]) -> dict[str, float]:
    """Return the tolerances by dtype, from ``0.001`` for all, or ``float32=0.001``.

    Raises:
        SettingsError: a text is neither.
    """
    tolerances = dict(TOLERANCES)
    for text in texts:
        dtype, equals, number = text.rpartition("=")
        if equals and dtype not in TOLERANCES:
            raise SettingsError(f"--rtol {text}: there is no dtype {dtype!r}{did_you_mean(dtype, TOLERANCES)}")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise SettingsError(f"--rtol {text}: expected a number such as 0.001, or float32=0.001")
        tolerances.update(dict.fromkeys([dtype] if equals else TOLERANCES, value))
    return tolerances


def compare(first: Recording, second: Recording, tolerances: Mapping[str, float]) -> Comparison:
    """Compare two recordings.

    Args:
        first, second: the recordings; the first one decides the order.
        tolerances: by dtype; see :data:`TOLERANCES`.
    """
    names = [name for name in first.processes if name in second.processes]
    alone_first, alone_second = (
        tuple(sorted(set(one.processes) - set(other.processes))) for one, other in ((first, second), (second, first))
    )
    found = tuple(_compare(first.processes[name], second.processes[name], tolerances) for name in names)
    gaps = [
        *_missing_processes(alone_first, first, second),
        *_missing_processes(alone_second, second, first),
        *_missing_ranks(first, second),
        *(text for recording in (first, second) for text in _cut(recording)),
        *(text for each in found for text in _missing_steps(each, first, second)),
    ]
    return Comparison(first, second, found, alone_first, alone_second, tuple(gaps))


def _missing_processes(names: tuple[str, ...], has: Recording, lacks: Recording) -> list[str]:
    """Return a line if a recording lacks processes of the other one that its options do not leave out."""
    ranks = Ranges(_option(lacks, "ranks"), "ranks", 0)
    missing = []
    for name in names:
        kind, _, number = name.rpartition("rank")
        if kind or not number.isdecimal() or int(number) in ranks:
            missing.append(name)
    if not missing:
        return []
    sizes = [counted(len(each.processes), "process") for each in (has, lacks)]
    return [f"{lacks.folder} has no recording of {', '.join(missing)}: {has.folder} has {sizes[0]}, it has {sizes[1]}"]


def _missing_ranks(first: Recording, second: Recording) -> list[str]:
    """Return a line for each recording that lacks ranks of its own job, which the other one lacks, too."""
    lines = []
    for recording in (first, second):
        size = max(process.size for process in recording.processes.values())
        chosen = Ranges(_option(recording, "ranks"), "ranks", 0)
        found = {*first.processes, *second.processes}
        missing = [f"rank{rank}" for rank in range(size) if rank in chosen and f"rank{rank}" not in found]
        if missing and size > 1:
            names = _shortened(missing)
            lines.append(f"{recording.folder} has no recording of {names}, of {size} ranks: they recorded nothing")
    return lines


def _shortened(names: list[str]) -> str:
    """Return names as a text; only the number of those after the third."""
    rest = names[3:]
    return ", ".join([*names[:3], *([f"{len(rest)} more"] if rest else [])])


def _missing_steps(found: Difference, first: Recording, second: Recording) -> list[str]:
    lines = []
    for steps, lacks in ((found.steps_first, second), (found.steps_second, first)):
        chosen = Ranges(_option(lacks, "steps"), "steps", 1)
        missing = [str(step) for step in steps if step in chosen]
        if missing:
            lines.append(f"{lacks.folder}, {found.process}: was to record step {', '.join(missing)} too, and did not")
    return lines


def _cut(recording: Recording) -> list[str]:
    """Return a line for each process that was not recorded to its end."""
    lines = []
    for name, process in recording.processes.items():
        if not process.complete:
            why = "the process was killed, left by os._exit, or is still running"
            lines.append(f"{recording.folder}, {name}: the last line is missing: {why}")
        if process.full:
            limit = process.facts["options"]["limit"]
            lines.append(f"{recording.folder}, {name}: the limit of {limit} MB was reached, later records are missing")
    return lines


def _option(recording: Recording, name: str) -> str:
    """Return an option that a recording was made with, which is the same for its processes."""
    process = next(iter(recording.processes.values()))
    return str(dict(process.facts.get("options", {})).get(name, ""))


def _compare(first: Process, second: Process, tolerances: Mapping[str, float]) -> Difference:
    others = {record.key: record for record in second.records}
    steps, other_steps = ({record.key.step for record in process.records} for process in (first, second))
    floors = _floors(first)
    pairs: list[Pair] = []
    agreed, before, largest = 0, 0, 0.0
    only: list[Key] = []
    for record in first.records:
        other = others.pop(record.key, None)
        if other is None:
            if record.key.step in other_steps:
                only.append(record.key)
            continue
        pair = _pair(record, other, tolerances, floors[record.key.step, record.key.phase])
        if pair.fault:
            pairs.append(pair)
        else:
            agreed += 1
            before += not pairs
            largest = max(largest, pair.error)
    patches = {
        name: targets
        for one, another in ((first, second), (second, first))
        for name, targets in another.patches.items()
        if name not in one.patches
    }
    return Difference(
        first.name,
        tuple(pairs),
        agreed,
        before,
        largest,
        tuple(only),
        tuple(key for key in others if key.step in steps),
        tuple(sorted(steps - other_steps)),
        tuple(sorted(other_steps - steps)),
        patches,
    )


def _floors(process: Process) -> dict[tuple[int, str], float]:
    """Return the smallest size that differences are measured against, by step and phase."""
    found: dict[tuple[int, str], float] = {}
    for record in process.records:
        if record.dtype in TOLERANCES:
            key = record.key.step, record.key.phase
            found[key] = max(found.get(key, 0.0), _FLOOR * _largest(record))
        else:
            found.setdefault((record.key.step, record.key.phase), 0.0)
    return found


def _largest(record: Record) -> float:
    return max(abs(record.numbers[0]), abs(record.numbers[1]))


def _pair(first: Record, second: Record, tolerances: Mapping[str, float], floor: float) -> Pair:
    kinds = [_COMPLEX.get(record.dtype, record.dtype) for record in (first, second)]
    if not any(kind in tolerances for kind in kinds):
        floor = 0.0  # whole numbers agree or not
    allowed = max(tolerances.get(kind, 0.0) for kind in kinds)
    if first.shape != second.shape:
        return Pair(first, second, math.inf, allowed, f"shape {list(first.shape)} and {list(second.shape)}")
    if first.bad != second.bad:
        fault = f"{first.bad} and {second.bad} values are infinite or no number"
        return Pair(first, second, math.inf, allowed, fault)
    kept = first.file is not None and second.file is not None
    error, text = (_elements if kept else _numbers)(first, second, floor)
    fault = "" if error <= allowed else f"{text}: {error:.2g} of the size, allowed {allowed:.2g}"
    return Pair(first, second, error, allowed, fault)


def _numbers(first: Record, second: Record, floor: float) -> tuple[float, str]:
    """Compare what the records say about the tensors.

    Smallest, largest and mean value move at most as far as a value does, and are measured against the largest value;
    the norm and the sum with signs against the norm.
    """
    largest = max(_largest(first), floor)
    norm = max(first.numbers[NAMES.index("norm")], floor)
    sizes = {"norm": norm, "mix": norm}
    worst, text = 0.0, ""
    for name, one, other in zip(NAMES, first.numbers, second.numbers):
        error, _ = judge_difference(abs(one - other), sizes.get(name, largest), rtol=0.0)
        if error > worst:
            worst, text = error, f"{name} {one:.6g} and {other:.6g}"
    return worst, text


def _elements(first: Record, second: Record, floor: float) -> tuple[float, str]:
    import numpy

    one, other = (_load(record.file) for record in (first, second))
    if one.shape != other.shape:
        return math.inf, f"files with shapes {one.shape} and {other.shape}"
    if not one.size:
        return 0.0, ""
    one, other = (_finite(value, numpy) for value in (one, other))
    distances = numpy.abs(one - other)
    place = tuple(int(index) for index in numpy.unravel_index(int(distances.argmax()), one.shape))
    error, _ = judge_difference(float(distances[place]), max(float(numpy.abs(one).max()), floor), rtol=0.0)
    return error, f"{one[place]:.6g} and {other[place]:.6g} at {list(place)}"


def _load(file: Any) -> Any:
    import numpy

    try:
        return numpy.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file} cannot be read ({error}); make the recording again") from error


def _finite(value: Any, numpy: Any) -> Any:
    value = value.astype(numpy.complex128 if value.dtype.kind == "c" else numpy.float64)
    return numpy.where(numpy.isfinite(value), value, 0.0)
