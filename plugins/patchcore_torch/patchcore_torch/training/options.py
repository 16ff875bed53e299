"""Options of training: the steps to record, the last step, the function that is a step. Checked when they are set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional, Union

from patchcore import SettingsError
from patchcore.plugin import parse_decimal
from patchcore_torch.tables import check_keys

__all__ = ["AUTO", "ProfilingOptions", "brake_step", "check_brake"]

#: The brake that stops when the recording is complete.
AUTO = "auto"

_LARGEST_STEP = 2**63 - 1


@dataclass(frozen=True)
class ProfilingOptions:
    """Which steps to record, and how much of them. Steps are counted from 1.

    A cycle is ``wait`` steps in which nothing happens, ``warmup`` steps whose records are thrown away, and ``active``
    steps that are recorded. The first cycle lies so that its recorded steps begin with step ``skip_first + 1``, or with
    ``wait + warmup + 1`` where that is later: by default step 21 is recorded, and step 20 is the warm-up. (In
    ``torch.profiler.schedule`` the first cycle *begins* after ``skip_first`` steps.)

    Args:
        path: absolute path of the directory for the records.
        level: 0: the accelerator only, the least overhead (the CPU where there is none); 1: accelerator and CPU, shapes
            of tensors; 2: also call stacks and memory.
        skip_first: how many steps are not recorded at first.
        wait: steps without profiler in each cycle.
        warmup: steps with the profiler warming up.
        active: recorded steps.
        repeat: how many cycles there are; 0 for as many as fit.

    Raises:
        SettingsError: a value is impossible, or values contradict each other.
    """

    path: str
    level: int = 0
    skip_first: int = 20
    wait: int = 1
    warmup: int = 1
    active: int = 1
    repeat: int = 1

    def __post_init__(self) -> None:
        _check_directory(self.path)
        for name, least in _LEAST.items():
            _check_number(name, getattr(self, name), least)
        if self.level not in (0, 1, 2):
            raise SettingsError(
                f"profiling: level={self.level!r}; expected 0 (accelerator only), 1 (and the CPU, shapes) or 2 (and "
                "call stacks, memory)"
            )
        if self.starts_after < 1:
            raise SettingsError(
                f"profiling: skip_first={self.skip_first}, wait={self.wait}: the profiler starts between two steps, so "
                f"at least one step comes before its warm-up; write skip_first={self.warmup + 1}"
            )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ProfilingOptions:
        """Return the options that a table of settings describes.

        Raises:
            SettingsError: also when a key means nothing, or ``path`` is missing.
        """
        check_keys(values, cls, "profiling", "profile")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return the table that :meth:`of` reads."""
        return asdict(self)

    @property
    def first_step(self) -> int:
        """The first step that is recorded."""
        return max(self.skip_first, self.wait + self.warmup) + 1

    @property
    def starts_after(self) -> int:
        """The step after which the profiler is started."""
        return self.first_step - 1 - self.warmup

    def starts_cycle_after(self, step: int) -> bool:
        """Return whether the profiler is started between ``step`` and the next one."""
        cycles, rest = divmod(step - self.starts_after, self.wait + self.warmup + self.active)
        return rest == 0 and cycles >= 0 and (not self.repeat or cycles < self.repeat)

    @property
    def last_step(self) -> Optional[int]:
        """The step after which everything is recorded; ``None`` where there is no such step."""
        cycle = self.wait + self.warmup + self.active
        return self.first_step - 1 + self.active + (self.repeat - 1) * cycle if self.repeat else None

    @property
    def window(self) -> str:
        """The steps of the first recording, as text: ``step 21`` or ``steps 21 to 23``."""
        return steps_text(self.first_step, self.first_step + self.active - 1)


def steps_text(first: int, last: int) -> str:
    """Return ``step 21`` or ``steps 21 to 23``."""
    return f"step {first}" if first == last else f"steps {first} to {last}"


def check_brake(value: Any) -> Union[int, str]:
    """Return ``value`` as a brake: a number of steps, or ``AUTO``; texts of numbers are read.

    Raises:
        SettingsError: it is neither.
    """
    step = parse_decimal(value.strip(), _LARGEST_STEP) if isinstance(value, str) and value != AUTO else value
    if step == AUTO:
        return AUTO
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= _LARGEST_STEP:
        raise SettingsError(
            f"brake={value!r}; expected the step after which the program ends, 1 or more, or {AUTO!r} to end it when "
            "profiling is complete"
        )
    return step


def brake_step(brake: Union[int, str], profiling: Optional[ProfilingOptions]) -> int:
    """Return the step after which the program ends.

    Args:
        brake: see :func:`check_brake`.
        profiling: the recording that comes before, ``None`` for none.

    Raises:
        SettingsError: there is no such step, or nothing would be recorded.
    """
    if isinstance(brake, int):
        if profiling is not None and brake < profiling.first_step + profiling.active - 1:
            raise SettingsError(
                f"the brake ends the program after step {brake}, before {profiling.window} can be recorded; brake "
                f"after step {profiling.first_step + profiling.active - 1} or later, or lower "
                f"skip_first={profiling.skip_first}"
            )
        return brake
    if profiling is None:
        raise SettingsError(
            "a brake without a step ends the program when profiling is complete, but profiling is off; give the step, "
            "brake=1000 or --brake 1000, or switch profiling on"
        )
    if profiling.last_step is None:
        raise SettingsError(
            "profiling with repeat=0 goes on to the end of training, so that a brake without a step never ends it; "
            "give the step, or repeat=1"
        )
    return profiling.last_step


#: The least value of each number.
_LEAST = {"level": 0, "skip_first": 0, "wait": 0, "warmup": 0, "active": 1, "repeat": 0}


def _check_number(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingsError(f"profiling: {name}={value!r}; expected a whole number, {least} or more")


def _check_directory(path: Any) -> None:
    """Raise where no records can be written; the directory itself need not exist."""
    if not isinstance(path, str) or not path:
        raise SettingsError(f"profiling: path={path!r}; expected the directory for the records, path='profile'")
    nearest = next(folder for folder in (Path(path), *Path(path).absolute().parents) if folder.exists())
    if not nearest.is_dir():
        raise SettingsError(f"profiling: path={path!r}; expected a directory, and {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise SettingsError(f"profiling: path={path!r}: {nearest} cannot be written to; give another directory")
