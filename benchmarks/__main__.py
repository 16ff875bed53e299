"""Measure and print; README.md says what the rows mean.

``python -m benchmarks [NAME ...] [--json FILE] [--quick] [--compare OLD.json [NEW.json]]``
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, Optional

from benchmarks import compared, table
from benchmarks.processes import environment, thread_count
from benchmarks.rows import Row
from benchmarks.subjects import SUBJECTS, THREADED

LIBRARIES = ("patchcore", "pluggy", "torch", "mmcv", "mmdet", "mmdet3d")


def main(argv: Optional[list[str]] = None) -> int:
    """Measure the chosen subjects, print the table, write the JSON.

    Returns 0 also when a limit is missed, 1 when a subject could not be measured to its end, and 2 when a saved result
    cannot be read.

    Args:
        argv: arguments after the program's name, those of the process by default.
    """
    options = _parse(argv)
    try:
        saved = [compared.read(file) for file in options.compare]
    except compared.UnreadableResult as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if len(saved) == 2:
        print("\n".join(compared.lines(*saved)))
        return 0
    facts = _facts()
    for name, value in facts.items():
        print(f"{name}: {value}")
    rows: list[Row] = []
    broken = []
    for name in dict.fromkeys(options.names or SUBJECTS):
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        measured = _measure(name, quick=options.quick)
        if measured is None:
            broken.append(name)
        else:
            rows += measured
    facts["load average after"] = _load()
    print(f"load average after: {facts['load average after']}")
    print()
    for line in table.lines(rows):
        print(line)
    print()
    print(table.summary(rows))
    if options.json:
        views = [row.to_dict() for row in rows]
        content = {"schema_version": compared.SCHEMA_VERSION, "environment": facts, "rows": views}
        options.json.write_text(json.dumps(content, indent=2) + "\n")
    for line in compared.lines(saved[0], rows) if saved else ():
        print(line)
    for name in broken:
        print(f"error: {name} could not be measured, its traceback is above", file=sys.stderr)
    return 1 if broken else 0


def _parse(argv: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure patchcore against alternatives.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(SUBJECTS)} (default: all)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every round of every row to this file")
    parser.add_argument("--quick", action="store_true", help="few rounds, small numbers of things, nothing judged")
    parser.add_argument(
        "--compare",
        type=Path,
        nargs="+",
        default=[],
        metavar=("OLD", "NEW"),
        help="say what got better and worse since the saved result OLD; with NEW, measure nothing and compare the two",
    )
    options = parser.parse_args(argv)
    if len(options.compare) > 2:
        parser.error("--compare takes one or two files")
    for name in options.names:
        if name not in SUBJECTS:
            parser.error(f"nothing to measure is called {name!r}; choose from {', '.join(SUBJECTS)}")
    return options


def _measure(name: str, *, quick: bool) -> Optional[list[Row]]:
    """Measure one subject in a fresh process; ``None`` when that failed, which it has told on stderr."""
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as folder:
        file = Path(folder, "rows.json")
        command = [sys.executable, "-m", "benchmarks.child", name, str(file), *(["--quick"] if quick else [])]
        # stdout belongs to the table
        env = environment(threads=name in THREADED)
        code = subprocess.run(command, env=env, cwd=folder, stdout=sys.stderr, check=False).returncode
        if code:
            return None
        return [Row.from_dict(view) for view in json.loads(file.read_text())]


def _facts() -> dict[str, Any]:
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "date": f"{datetime.date.today()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}",
        "processor": _processor(),
        "processors": os.cpu_count(),
        "threads": f"1; {' and '.join(sorted(THREADED))}: {thread_count()}",
        "libraries": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "load average before": _load(),
    }


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:  # not Linux
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _load() -> str:
    return ", ".join(f"{value:.2f}" for value in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"


if __name__ == "__main__":
    sys.exit(main())
