"""Trials: a command run by ``patchcore run`` with some patches, again and again, and whether it fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Optional

from patchcore.builtin.report.reading import read_reports
from patchcore.builtin.run.program import Command, find_command
from patchcore.errors import SettingsError
from patchcore.report import PENDING, SKIPPED

__all__ = ["Attempt", "Oracle", "Trial", "Trials"]

#: How long a program may take to end after a request to end, seconds; torchrun ends its ranks meanwhile.
_GRACE = 10.0

#: How much of the end of the output is kept, characters.
_TAIL = 2000


class Attempt(NamedTuple):
    """One run of the command.

    Args:
        fails: whether it failed.
        how: the reason for that: the exit code, or the matching text.
        tail: the end of what it wrote to stdout and stderr.
    """

    fails: bool
    how: str
    tail: str


class Trial(NamedTuple):
    """The attempts with one set of patches.

    Args:
        number: from 1.
        patches: the set.
        attempts: at least one.
        applied: the patches of the set that a process applied or failed to apply; ``None`` without reports.
    """

    number: int
    patches: frozenset[str]
    attempts: tuple[Attempt, ...]
    applied: Optional[frozenset[str]] = None

    @property
    def failures(self) -> int:
        """How many attempts failed."""
        return sum(attempt.fails for attempt in self.attempts)

    @property
    def fails(self) -> bool:
        """True if any attempt failed: a set that fails only sometimes is a culprit too."""
        return self.failures > 0

    @property
    def varies(self) -> bool:
        """True when some attempts failed and some did not."""
        return 0 < self.failures < len(self.attempts)

    @property
    def verdict(self) -> str:
        """``fails`` or ``passes``, and how often where that varies."""
        if self.varies:
            return f"fails {self.failures} times in {len(self.attempts)}"
        return "fails" if self.fails else "passes"


@dataclass(frozen=True)
class Oracle:
    """Decides whether a run has failed.

    Args:
        pattern: a run fails if its stdout or stderr matches; ``^`` and ``$`` match at lines. Without a pattern, an exit
            code other than 0 is a failure.
        timeout: seconds a run may take; one that takes longer is ended, and has failed unless there is a pattern.
    """

    pattern: Optional[re.Pattern[str]] = None
    timeout: Optional[float] = None

    def judge(self, code: Optional[int], output: str) -> Attempt:
        """Return the attempt that ended with ``code``, ``None`` when it was ended for taking too long."""
        how = f"not ended after {self.timeout:g} seconds" if code is None else f"exit code {code}"
        fails = code != 0
        if self.pattern is not None:
            match = self.pattern.search(output)
            fails = match is not None
            how = f"{how}, {f'wrote {match[0]!r}' if match else f'nothing like {self.pattern.pattern!r}'}"
        return Attempt(fails, how, output[-_TAIL:])


class Trials:
    """Runs a command with sets of patches.

    Args:
        arguments: of ``patchcore run``, before the program.
        program: the program and its arguments; a module's name after ``-m``.
        patches: all that are tried; those that are not in a set are disabled in its run.
        kept: of them, those that every set has.
        left_out: further patches that would be applied, and never are.
        oracle: decides whether a run has failed.
        repeat: attempts for each set; the search goes on after the first that fails.
        begins, ended: called with each set before it is tried, and with its trial after that.

    Attributes:
        done: the trials so far.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        program: Sequence[str],
        patches: Collection[str],
        *,
        kept: Collection[str] = (),
        left_out: Collection[str] = (),
        oracle: Oracle,
        repeat: int = 1,
        begins: Callable[[int, frozenset[str]], None] = lambda number, patches: None,
        ended: Callable[[Trial], None] = lambda trial: None,
    ) -> None:
        self.done: list[Trial] = []
        self._arguments = tuple(arguments)
        self._program = tuple(program) if program[0] == "-m" else ("--", *program)
        self._patches = frozenset(patches)
        self._kept = frozenset(kept)
        self._left_out = frozenset(left_out)
        self._oracle = oracle
        self._repeat = repeat
        self._begins = begins
        self._ended = ended

    def fails(self, patches: Collection[str]) -> bool:
        """Return whether the command fails with ``patches``, in one of its attempts; called again, it runs again."""
        return self._try(frozenset(patches)).fails

    def try_none(self) -> Trial:
        """Run the command without the patches, as often as it is to be repeated."""
        return self._try(frozenset(), every=True)

    def try_all(self) -> Trial:
        """Run the command with all patches, as often as it is to be repeated, and read the reports of its processes."""
        with tempfile.TemporaryDirectory(prefix="patchcore-") as folder:
            return self._try(self._patches - self._kept, every=True, report_dir=Path(folder))

    def _try(self, chosen: frozenset[str], *, every: bool = False, report_dir: Optional[Path] = None) -> Trial:
        """Run the command with the patches ``chosen``.

        Args:
            chosen: names.
            every: go on after the first attempt that fails.
            report_dir: where the processes write their reports, ``None`` for nowhere.
        """
        self._begins(len(self.done) + 1, chosen)
        environ = {**os.environ, "PATCHCORE_REPORT_DIR": "" if report_dir is None else str(report_dir)}
        attempts: list[Attempt] = []
        while len(attempts) < self._repeat and (every or not any(attempt.fails for attempt in attempts)):
            attempts.append(self._attempt(self._command(chosen), environ))
        touched = None if report_dir is None else _touched(report_dir)
        applied = None if touched is None else chosen & touched
        trial = Trial(len(self.done) + 1, chosen, tuple(attempts), applied)
        self.done.append(trial)
        self._ended(trial)
        return trial

    def _command(self, patches: frozenset[str]) -> Command:
        enabled = patches | self._kept
        disabled = (self._patches | self._left_out) - enabled
        options: list[str] = []
        for option, names in (("--enable", enabled), ("--disable", disabled)):
            options += (option, ",".join(sorted(names))) if names else ()
        arguments = ("run", *options, *self._arguments, *self._program)
        try:
            _ = list(map(os.fsencode, arguments))
        except UnicodeEncodeError as error:  # the name of a patch, which need not have come from a command line
            raise SettingsError(
                f"{error.object!r} cannot be said on a command line in this locale, which is {error.encoding}; "
                f"run it with PYTHONUTF8=1 or LC_ALL=C.UTF-8"
            ) from error
        return find_command("patchcore", arguments, as_module=True)

    def _attempt(self, command: Command, environ: Mapping[str, str]) -> Attempt:
        # a pipe would stay open as long as any process that the program has left behind
        with tempfile.TemporaryFile() as output:
            with _running(command, environ, output) as process:
                try:
                    code: Optional[int] = process.wait(self._oracle.timeout)
                except subprocess.TimeoutExpired:
                    code = None
            output.seek(0)
            return self._oracle.judge(code, output.read().decode("utf-8", "replace"))


def _touched(folder: Path) -> Optional[frozenset[str]]:
    """Return the patches that a process applied or failed to apply, ``None`` if the reports in ``folder`` are in doubt.

    In doubt are reports that are missing or cannot be read: a process may have been killed before it wrote its own.
    """
    try:
        reports = read_reports(folder)
    except SettingsError:
        return None
    if reports.unreadable:
        return None
    records = (record for process in reports.processes for record in process.content["patches"])
    return frozenset(record["name"] for record in records if record["status"] not in (SKIPPED, PENDING))


@contextmanager
def _running(command: Command, environ: Mapping[str, str], output: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a session of its own, which Ctrl-C does not reach; nothing of it is left at the end."""
    own: Mapping[str, Any] = {"start_new_session": True} if hasattr(os, "killpg") else {}
    process = subprocess.Popen(
        list(command.arguments),
        executable=command.executable,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        **own,
    )
    try:
        yield process
    finally:
        try:
            if process.poll() is None:
                _signal(process, signal.SIGTERM)
                process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
            process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to the process and to those it has started, as far as they have stayed in its session."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
    except (ProcessLookupError, PermissionError):  # all have ended; macOS says the latter of those that have just done
        pass
