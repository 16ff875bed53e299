"""``patchcore report`` of a run with 10,000 processes: text, JSON and a page.

One process of a real run writes the report that the others are made from. In reports of ranks only the lines about the
process itself differ.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from benchmarks.generated import function_name, module_names, write_package
from benchmarks.measure import Samples
from benchmarks.processes import environment, read, run
from benchmarks.rows import Budget, Row, TimeLimit, compare, skipped

__all__ = ["rows", "write_reports"]

SUBJECT = "report"
LIBRARY = "benchmarked_library"
PATCHES = "benchmarked_patches"
PROCESSES = 10_000
MODULES, PATCHED_PER_MODULE = 12, 5
HOSTS = 1_250
KILLED = 1_000
#: Bytes of one report, which depends on the length of paths: reports are filled up to it with arguments of the program.
SIZE = 68_000
ALTERNATIVE = "sha256 of every file"
LIMITS: dict[str, Optional[TimeLimit]] = {"text": TimeLimit(5.0), "--format json": None, "--html": TimeLimit(15.0)}
ROUNDS = 3

_PATCHES = """\
import json
import pathlib

import patchcore as pc


def replacement(x, y=0):
    return x


TARGETS = json.loads(pathlib.Path(__file__).with_name("targets.json").read_text())


@pc.hookimpl
def register_patches():
    return [pc.Patch(target.replace(":", "."), [pc.Replace(target, replacement)]) for target in TARGETS]
"""
_PROGRAM = """\
import importlib
import json
import pathlib

targets = json.loads(pathlib.Path(__file__).with_name("targets.json").read_text())
for name in dict.fromkeys(target.partition(":")[0] for target in targets):
    importlib.import_module(name)
"""
_HASH = """\
import hashlib
import pathlib
import sys

for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    hashlib.sha256(path.read_bytes()).digest()
"""


def rows(budget: Budget) -> list[Row]:
    """Time the command on the reports of ranks of which 1,000 were killed."""
    if not hasattr(os, "wait4"):
        return [skipped(SUBJECT, "patchcore report", ALTERNATIVE, "the system does not say how much memory was used")]
    processes, killed = budget.size(PROCESSES), budget.size(KILLED)
    found = []
    with tempfile.TemporaryDirectory(prefix="patchcore-benchmark-") as name:
        folder = Path(name)
        env = environment(folder)
        reports, page = folder / "reports", folder / "page.html"
        size = write_reports(reports, _first_report(folder, env), processes=processes, killed=killed)
        commands = {
            "text": ["-m", "patchcore", "report", str(reports)],
            "--format json": ["-m", "patchcore", "report", "--format", "json", str(reports)],
            "--html": ["-m", "patchcore", "report", str(reports), "--html", str(page)],
        }
        theirs = Samples(tuple(read(["-c", _HASH, str(reports)], env).seconds for _ in range(ROUNDS)))
        for view, command in commands.items():
            readings = [read(command, env) for _ in range(ROUNDS)]
            output = page.stat().st_size if view == "--html" else readings[0].output
            what = f"{view}, {processes:,} reports of {size // 1000} KB, {killed:,} killed: " + (
                f"{max(reading.memory for reading in readings) / 1e6:.0f} MB of memory, {output / 1e3:,.0f} kB out"
            )
            ours = Samples(tuple(reading.seconds for reading in readings))
            found.append(compare(SUBJECT, what, ALTERNATIVE, ours, theirs, budget=budget, limit=LIMITS[view]))
    return found


def write_reports(folder: Path, first: str, *, processes: int, killed: int = 0) -> int:
    """Write the reports of the ranks of a job; return the size of one, in bytes.

    Args:
        folder: is made.
        first: the report of one process.
        processes: how many ranks there are.
        killed: how many of them, evenly spread, did not finish.
    """
    folder.mkdir(parents=True)
    every = processes // killed if killed else 0
    size = 0
    for rank, content in enumerate(_contents(first, processes)):
        if every and rank % every == 0:
            content["finished"] = False
        lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        size = len(text)
        (folder / f"report-{rank:05}.json").write_text(text)
    return size


def _contents(first: str, processes: int) -> Iterator[dict[str, Any]]:
    content = json.loads(first)
    fill = SIZE - len(first)
    if fill > 0:
        content["arguments"] = [*content["arguments"], "x" * fill]
    facts, timeline = content["environment"], content["timeline"]
    for rank in range(processes):
        host = f"node{rank * HOSTS // processes:04}"
        job = {"group": "benchmark", "generation": 1, "clock": 0.0, "restart": 0, "local_rank": rank % 8}
        yield {
            **content,
            "role": "rank",
            "finished": True,
            "written": content["written"] + rank / 1000,
            "environment": {**facts, "host": host, "pid": 1000 + rank, "rank": rank, "ranks": processes},
            "timeline": {**timeline, "started": timeline["started"] + rank / 1000},
            "job": {**content["job"], **job, "meeting": "node0000:29500", "name": "", "engine": ""},
            "identity": f"process-{rank}",
            "machine": host,
        }


def _first_report(folder: Path, env: Mapping[str, str]) -> str:
    write_package(folder, LIBRARY, modules=MODULES, functions=PATCHED_PER_MODULE)
    names = module_names(LIBRARY, MODULES)
    targets = [f"{module}:{function_name(index)}" for module in names for index in range(PATCHED_PER_MODULE)]
    (folder / "targets.json").write_text(json.dumps(targets))
    (folder / f"{PATCHES}.py").write_text(_PATCHES)
    (folder / "program.py").write_text(_PROGRAM)
    program = str(folder / "program.py")
    alone = {**env, "PATCHCORE_PLUGINS": ""}  # plugins that are installed here would add their patches
    run(["-m", "patchcore", "run", "-p", PATCHES, "--report-dir", str(folder / "first"), program], alone)
    (path,) = (folder / "first").glob("report-*.json")
    return path.read_text()
