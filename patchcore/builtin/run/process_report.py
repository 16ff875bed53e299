"""The report of one process of a run: a file that is there from the start, complete or not at all."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

import patchcore as pc
from patchcore.builtin.run.advice import advise_at_the_end
from patchcore.builtin.run.roles import LAUNCHER, WORKER, present_role
from patchcore.builtin.run.session import Session
from patchcore.builtin.run.timeline import TIMELINE
from patchcore.builtin.run.verbosity import QUIET
from patchcore.builtin.shared.files import append_text, write_whole
from patchcore.engine.engine import ENGINE
from patchcore.patcher import PATCHERS, Patcher
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.process import PLUGIN_MODULES, Made, process_rank
from patchcore.report import FAILED, FAILURES, SCHEMA_VERSION, PatchRecord, Report, count_statuses
from patchcore.settings import Settings
from patchcore.stderr import print_message
from patchcore.stdlib import loaded

if TYPE_CHECKING:
    from patchcore.builtin.shared.manifest import Manifest

__all__ = ["FILES", "OTHERS", "ProcessReport", "news_of"]

#: The names of the files.
FILES = "report-*.json"

#: Title of the section on Patchers that the program or its libraries have made.
OTHERS = "Other Patchers"

#: The names of the patches of patchcore itself, which are in no report of other Patchers.
_OWN = "patchcore."

#: Records of patches that may be written in whole reports while imports complete patches. News that come later are
#: appended to a file of their own, a line each, because a whole report takes about 0.1 milliseconds for each of its
#: patches: 1,000 patches that complete one by one would take minutes, as lines they take 0.2 seconds.
#: Writing the report less often instead would lose the last news of a process that is killed, hours after its imports.
#: A thread that writes it later would make ``os.fork`` warn of threads.
_AT_ONCE = 1000


def news_of(report: Path) -> Path:
    """Return the file that has the news of a process, from the file that has its report."""
    return report.with_suffix(".news")


class ProcessReport:
    """Writes the outcome of the patches of this process to the run's report directory, and prints a line at the end.

    The file is written when the run is activated, when imports complete patches, after a fork for the child, when the
    ranks meet, and at the end. Where that takes long because there are many patches, imports that complete some append
    a line for each to a file beside it, which readers add to the report. A process that is killed leaves what is
    written, marked as unfinished.

    Args:
        session: the run.
        patcher: applied.
        role: of this process in the run.

    Examples:
        A hook gets it, and writes the report again after it has noted an event:

        >>> import patchcore as pc
        >>> class Plugin:
        ...     @pc.hookimpl
        ...     def process_patched(self, patcher, report):
        ...         report.write()
    """

    def __init__(self, session: Session, patcher: Patcher, role: str) -> None:
        self._session = session
        self._patcher = patcher
        self._role = role
        self._directory = patcher.settings.get("report_dir")
        self._written = 0  # records, in reports that were written because of news
        self._news: Optional[Path] = None  # the file of news that the report does not have, once there are any
        self._complained = False
        self._error = ""
        self._lock = threading.RLock()
        self._manifest: Optional[tuple[list[Plan], Manifest, str, str]] = None  # with its digest, and as JSON
        self._job: dict[str, Union[str, int, float]] = {}
        self._rename()

    def begin(self) -> None:
        """Write the first report, and from now on whenever there is news."""
        atexit.register(self._end)
        self._patcher.plugins.add(_Others(self._patcher), "patchcore.run.others")
        if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
            os.register_at_fork(after_in_child=self._forked)
        if self._directory is None:
            return
        self.write()
        self._patcher.plugins.add(_News(self), "patchcore.run.news")
        try:
            threading._register_atexit(self._end_of_child)  # type: ignore[attr-defined]  # CPython 3.9 to 3.14
        except RuntimeError:  # the interpreter is on its way out
            pass

    def describe(self, **facts: Union[str, float]) -> None:
        """Add facts about the job that this process is part of to its report; they are written with the next report.

        Args:
            facts: ``group``, the id of the ranks that have found each other; ``generation``, 1 for the first, one more
                after each restart of the group; ``clock``, seconds by which the clock of this machine is ahead of the
                clock of rank 0; ``restart``, how often a launcher has started this rank again; ``local_rank``, on this
                machine; ``meeting``, the address at which the ranks of a group meet; ``name``, of the group;
                ``engine``, the engine that has started the process as a worker.
        """
        self._job.update(facts)

    @property
    def manifest(self) -> Manifest:
        """The manifest of this process."""
        return self._describe_manifest()[0]

    def _describe_manifest(self) -> tuple[Manifest, str, str]:
        """Return the manifest, its digest and its JSON."""
        from patchcore.builtin.shared.manifest import digest, make_manifest  # for those who want reports
        from patchcore.stdlib import json

        plans = [self._patcher.applied_plan, *_other_plans(self._patcher)]
        known = [] if self._manifest is None else self._manifest[0]
        if self._manifest is None or [*map(id, known)] != [*map(id, plans)]:
            others = (e for plan in reversed(plans[1:]) for e in plan if not e.patch.name.startswith(_OWN))
            entries = {entry.patch.name: entry for entry in (*others, *plans[0])}
            manifest = make_manifest(sorted(entries.values(), key=_place_in(plans)))
            self._manifest = plans, manifest, digest(manifest), json.dumps(manifest)
        return self._manifest[1:]

    def write(self, *, finished: bool = False) -> None:
        """Write the file again; main processes report a directory that cannot be written to on stderr, once."""
        if self._directory is None:
            return
        with self._lock:
            path = Path(self._directory, self._name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, self._to_json(finished))
                if self._news is not None:
                    self._news.unlink(missing_ok=True)
                    self._news = None
            except OSError as error:
                if not self._complained and self._role != WORKER:
                    print_message(f"the report could not be written to {path}: {error.strerror or error}")
                self._complained = True

    def news(self, record: PatchRecord) -> None:
        """Write what has become of a patch, so that a process that is killed later leaves it."""
        self._written += len(self._patcher.applied_plan)
        if self._written <= _AT_ONCE:
            self.write()
        else:
            self._append(record)

    def _append(self, record: PatchRecord) -> None:
        from patchcore.stdlib import json

        line = json.dumps({"written": time.time(), "patch": record.to_dict()})
        with self._lock:
            new, self._news = self._news is None, self._news or news_of(Path(str(self._directory), self._name))
            try:
                append_text(self._news, f"\n{line}", new=new)  # a disk that was full may have left half a line before
            except OSError:  # the directory may have been removed
                self.write()

    def _to_json(self, finished: bool) -> str:
        from patchcore.builtin.explain.layers import describe_layers
        from patchcore.builtin.shared.machines import machine, process_identity
        from patchcore.stdlib import json

        encode = json.JSONEncoder(default=vars).encode  # with an indent, it would be the one in Python
        report = self._patcher.report()
        _, digest, manifest = self._describe_manifest()
        # there are many workers, and the process that started them has the same layers
        targets = describe_layers(() if self._role == WORKER else ENGINE.journal)
        view = {
            "schema_version": SCHEMA_VERSION,
            "summary": report.summary(),
            "problems": [problem._asdict() for problem in report.problems],
            "notes": report.notes,
            "environment": dict(report.environment),
            "sections": [section._asdict() for section in report.sections],
            "never_hit": report.never_hit,
            "run": self._session.run,
            "role": present_role(self._role, self._patcher.plugins),
            "finished": finished,
            "error": self._error,
            "written": time.time(),
            "digest": digest,
            "job": self._job,
            "identity": process_identity(),
            "machine": machine(),
            "arguments": self._session.arguments,
            "settings": _describe(self._patcher.settings),
            "timeline": TIMELINE.view({record.name for record in report.patches}),
        }
        # One dictionary after the other: many at once would set off the garbage collector, which looks at all objects.
        texts = {
            **{key: encode(value) for key, value in view.items()},
            "patches": f"[{', '.join(encode(record.to_dict()) for record in report.patches)}]",
            "layers": f"[{', '.join(encode(target.to_dict()) for target in targets)}]",
            "manifest": manifest,
        }
        return "{\n" + ",\n".join(f'"{key}": {text}' for key, text in texts.items()) + "\n}\n"

    def _rename(self) -> None:
        # process ids come again: after exec, in containers, on other hosts
        self._name = f"report-{process_rank()}-{os.getpid()}-{os.urandom(3).hex()}.json"

    def _forked(self) -> None:
        self._lock = threading.RLock()
        self._news = None
        self._role = WORKER
        self._rename()
        if sys._getframe(1).f_globals.get("__name__") != "subprocess":  # it becomes another program (preexec_fn)
            self.write()

    def _end_of_child(self) -> None:
        """Write the last report of a child of multiprocessing, which ends in ``os._exit``, without atexit functions."""
        multiprocessing = loaded("multiprocessing.process")
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            self.write(finished=True)

    def _end(self) -> None:
        self._error = _error_that_ended_the_program()
        self.write(finished=True)
        leads = present_role(self._role, self._patcher.plugins) not in (WORKER, LAUNCHER)
        if leads and not process_rank() and not self._job.get("engine"):
            # All that this calls is imported by now: after an import here the exit code of a Ctrl-C would be 1.
            for line in advise_at_the_end(self._session, self._patcher.plugins):
                print_message(line)
            self._say_at_the_end()

    def _say_at_the_end(self) -> None:
        """Print the effect of the patches on the program, in as many lines as the verbosity asks for."""
        report, plugins = self._patcher.report(), self._patcher.plugins
        verbosity = self._patcher.settings.get("verbosity")
        others = [(made, record) for made, record in _others(self._patcher) if not _is_of_a_plugin(made)]
        records = [*report.patches, *(record for _, record in others)]
        failed = [record.name for record in records if record.status == FAILED and record.asked_for]
        if verbosity == QUIET and not failed and not report.problems:
            return
        plan = self._patcher.applied_plan
        texts = plugins.gather("conclusions", lambda text: isinstance(text, str), "texts", report=report, plan=plan)
        failures = [f"failed: {', '.join(failed)}"] if failed else []
        line = "; ".join([*failures, *texts, report.summary(never_hit=True)])
        print_message("\n".join([line, *_details(report, others, verbosity)]))


def _error_that_ended_the_program() -> str:
    """Return the exception that ended the program: its type and the first line of its text. Empty if there was none.

    ``KeyboardInterrupt`` is left out: the user who interrupted the program needs no finding.
    """
    error = getattr(sys, "last_value", None)
    if error is None or isinstance(error, KeyboardInterrupt) or hasattr(sys, "ps1"):  # a prompt goes on after an error
        return ""
    try:
        lines = str(error).splitlines()
    except Exception:  # a broken __str__
        lines = []
    text = next((" ".join(line.split()) for line in lines if any(map(str.isalnum, line))), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _describe(settings: Settings) -> list[dict[str, str]]:
    """Return the settings that are not defaults, with their origins."""
    values = ((key, str(settings.get(key)), origin) for key, origin in sorted(settings.origins.items()))
    choices = (("enable" if choice.enable else "disable", choice.name, choice.origin) for choice in settings.choices)
    decided = [entry for entry in values if entry[0] not in ("modules", "options")]
    decided += (("module", module.name, module.directory or "sys.path") for module in settings.modules)
    return [{"name": name, "value": value, "origin": origin} for name, value, origin in (*decided, *choices)]


def _details(report: Report, others: Sequence[tuple[Made, PatchRecord]], verbosity: int) -> list[str]:
    """Return the lines that ``-v`` (1) and ``-vv`` (2) add to the last line."""
    if verbosity == 1:
        told = [(record.origin, record) for record in report.patches if record.asked_for]
        told += [(made.place, record) for made, record in others]
        return [f"  {r.status:<8} {r.name} [{origin}]{f': {r.reason}' if r.reason else ''}" for origin, r in told]
    return str(report).splitlines()[1:] if verbosity > 1 else []


def _others(patcher: Patcher) -> list[tuple[Made, PatchRecord]]:
    """Return the patches of the Patchers that the program or its libraries have made, and where that was.

    Skipped patches that no user named are left out, and so are those that the run applied too: a program that starts
    with ``patchcore.apply()`` would have each patch in its report twice.
    """
    own = {_outcome(record) for record in patcher.records()}
    found = {(other.made, r.name): r for other in list(PATCHERS) if other is not patcher for r in other.records()}
    gone = {key: record for key, record in FAILURES.items() if key[0] != patcher.made}
    told = [(made, record) for (made, _), record in {**gone, **found}.items()]
    told = [(made, r) for made, r in told if r.asked_for and _outcome(r) not in own]
    told = [(made, r) for made, r in told if not r.name.startswith(_OWN)]
    return sorted(told, key=lambda pair: pair[0])


def _is_of_a_plugin(made: Made) -> bool:
    """True if a plugin has made the Patcher; the plugin has a section of its own for its patches."""
    return not PLUGIN_MODULES.isdisjoint((made.module, made.module.partition(".")[0]))


class _Others:
    """Has, as a plugin, a section on the Patchers of the program in the reports of this process."""

    def __init__(self, patcher: Patcher) -> None:
        self._patcher = patcher

    @pc.hookimpl
    def report_sections(self) -> list[pc.Section]:
        others = _others(self._patcher)
        data = [{"made": m.place, "patch": r.name, "status": r.status, "reason": r.reason} for m, r in others]
        lines = [f"{d['made']}: {d['patch']} {d['status']}{': ' if d['reason'] else ''}{d['reason']}" for d in data]
        counts = count_statuses([record for made, record in others if not _is_of_a_plugin(made)])
        text = f"other Patchers: {counts}" if counts else ""
        return [pc.Section(OTHERS, tuple(lines), data=data, counts=text)] if data else []


def _other_plans(patcher: Patcher) -> list[Plan]:
    """Return the plans of the other Patchers that are applied in this process, in an order that all ranks share."""
    plans = [other.applied_plan for other in list(PATCHERS) if other is not patcher and other.applied]
    return sorted(plans, key=lambda plan: [entry.patch.name for entry in plan])


def _place_in(plans: Sequence[Plan]) -> Callable[[PlannedPatch], int]:
    """Return a function that returns the place of an entry in all ``plans``, one after the other."""
    entries = [entry for plan in plans for entry in plan]
    places = {id(entry): place for place, entry in enumerate(entries)}
    return lambda entry: places[id(entry)]


def _outcome(record: PatchRecord) -> tuple[object, ...]:
    """Return the facts that are equal for two Patchers that have applied the same patch."""
    return record.name, record.status, tuple((change.kind, change.target, change.status) for change in record.changes)


class _News:
    """Hears, as a plugin, of patches that imports complete."""

    def __init__(self, report: ProcessReport) -> None:
        self._report = report

    @pc.hookimpl
    def after_apply(self, outcome: PatchRecord) -> None:
        self._report.news(outcome)
