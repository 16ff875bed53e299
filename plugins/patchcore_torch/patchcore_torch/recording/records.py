"""The files of a recording: for each process a header, a line for each tensor, and a last line. Imports no torch."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from patchcore.plugin import append_text, write_whole

__all__ = ["FILES", "FORMAT", "MOST_RANKS", "NAMES", "RecordFile"]

#: The version of the format; a reader refuses another one.
FORMAT = 1
#: The names of the numbers about a tensor, in their order. ``mix`` is a sum with a fixed pattern of signs: it changes
#: when values change places, which the others do not see.
NAMES = ("min", "max", "mean", "norm", "mix")
#: How many ranks a job may have. A file may come from anybody, and a reader counts its ranks one by one.
MOST_RANKS = 1_000_000
#: The names of the files.
FILES = "*.records.jsonl"
_SUFFIX = FILES[1:]
#: Lines that are kept back until they are written together; a process that is killed loses these.
_AT_ONCE = 200


class RecordFile:
    """Writes the records of this process, as they come.

    A process that is started again by its launcher continues in a file of its own: ``rank3-2.records.jsonl``.

    Args:
        folder: for the files; made if it is not there.
        name: of this process, ``main`` or ``rank3``.
        header: facts about the run.
        limit: bytes; no record is written after that.

    Attributes:
        full: whether the limit was reached.
        path: of the file.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, folder: Path, name: str, header: dict[str, Any], limit: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.full = False
        self._limit = limit
        self._bytes = 0
        self._number = 0
        self._lines: list[str] = []
        self.path = self._create(folder, name, header)

    @staticmethod
    def _create(folder: Path, name: str, header: dict[str, Any]) -> Path:
        attempt = 1
        while True:
            path = folder / f"{name}{f'-{attempt}' if attempt > 1 else ''}{_SUFFIX}"
            first = {"format": FORMAT, "process": name, "attempt": attempt, "arguments": sys.argv, **header}
            try:
                append_text(path, json.dumps(first) + "\n", new=True)
            except FileExistsError:
                attempt += 1
            else:
                return path

    def add(self, record: dict[str, Any], array: Any = None) -> None:
        """Write a record.

        Args:
            record: fit for JSON.
            array: of numpy, the tensor itself; its file is named in the record.

        Raises:
            OSError: it cannot be written.
        """
        if self.full:
            return
        self._number += 1
        if array is not None:
            import numpy

            buffer = io.BytesIO()
            numpy.save(buffer, array, allow_pickle=False)
            folder = self.path.with_suffix(".tensors")
            folder.mkdir(exist_ok=True)
            file = folder / f"{self._number:07}.npy"
            write_whole(file, buffer.getvalue())
            record = {**record, "file": os.path.join(folder.name, file.name)}
            self._bytes += buffer.tell()
        line = json.dumps(record, separators=(",", ":")) + "\n"
        self._bytes += len(line)
        self._lines.append(line)
        self.full = self._bytes >= self._limit
        if len(self._lines) >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write the lines that were kept back."""
        lines, self._lines = self._lines, []
        if lines:
            append_text(self.path, "".join(lines), new=False)

    def end(self, facts: dict[str, Any]) -> None:
        """Write the last line.

        Args:
            facts: fit for JSON.
        """
        self._lines.append(json.dumps({"end": True, "records": self._number, "full": self.full, **facts}) + "\n")
        self.flush()
