"""Run programs with and without ``patchcore run``, and know every process that took part."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from patchcore.cli import main
from patchcore.process import RANK_VARIABLES

ROOT = Path(__file__).resolve().parents[2]
PYTHON = (sys.executable,)
RUN = (*PYTHON, "-m", "patchcore", "run")
TORCHRUN = (*PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")

Key = TypeVar("Key")

_PATIENCE = 900  # seconds for a whole job


class Report(NamedTuple):
    """What ``patchcore report`` made of a directory.

    Args:
        code: exit code.
        text: what it printed.
    """

    code: int
    text: str


@dataclass(frozen=True)
class Job:
    """A program that has come to its end.

    Args:
        pid: process id of what was started.
        code: its exit code.
        out, err: what it printed.
        directory: where reports may be.
    """

    pid: int
    code: int
    out: str
    err: str
    directory: Path

    @property
    def said(self) -> list[Any]:
        """The lines of JSON that the program printed."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith(("[", "{"))]

    @property
    def ours(self) -> list[str]:
        """The lines that patchcore wrote to stderr."""
        return [line for line in self.err.splitlines() if line.startswith(("patchcore: ", "patchcore ["))]

    @property
    def reports(self) -> list[dict[str, Any]]:
        """The reports of its processes."""
        return [json.loads(path.read_text()) for path in sorted(self.directory.glob("report-*.json"))]

    @property
    def by_pid(self) -> dict[int, dict[str, Any]]:
        """The reports by process id; each process has one."""
        found = {report["environment"]["pid"]: report for report in self.reports}
        assert len(found) == len(self.reports), "a process has several reports"
        return found

    def report(self) -> Report:
        """Run ``patchcore report`` on the directory."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = main(["report", str(self.directory)])
        return Report(code, out.getvalue())


class Workplace:
    """A folder with programs, from which they are run.

    Args:
        folder: becomes the current directory of every program.
        files: sources by path.
        plugins: names of the installed plugins that may be loaded, ``None`` for all.
    """

    def __init__(self, folder: Path, files: Mapping[str, str], plugins: str | None = "") -> None:
        self.folder = folder
        self.site = folder / "site-0"
        self.write(files)
        ours = ("PATCHCORE_", "TORCHELASTIC_")
        inherited = {k: v for k, v in os.environ.items() if k not in RANK_VARIABLES and not k.startswith(ours)}
        self.environment = {
            **inherited,
            "PYTHONPATH": os.pathsep.join([str(self.site), str(ROOT)]),
            "OMP_NUM_THREADS": "1",
        }
        if plugins is not None:
            self.environment["PATCHCORE_PLUGINS"] = plugins
        self._numbers = itertools.count(1)

    def write(self, files: Mapping[str, str]) -> None:
        """Write sources by path."""
        for name, source in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)

    def run(self, *command: str, code: int | None = 0, report: bool = True, **environment: str) -> Job:
        """Run a program to its end.

        Args:
            command: the whole command line.
            code: the exit code that is expected, ``None`` for any.
            report: whether processes of a run write reports, to a directory of this job.
            environment: further variables.
        """
        with self.start(*command, report=report, **environment) as (process, directory):
            out, err = process.communicate(timeout=_PATIENCE)
        job = Job(process.pid, process.returncode, out, err, directory)
        assert code is None or job.code == code, f"exit code {job.code}\n{out}\n{err}"
        return job

    @contextlib.contextmanager
    def start(
        self, *command: str, report: bool = True, **environment: str
    ) -> Iterator[tuple[subprocess.Popen[str], Path]]:
        """Start a program, in a process group of its own, and yield it with its directory for reports."""
        directory = self.folder / f"reports-{next(self._numbers)}"
        reports = {"PATCHCORE_REPORT_DIR": str(directory)} if report else {}
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env={**self.environment, **reports, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process, directory
            finally:
                if process.poll() is None:  # torchrun ends its ranks, which are in sessions of their own
                    process.terminate()
                    process.wait(_PATIENCE)


def on_host(name: str, *command: str) -> tuple[str, ...]:
    """Return a command line that runs a program on this machine with another host name.

    Args:
        name: of the host.
        command: the command line of the program.
    """
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--uts", "true"], check=False).returncode:
        pytest.skip("needs unshare --uts, which gives a process a host name of its own, and root")
    return ("unshare", "--uts", "bash", "-c", 'hostname "$0"; exec "$@"', name, *command)


def two_at_a_time(starts: Mapping[Key, Callable[[], Job]]) -> dict[Key, Job]:
    """Run jobs side by side, which takes half as long: importing torch keeps one core busy."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(starts, pool.map(lambda start: start(), starts.values())))


def lines_with(lines: Sequence[str], *parts: str) -> list[str]:
    """Return the lines in which every part occurs."""
    return [line for line in lines if all(part in line for part in parts)]
