"""``patchcore markers summary``: reads traces, and prints times by module, operator and line."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Callable

from patchcore.plugin import counted, print_json, print_table
from torch_markers.options import ORDERS, VIEWS
from torch_markers.reading import TraceError, events, size_of
from torch_markers.summary import Line, Summary

__all__ = ["summarise"]


def summarise(options: argparse.Namespace) -> int:
    """Print the tables; 1 when there is no marker in any trace.

    Raises:
        TraceError: a file cannot be read.
    """
    files = _files(options.traces)
    summary = Summary()
    with _progress(sum(map(size_of, files))) as advance:
        for number, path in enumerate(files):
            summary.add(events(path, advance), number)
    seen = counted(summary.events, "event")
    views = options.by or list(VIEWS)
    lines = {view: summary.lines(view, _ORDERS[options.sort]) for view in views}
    if options.format == "json":
        facts = {"files": files, "events": summary.events, "markers": summary.ranges}
        print_json({**facts, **{view: [_described(line) for line in _top(lines[view], options)] for view in views}})
    elif summary.ranges:
        for view in views:
            shown = _top(lines[view], options)
            of = f", {len(shown)} of {len(lines[view])}" if len(shown) < len(lines[view]) else ""
            print_table(f"time per {_TITLES[view]}{of}", _COLUMNS, [_row(line) for line in shown])
            print()
        print(f"{counted(summary.ranges, 'marker')} among {seen} of {counted(len(files), 'file')}")
    if not summary.ranges:
        print(f"patchcore: there is no marker among {seen}; {_HINT}", file=sys.stderr)
        return 1
    return 0


_ORDERS = dict(zip(ORDERS, ("own", "total", "calls")))
_TITLES = {"module": "module", "op": "operator", "site": "line of the program"}
_COLUMNS = ("SELF", "TOTAL", "CALLS", "PASS", "NAME")
_HINT = "record a program with patchcore run --markers record_function --profile DIR, or --markers trace"


def _top(lines: Sequence[Line], options: argparse.Namespace) -> Sequence[Line]:
    return lines[: options.top] if options.top > 0 else lines


def _row(line: Line) -> tuple[str, ...]:
    times = (f"{microseconds / 1000:.3f} ms" for microseconds in (line.own, line.total))
    return (*times, str(line.calls), "backward" if line.backward else "forward", line.name)


def _described(line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "pass": "backward" if line.backward else "forward",
        "calls": line.calls,
        "total_us": round(line.total, 3),
        "self_us": round(line.own, 3),
    }


def _files(paths: Sequence[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            inside = [os.path.join(path, name) for name in sorted(os.listdir(path))]
            found += [name for name in inside if name.endswith((".json", ".json.gz"))]
        else:
            found.append(path)
    if not found:
        raise TraceError(f"there is no trace (*.json, *.json.gz) in {', '.join(paths)}")
    return found


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show how far reading is, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=total)
        yield lambda count: progress.advance(task, count)
