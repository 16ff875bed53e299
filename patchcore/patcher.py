"""The Patcher: discover -> collect -> plan -> apply -> report -> revert."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional, Union

from patchcore.application import Application
from patchcore.changes import Skip
from patchcore.engine import ENGINE
from patchcore.errors import PatchError, UnknownName, describe_error, did_you_mean
from patchcore.patch import Patch
from patchcore.plan import Candidate, Plan, PlannedPatch, make_plan
from patchcore.plugins import Plugins
from patchcore.provenance import LOCAL, Provenance
from patchcore.report import FAILED, PENDING, REVERTED, SKIPPED, ChangeRecord, PatchRecord, Report
from patchcore.settings import POLICIES, Choice, Settings

__all__ = ["Context", "Patcher", "apply", "process_rank"]

logger = logging.getLogger("patchcore")
logger.addHandler(logging.NullHandler())

Name = Union[str, Patch]

#: Where launchers put the rank of a process (torchrun, Open MPI, MPICH, Slurm), the first that is set counts.
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


@dataclass(frozen=True)
class Context:
    """What a hook is told besides the patch.

    Args:
        provenance: who contributes the patch.
        settings: what the user decided.
        plan: the plan that is being applied.
    """

    provenance: Provenance
    settings: Settings
    plan: Plan


class Patcher(contextlib.ContextDecorator):
    """Plans, applies, reports and reverts a set of patches.

    ``with Patcher(...):`` applies at entry and reverts at exit; as a decorator it does so around each call.

    Args:
        patches: patches to use as they are, besides those of ``plugins``.
        plugins: loaded plugins; none by default, see :meth:`discover`.
        settings: decisions from outside; the defaults by default.
        enable, disable: patches, names, legacy names, targets or plugin names, on top of ``settings``.
        strict: raise at the first failure and leave nothing applied, the same as ``on_failure="raise"``.

    Raises:
        UnknownName: at the first plan, when a name in ``enable`` / ``disable`` means nothing.
    """

    def __init__(
        self,
        patches: Iterable[Patch] = (),
        *,
        plugins: Optional[Plugins] = None,
        settings: Optional[Settings] = None,
        enable: Union[Name, Sequence[Name]] = (),
        disable: Union[Name, Sequence[Name]] = (),
        strict: bool = False,
    ) -> None:
        settings = settings or Settings()
        choices = (*_choices(enable, True), *_choices(disable, False))
        settings = replace(settings, choices=(*settings.choices, *choices))
        self.settings = replace(settings, on_failure="raise") if strict else settings
        self.plugins = plugins or Plugins(discover=False)
        self._own = tuple(patches)
        self._candidates: Optional[list[Candidate]] = None
        self._plan: Optional[Plan] = None
        self._vetoes: dict[str, str] = {}
        self._applications: dict[str, Application] = {}
        self._notes: list[str] = []
        self._lock = threading.RLock()
        self.applied = False

    @classmethod
    def discover(
        cls,
        *,
        plugins: Optional[Sequence[str]] = None,
        enable: Union[Name, Sequence[Name]] = (),
        disable: Union[Name, Sequence[Name]] = (),
        strict: bool = False,
        patches: Iterable[Patch] = (),
        modules: Sequence[str] = (),
        settings: Optional[Settings] = None,
    ) -> Patcher:
        """Return a Patcher with the installed plugins, under the settings of environment and pyproject.toml.

        Args:
            plugins: names of the plugins to load; all by default.
            enable, disable, strict: see :class:`Patcher`.
            patches: further patches.
            modules: local modules that implement hooks without being packaged.
            settings: instead of reading environment and pyproject.toml.

        Raises:
            UnknownName: ``plugins`` names one that is not installed.
            SettingsError: a setting cannot be read.
        """
        if settings is None:
            settings = Settings.load(arguments={"plugins": plugins})
        loaded = Plugins(allowed=settings.plugins, modules=modules)
        return cls(patches, plugins=loaded, settings=settings, enable=enable, disable=disable, strict=strict)

    def collect(self) -> list[Candidate]:
        """Return every patch with who contributes it; asks the plugins once. Broken contributions are noted, not raised."""
        if self._candidates is None:
            found: dict[str, Candidate] = {}
            for patch in self._own:
                self._take(found, Candidate(patch, LOCAL))
            for provenance, patches in self.plugins.each("register_patches", settings=self.settings):
                for patch in patches:
                    self._take(found, Candidate(patch, provenance))
            for name in self.settings.options:
                if name not in found:
                    raise UnknownName(
                        f"options are set for {name!r}, but there is no such patch{did_you_mean(name, found)}"
                    )
            self._candidates = list(found.values())
        return list(self._candidates)

    def disable(self, *names: Name) -> Patcher:
        """Leave ``names`` out of plans made from now on; return the Patcher."""
        self.settings = replace(self.settings, choices=(*self.settings.choices, *_choices(names, False)))
        return self

    def enable(self, *names: Name) -> Patcher:
        """Take ``names`` into plans made from now on; return the Patcher."""
        self.settings = replace(self.settings, choices=(*self.settings.choices, *_choices(names, True)))
        return self

    def plan(self) -> Plan:
        """Return what would be applied here, in order, with reasons; changes nothing, imports no target library.

        Raises:
            UnknownName: an enabled or disabled name means nothing.
            PlanError: the declared order is a cycle.
        """
        return make_plan(self.collect(), self.settings.choices)

    def apply(self) -> Report:
        """Apply the plan: loaded modules now, others right after they are imported. Applying twice changes nothing.

        Raises:
            PatchError: a patch or plugin failed under the policy ``raise``, or a required patch does not fit. Nothing stays
                applied then.
            UnknownName, PlanError: see :meth:`plan`.
        """
        with self._lock:
            if self.applied:
                return self.report()
            plan = self.plan()
            self._refuse(plan)
            self._plan, self._vetoes, self._applications, self._notes = plan, {}, {}, []
            self.applied = True
            try:
                self._apply(plan)
            except BaseException:
                self.revert()
                raise
            report = self.report()
        self._log(report)
        return report

    def revert(self) -> Report:
        """Restore every slot that no other Patcher holds to the identical object that was there."""
        with self._lock:
            if self.applied:
                self.applied = False
                self._notes += ENGINE.release(reversed(list(self._applications.values())), self)
                for note in self._notes:
                    logger.warning("%s", note)
            return self.report()

    def report(self, *, unreachable: bool = False) -> Report:
        """Return what has happened so far; patches that waited for an import may have been applied since.

        Args:
            unreachable: also look for originals in closures, default arguments and containers, which takes a walk over all
                objects of the process.
        """
        if self._plan is None:
            return Report((), tuple(self.plugins.problems), (), _environment())
        if self.applied:
            ENGINE.sweep(list(self._applications.values()))
        places = ENGINE.unreachable(self._applications.values()) if unreachable and self.applied else {}
        records = tuple(self._record(entry, places) for entry in self._plan)
        return Report(records, tuple(self.plugins.problems), tuple(self._notes), _environment())

    def completed(self, application: Application) -> None:
        """Called by the engine when a patch that waited is applied."""
        entry = self._entry(application)
        if entry is not None:
            logger.debug("%s applied on import", application.patch.name)
            self._hook("after_apply", patch=application.patch, outcome=self._record(entry, {}))

    def failed(self, application: Application) -> None:
        """Called by the engine when a patch failed and was undone; raises :class:`PatchError` under that policy."""
        patch, error = application.patch, application.error
        assert error is not None and self._plan is not None
        context = Context(application.provenance, self.settings, self._plan)
        policy = self.plugins.first(
            "on_failure",
            POLICIES.__contains__,
            f"one of {', '.join(POLICIES)}",
            patch=patch,
            error=error,
            context=context,
        )
        policy = policy or ("raise" if patch.required else self.settings.on_failure)
        change = next((f"{s.change.kind} {s.target}: " for s in application.states if s.status == FAILED), "")
        message = f"patch {patch.name} ({application.provenance}) failed: {change}{describe_error(error)}"
        if policy == "raise":
            failure = PatchError(message)
            failure.report = self.report()
            self.revert()
            raise failure from error
        logger.log(logging.WARNING if policy == "warn" else logging.DEBUG, "%s", message)

    def __enter__(self) -> Patcher:
        self.apply()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.revert()

    def __repr__(self) -> str:
        return f"<Patcher {'applied' if self.applied else 'not applied'}, {len(self._applications)} patches>"

    def _apply(self, plan: Plan) -> None:
        moves: list[Any] = []
        for entry in plan:
            if not entry.go:
                self._hook("after_apply", patch=entry.patch, outcome=self._record(entry, {}))
                continue
            context = Context(entry.provenance, self.settings, plan)
            veto = self.plugins.first(
                "before_apply", _is_skip, "None or Skip('why')", patch=entry.patch, context=context
            )
            if veto is not None:
                self._vetoes[entry.patch.name] = f"vetoed by a plugin: {veto.reason}"
            else:
                application = ENGINE.acquire(entry.patch, entry.targets, entry.provenance, self, moves)
                self._applications[entry.patch.name] = application
            self._hook("after_apply", patch=entry.patch, outcome=self._record(entry, {}))
        ENGINE.rebind(moves, waiting=self._applications.values())
        self._refuse_problems()

    def _refuse(self, plan: Plan) -> None:
        """Raise before anything is touched when the plan itself fails under the policy."""
        self._refuse_problems()
        for entry in plan:
            misfit = not entry.go and not entry.unwanted
            if misfit and (entry.patch.required or (entry.status == FAILED and self.settings.on_failure == "raise")):
                raise PatchError(f"patch {entry.patch.name} ({entry.provenance}) cannot be applied: {entry.reason}")

    def _refuse_problems(self) -> None:
        if self.plugins.problems and self.settings.on_failure == "raise":
            raise PatchError("; ".join(map(str, self.plugins.problems)))

    def _take(self, found: dict[str, Candidate], candidate: Candidate) -> None:
        patch, provenance = candidate
        if not isinstance(patch, Patch):
            error: Exception = TypeError(f"expected a Patch, got {patch!r}")
        elif patch.name in found:
            error = ValueError(
                f"the patch name {patch.name!r} is taken by {found[patch.name].provenance}; rename one of the patches"
            )
        else:
            try:
                options = self.settings.options.get(patch.name)
                found[patch.name] = Candidate(patch.with_options(options) if options else patch, provenance)
                return
            except Exception as raised:
                error = raised
        if provenance is LOCAL:
            raise error
        self.plugins.note(provenance, "register_patches", error)

    def _hook(self, name: str, **arguments: Any) -> None:
        for _ in self.plugins.each(name, **arguments):
            pass

    def _entry(self, application: Application) -> Optional[PlannedPatch]:
        return next((e for e in self._plan or () if e.patch.name == application.patch.name), None)

    def _record(self, entry: PlannedPatch, places: Mapping[int, Sequence[str]]) -> PatchRecord:
        name, who = entry.patch.name, entry.provenance
        application = self._applications.get(name)
        if application is None:
            status, reason = (SKIPPED, self._vetoes[name]) if name in self._vetoes else (entry.status, entry.reason)
            changes: tuple[ChangeRecord, ...] = tuple(
                ChangeRecord(c.kind, str(t), status) for c, t in zip(entry.patch.changes, entry.targets)
            )
        else:
            status, reason = application.status, ""
            changes = tuple(
                replace(state.record(), unreachable=tuple(places.get(id(state), ()))) for state in application.states
            )
            if application.error is not None:
                reason = describe_error(application.error)
            elif not self.applied:
                reason = "" if application.ended else "another Patcher keeps it in force"
                status = REVERTED
            elif status in (PENDING, SKIPPED):
                reason = "; ".join(dict.fromkeys(c.reason for c in changes if c.status == status))
        return PatchRecord(name, status, reason, who.plugin, who.distribution, who.version, changes)

    def _log(self, report: Report) -> None:
        for problem in report.problems:
            logger.warning("%s\n%s", problem, problem.traceback)
        for record in report.with_status(FAILED):
            if record.name not in self._applications:
                logger.warning("patch %s [%s]: %s", record.name, record.origin, record.reason)
        if not process_rank():
            logger.info("%s", report.summary())


def apply(
    *,
    plugins: Optional[Sequence[str]] = None,
    enable: Union[Name, Sequence[Name]] = (),
    disable: Union[Name, Sequence[Name]] = (),
    strict: bool = False,
    patches: Iterable[Patch] = (),
) -> Patcher:
    """Discover the installed plugins and apply their patches; return the Patcher.

    On its own it stays applied; ``with patchcore.apply():`` restores everything at the end of the block. Arguments and
    exceptions are those of :meth:`Patcher.discover` and :meth:`Patcher.apply`.
    """
    patcher = Patcher.discover(plugins=plugins, enable=enable, disable=disable, strict=strict, patches=patches)
    patcher.apply()
    return patcher


def process_rank() -> int:
    """Return the rank of this process in its job, 0 outside one."""
    for variable in RANK_VARIABLES:
        value = os.environ.get(variable, "")
        if value.isdigit():
            return int(value)
    return 0


def _choices(names: Union[Name, Sequence[Name]], enable: bool) -> tuple[Choice, ...]:
    listed = (names,) if isinstance(names, (str, Patch)) else names
    origin = f"{'enable' if enable else 'disable'}="
    return tuple(Choice(enable, name.name if isinstance(name, Patch) else name, origin) for name in listed)


def _is_skip(answer: Any) -> bool:
    return isinstance(answer, Skip)


def _environment() -> dict[str, Any]:
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "pid": os.getpid(),
        "rank": process_rank(),
        "directory": str(Path.cwd()),
    }
