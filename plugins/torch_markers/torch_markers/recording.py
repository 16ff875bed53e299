"""A trace of markers that needs no profiler: a chrome trace of every process, written while the program runs."""

from __future__ import annotations

import json
import logging
import multiprocessing
import multiprocessing.util
import os
import socket
import threading
import time
import weakref
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Optional

from patchcore.plugin import append_text, describe_error, print_message, process_rank, rank_variable
from patchcore_torch.training.ending import at_end
from torch_markers.options import CATEGORY
from torch_markers.text import parse

__all__ = ["Recording", "label"]

logger = logging.getLogger("patchcore")

#: So many ranges are kept before they are written.
_KEPT = 20_000


class Recording:
    """A backend that records ranges and writes them, with times of the host, to a file of this process.

    A child that is forked has a file of its own. A process that makes no range writes none.

    Args:
        directory: is made where it is missing.
    """

    idle: Optional[Callable[[], bool]] = None

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory).absolute()
        self._lock = threading.Lock()
        self._forget()
        at_end(self.finish)
        # multiprocessing drops the finalizers of its children once they are forked, and then calls these functions
        multiprocessing.util.register_after_fork(self, _in_child)
        if hasattr(os, "register_at_fork"):
            reference = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _in_child(reference()))

    def _forget(self) -> None:
        self._ranges: list[tuple[str, int, int, int]] = []  # text, thread, begin and end in nanoseconds
        self._path: Optional[Path] = None
        self._finished = False

    def open(self, text: str) -> tuple[str, int]:
        """Note the time."""
        return (text, time.perf_counter_ns())

    def close(self, token: tuple[str, int]) -> None:
        """Keep the range; write, once there are many."""
        ranges = self._ranges
        ranges.append((token[0], threading.get_ident(), token[1], time.perf_counter_ns()))
        if len(ranges) >= _KEPT:
            self._flush()

    def finish(self) -> None:
        """Write the rest, and log the path of the file."""
        self._flush(last=True)
        if self._path is not None and not self._finished:
            text = f"markers written to {self._path}; patchcore markers summary, ui.perfetto.dev open it"
            if process_rank() or multiprocessing.parent_process() is not None:
                logger.info("%s", text)
            else:
                print_message(text)
        self._finished = True

    def _flush(self, *, last: bool = False) -> None:
        with self._lock:
            ranges, self._ranges = self._ranges, []
            if self._finished or not (ranges or (last and self._path)):
                return
            try:
                self._write(ranges, last=last)
            except OSError as error:  # the disk is full, say
                self._finished = True
                logger.warning("markers cannot be written, the program goes on: %s", describe_error(error))

    def _write(self, ranges: list[tuple[str, int, int, int]], *, last: bool) -> None:
        before = ",\n"
        is_new = self._path is None
        if self._path is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            rank = f"rank{process_rank()}_" if rank_variable() is not None else ""
            name = f"{rank}{socket.gethostname()}_{os.getpid()}_{time.time_ns()}.markers.json"
            self._path = self._directory / name
            before = '{"displayTimeUnit":"ms","traceEvents":[\n'
        pid = os.getpid()
        events = ",\n".join(
            f'{{"ph":"X","cat":"{CATEGORY}","pid":{pid},"tid":{thread},"ts":{begin / 1000:.3f},'
            f'"dur":{(end - begin) / 1000:.3f},{_rendered(text)}}}'
            for text, thread, begin, end in ranges
        )
        append_text(self._path, (before + events if events else "") + ("\n]}\n" if last else ""), new=is_new)


def _in_child(recording: Optional[Recording]) -> None:
    if recording is not None and not recording._finished:  # the records of the parent are the parent's
        recording._lock = threading.Lock()
        recording._forget()
        at_end(recording.finish)


@lru_cache(maxsize=4096)
def _rendered(text: str) -> str:
    """The members of an event with the text of a range: loops make the same ones again and again."""
    said = parse(text) or {"op": text}
    return f'"name":{json.dumps(label(said))},"args":{json.dumps(said)}'


def label(said: Mapping[str, Any]) -> str:
    """Return the short name of a range, as a timeline shows it.

    Args:
        said: by :func:`torch_markers.parse`.
    """
    name = said.get("name") or said.get("op") or "?"
    return f"{name} (backward)" if said.get("dir") == "bwd" else str(name)
