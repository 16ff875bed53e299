"""The report of one process of a run: a file that is there from the start, complete or not at all."""

from __future__ import annotations

import atexit
import os
import threading
import time
from pathlib import Path
from typing import Any, Optional

import patchcore as pc
from patchcore.builtin.files import write_whole
from patchcore.builtin.run.logs import say
from patchcore.builtin.run.roles import LAUNCHER, WORKER, present_role
from patchcore.builtin.run.session import Session
from patchcore.builtin.run.timeline import TIMELINE
from patchcore.builtin.run.verbosity import QUIET
from patchcore.engine.engine import ENGINE
from patchcore.patcher import Patcher
from patchcore.planning.plan import Plan
from patchcore.process import process_rank
from patchcore.report import FAILED, SCHEMA_VERSION, Report
from patchcore.settings import Settings
from patchcore.stdlib import loaded

__all__ = ["FILES", "ProcessReport"]

#: What the files are called.
FILES = "report-*.json"

#: Seconds of processor time that writing may take in all while imports complete patches, before pauses begin. Wall time
#: would not do: on a busy machine a few small reports may take seconds.
_AT_ONCE = 0.1
_PAUSE = 40  # the length of a pause, in times of the last write


class ProcessReport:
    """Writes what has become of the patches of this process to the run's report directory, and says it at the end.

    The file is written when the process wakes up, when imports complete patches, after a fork for the child, when the
    ranks meet, and at the end; a process that is killed leaves the last one, marked as unfinished.

    Args:
        session: the run.
        patcher: applied.
        role: what this process is in the run.
    """

    def __init__(self, session: Session, patcher: Patcher, role: str) -> None:
        self._session = session
        self._patcher = patcher
        self._role = role
        self._directory = patcher.settings.get("report_dir")
        self._spent = 0.0  # on news, seconds of processor time
        self._next = 0.0  # when they may be written again, on the monotonic clock
        self._complained = False
        self._lock = threading.RLock()
        self._manifest: Optional[tuple[Plan, dict[str, Any], str]] = None  # with its digest
        self._rename()

    def begin(self) -> None:
        """Write the first report, and from now on whenever there is news."""
        atexit.register(self._end)
        if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
            os.register_at_fork(after_in_child=self._forked)
        if self._directory is None:
            return
        self.write()
        self._patcher.plugins.manager.register(_News(self), "patchcore.builtin.run")
        try:
            threading._register_atexit(self._end_of_child)  # type: ignore[attr-defined]  # CPython 3.9 to 3.14
        except RuntimeError:  # the interpreter is on its way out
            pass

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of this process."""
        return self._manifest_and_digest()[0]

    def _manifest_and_digest(self) -> tuple[dict[str, Any], str]:
        from patchcore.builtin.manifest import digest, make_manifest  # for those who want reports

        plan = self._patcher.applied_plan
        if self._manifest is None or self._manifest[0] is not plan:
            manifest = make_manifest(plan)
            self._manifest = plan, manifest, digest(manifest)
        return self._manifest[1:]

    def write(self, *, finished: bool = False) -> None:
        """Write the file anew; a directory that cannot be written to is said on stderr, once, by those who lead."""
        if self._directory is None:
            return
        with self._lock:
            path = Path(self._directory, self._name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, self._to_json(finished))
            except OSError as error:
                if not self._complained and self._role != WORKER:
                    say(f"the report could not be written to {path}: {error.strerror or error}")
                self._complained = True

    def news(self) -> None:
        """Write the file anew, unless that has taken its share of time: a killed process is to leave what it can."""
        if self._spent < _AT_ONCE or time.monotonic() > self._next:
            start = time.thread_time()
            self.write()
            taken = time.thread_time() - start
            self._spent += taken
            self._next = time.monotonic() + _PAUSE * taken

    def _to_json(self, finished: bool) -> str:
        from patchcore.builtin.explain.layers import describe_layers
        from patchcore.stdlib import json

        report = self._patcher.report()
        manifest, digest = self._manifest_and_digest()
        view = {
            "schema_version": SCHEMA_VERSION,
            "summary": report.summary(),
            "patches": [record.to_dict() for record in report.patches],
            "problems": [problem._asdict() for problem in report.problems],
            "notes": report.notes,
            "environment": dict(report.environment),
            "sections": [section._asdict() for section in report.sections],
            "never_hit": report.never_hit,
            "run": self._session.run,
            "role": present_role(self._role),
            "finished": finished,
            "written": time.time(),
            "digest": digest,
            "manifest": manifest,
            "arguments": self._session.arguments,
            "settings": _describe(self._patcher.settings),
            # of workers there are many, and what started them has the same
            "layers": [t.to_dict() for t in describe_layers(() if self._role == WORKER else ENGINE.journal)],
            "timeline": TIMELINE.view({record.name for record in report.patches}),
        }
        # Report.to_dict() copies all that the records have; with an indent, json's encoder is the one in Python
        lines = (f"{json.dumps(key)}: {json.dumps(value, default=vars)}" for key, value in view.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def _rename(self) -> None:
        # process ids come again: after exec, in containers, on other hosts
        self._name = f"report-{process_rank()}-{os.getpid()}-{os.urandom(3).hex()}.json"

    def _forked(self) -> None:
        self._lock = threading.RLock()
        self._role = WORKER
        self._rename()
        self.write()

    def _end_of_child(self) -> None:
        """Write the last report of a child of multiprocessing, which ends in ``os._exit``, without atexit functions."""
        multiprocessing = loaded("multiprocessing.process")
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            self.write(finished=True)

    def _end(self) -> None:
        self.write(finished=True)
        if present_role(self._role) not in (WORKER, LAUNCHER) and not process_rank():
            self._say_at_the_end()

    def _say_at_the_end(self) -> None:
        """Say what the program has got of its patches, as much as the user wants to know."""
        report, plugins = self._patcher.report(), self._patcher.plugins
        verbosity = self._patcher.settings.get("verbosity")
        if verbosity == QUIET and report.ok:
            return
        plan = self._patcher.applied_plan
        texts = plugins.gather("conclusions", lambda text: isinstance(text, str), "texts", report=report, plan=plan)
        failed = ", ".join(record.name for record in report.with_status(FAILED))
        line = "; ".join([*([f"failed: {failed}"] if failed else []), *texts, report.summary(never_hit=True)])
        say("\n".join([line, *_details(report, verbosity)]))


def _describe(settings: Settings) -> list[dict[str, str]]:
    """Return what somebody has decided, and where that was said."""
    values = ((key, str(settings.get(key)), origin) for key, origin in sorted(settings.origins.items()))
    choices = (("enable" if choice.enable else "disable", choice.name, choice.origin) for choice in settings.choices)
    decided = [entry for entry in values if entry[0] not in ("modules", "options")]
    decided += (("module", module.name, module.directory or "sys.path") for module in settings.modules)
    return [{"name": name, "value": value, "origin": origin} for name, value, origin in (*decided, *choices)]


def _details(report: Report, verbosity: int) -> list[str]:
    """Return what ``-v`` (1) and ``-vv`` (2) show besides the last line."""
    if verbosity == 1:
        told = [record for record in report.patches if record.asked_for]
        return [f"  {r.status:<8} {r.name} [{r.origin}]{f': {r.reason}' if r.reason else ''}" for r in told]
    return str(report).splitlines()[1:] if verbosity > 1 else []


class _News:
    """Hears, as a plugin, of patches that imports complete."""

    def __init__(self, report: ProcessReport) -> None:
        self._report = report

    @pc.hookimpl
    def after_apply(self) -> None:
        self._report.news()
