"""Options of a recording: which steps and ranks, how much of them. Checked when they are set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Optional

from patchcore import SettingsError
from patchcore_torch.tables import check_keys

__all__ = ["Ranges", "RecordingOptions"]

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


class Ranges:
    """Numbers that a text such as ``1-3,7`` names; an empty text names all.

    Args:
        text: numbers and ranges, with commas between them.
        name: of the option, for the error.
        least: the smallest number there is.

    Raises:
        SettingsError: the text is something else.
    """

    def __init__(self, text: str, name: str, least: int) -> None:
        self._ranges: list[tuple[int, int]] = []
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            match = _RANGE.fullmatch(part)
            first, last = (0, -1) if match is None else (int(match[1]), int(match[2] or match[1]))
            if not least <= first <= last:
                raise SettingsError(f"record: {name}={text!r}; expected numbers from {least} on, such as {least}-3,7")
            self._ranges.append((first, last))

    def __contains__(self, number: int) -> bool:
        return not self._ranges or any(first <= number <= last for first, last in self._ranges)

    def is_past(self, number: int) -> bool:
        """Return true if no number from ``number`` on is named."""
        return bool(self._ranges) and all(last < number for _, last in self._ranges)


@dataclass(frozen=True)
class RecordingOptions:
    """Which steps to record, and how much of them. Steps are counted from 1, as for profiling.

    Args:
        path: absolute path of the directory for the records.
        steps: which, such as ``1-3,7``.
        ranks: of a job, such as ``0,3``; all if empty.
        operators: also record each operator of the modules and of their gradients.
        tensors: also keep the tensors themselves.
        limit: megabytes that a process may write; it records no more after that, and its last line has `"full": true`.
        same_random: draw random numbers on the CPU, on whichever device they are needed.
        msprobe: arguments of msprobe's ``PrecisionDebugger``, which then records in its own way; only ``same_random``
            of the other options holds.

    Raises:
        SettingsError: a value is impossible.
    """

    path: str
    steps: str = "1-2"
    ranks: str = ""
    operators: bool = False
    tensors: bool = False
    limit: int = 1024
    same_random: bool = False
    msprobe: Optional[Mapping[str, Any]] = None

    def __post_init__(self) -> None:
        Ranges(self.steps, "steps", 1)
        Ranges(self.ranks, "ranks", 0)
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise SettingsError(f"record: limit={self.limit!r}; expected megabytes, a whole number from 1 on")
        for name in ("operators", "tensors", "same_random"):
            if not isinstance(getattr(self, name), bool):
                raise SettingsError(f"record: {name}={getattr(self, name)!r}; expected true or false")
        if self.msprobe is not None and not isinstance(self.msprobe, Mapping):
            raise SettingsError(f"record: msprobe={self.msprobe!r}; expected a table, {{config_path = 'config.json'}}")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> RecordingOptions:
        """Return the options that a table of settings describes.

        Raises:
            SettingsError: also when a key means nothing, or ``path`` is missing.
        """
        check_keys(values, cls, "record", "records")
        texts = {key: str(values[key]) for key in ("steps", "ranks") if key in values}
        return cls(**{**values, **texts})

    def to_dict(self) -> dict[str, Any]:
        """Return the table that :meth:`of` reads."""
        return asdict(self)
