"""The Patcher: discover -> collect -> plan -> apply -> report -> revert."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import sys
import weakref
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from threading import RLock
from typing import Any, Optional, Union

from patchcore.declare.changes import Skip, SlotChange, Wait
from patchcore.declare.patch import Patch
from patchcore.declare.slots import BodySlot, find_slot
from patchcore.declare.target import Target
from patchcore.engine.application import Application, record_of
from patchcore.engine.engine import ENGINE
from patchcore.engine.importing import loaded_here
from patchcore.engine.journal import describe
from patchcore.engine.rebinding import Moves
from patchcore.engine.reentry import is_reentrant
from patchcore.errors import DeclarationError, PatchError, SettingsError, UnknownName, describe_error, did_you_mean
from patchcore.logs import logger
from patchcore.objects.binding import wrapped_callable
from patchcore.objects.extensions import Extensions, using
from patchcore.objects.printable import counted, shown
from patchcore.planning.candidates import Candidate
from patchcore.planning.companions import dependents
from patchcore.planning.conditions import APPLY, OFF, PROGRAM, WAITS, Environment
from patchcore.planning.listing import ORDERS, stack_as_listed
from patchcore.planning.plan import Context, Plan, PlannedPatch, covered_by, make_plan
from patchcore.planning.provenance import LOCAL_PROVENANCE, Provenance
from patchcore.planning.revising import continue_plan, with_vetoes
from patchcore.planning.spelling import alias_remarks
from patchcore.plugins import Plugins
from patchcore.process import caller, describe_process, process_rank
from patchcore.report import APPLIED, FAILED, FAILURES, SKIPPED, PatchRecord, Remark, Report
from patchcore.settings import POLICIES, Choice, LocalModule, Settings
from patchcore.stderr import show_failure

__all__ = ["PATCHERS", "Patcher", "apply", "configure", "original"]


Name = Union[str, Patch]

#: Levels of :mod:`logging`: how loud a summary is logged, and a failure, by policy.
_INFO, _WARNING = 20, 30
_LEVELS = {"warn": _WARNING, "raise": 40, "ignore": 10}


# Weak, so that a Patcher that has only made a plan goes with its last name. The engine refers to those that hold a
# patch, so they stay.
#: The Patchers of this process that somebody still refers to, or whose patches are in force.
PATCHERS: weakref.WeakSet[Patcher] = weakref.WeakSet()


class Patcher(contextlib.ContextDecorator):
    """Plans, applies, reports and reverts a set of patches.

    ``with Patcher(...):`` applies at entry and reverts at exit; as a decorator it does so around each call.

    Args:
        patches: patches to use in addition to those of ``plugins``. Pass a
            :class:`~patchcore.planning.candidates.Candidate` to keep the name of the plugin that contributed a patch.
        plugins: loaded plugins; those that ship with patchcore by default, see :meth:`discover`. Several Patchers can
            share one ``Plugins`` object, and with it the list of plugins that failed.
        settings: the user's settings; the defaults by default.
        enable, disable: patches, names, legacy names, targets or plugin names, on top of ``settings``.
        strict: raise at the first failure and leave nothing applied, the same as ``on_failure="raise"``.
        count: count the calls of patched targets, see :class:`patchcore.report.ChangeRecord`.
        order: ``"listed"``: those of ``patches`` that change one target stack in the order of the list. Replacements go
            below wrappers, and two replacements of one target are a conflict. By default patches of one target are a
            conflict unless they declare an order, ``after=`` or ``before=``.
        extensions: the writers, guards, marks, handovers and registry tables for these patches; by default those of
            ``plugins``. ``Patcher([patch], extensions=other.extensions)`` applies one patch as ``other`` would.

    Raises:
        UnknownName: at the first plan, when a name in ``enable`` / ``disable`` means nothing.
        DeclarationError: ``order`` is neither ``"declared"`` nor ``"listed"``.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> patcher = pc.Patcher([pc.Patch("demo.mean", changes=pc.Replace("statistics:mean", min))])
        >>> print(patcher.apply())
        patchcore: 1 applied
          applied  demo.mean [local]
                   replace statistics:mean: applied
        >>> statistics.mean([1, 3])
        1
        >>> patcher.revert().summary()
        '1 reverted'
    """

    #: True in a class of a plugin that has a section of its own for its patches in the reports of a process.
    has_own_report = False

    def __init__(
        self,
        patches: Iterable[Union[Patch, Candidate]] = (),
        *,
        plugins: Optional[Plugins] = None,
        settings: Optional[Settings] = None,
        enable: Union[Name, Sequence[Name]] = (),
        disable: Union[Name, Sequence[Name]] = (),
        strict: bool = False,
        count: bool = False,
        order: str = "declared",
        extensions: Optional[Extensions] = None,
    ) -> None:
        self.plugins = plugins or Plugins(discover=False)
        #: Read here and not at the first apply, so that a plugin that fails is among the problems from the beginning.
        self.extensions = extensions or self.plugins.extensions
        settings = (settings or Settings()).complete(self.plugins.settings())
        settings = settings._replace(on_failure="raise") if strict else settings
        self.settings = settings._replace(count=True) if count else settings
        self._choose(_listed(enable), _listed(disable))
        if order not in ORDERS:
            raise DeclarationError(f"order must be 'declared' or 'listed', got {order!r}")
        self._own = tuple(stack_as_listed(tuple(patches)) if order == "listed" else patches)
        self._candidates: Optional[list[Candidate]] = None
        self._plan: Optional[Plan] = None
        self._entries: dict[str, PlannedPatch] = {}
        self._vetoes: dict[str, str] = {}
        self._environment = self.make_environment()
        self._proceeding: set[str] = set()  # patches that may go on, though the wait of some may not have begun yet
        self._applications: dict[str, Application] = {}
        self._notes: list[str] = []
        self._remarked: dict[str, tuple[str, ...]] = {}  # remarks of plugins, by patch name
        self._failure: Optional[PatchError] = None
        self._notified: set[str] = set()  # patches that the hook after_apply was called for since the last apply
        self._news = False  # true if a patch has changed its status since it was last set to false
        self._depth = 0  # of with blocks and decorated calls
        # Two locks: `_applying` makes whole applies of one Patcher follow each other, and is held while code of others
        # runs. Imports in other threads complete or fail patches of this Patcher meanwhile; they only take `_lock`,
        # which is held for a few lines. With one lock, such an import would wait for an apply that may wait for that
        # import.
        self._applying = RLock()
        self._lock = RLock()
        self.applied = False
        #: The line of the program, or of a plugin, that created this Patcher.
        self.made = caller()
        if not self.has_own_report:
            PATCHERS.add(self)

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
        count: bool = False,
    ) -> Patcher:
        """Return a Patcher with the installed plugins, under the settings of environment and pyproject.toml.

        Args:
            plugins: names of the plugins to load; all by default.
            enable, disable, strict, count: see :class:`Patcher`.
            patches: further patches.
            modules: names of local modules that implement hooks without being packaged, besides those of the settings.
            settings: instead of reading environment and pyproject.toml.

        Raises:
            UnknownName: ``plugins`` names one that is not installed.
            SettingsError: a setting cannot be read.
        """
        if settings is None:
            settings = Settings.load(arguments={"plugins": plugins})
        elif plugins is not None:
            settings = settings._replace(plugins=(plugins,) if isinstance(plugins, str) else tuple(plugins))
        local = (*settings.modules, *map(LocalModule, modules))
        loaded = Plugins(allowed=settings.plugins, modules=local)
        return cls(
            patches, plugins=loaded, settings=settings, enable=enable, disable=disable, strict=strict, count=count
        )

    def collect(self) -> list[Candidate]:
        """Return every patch with its plugin. The hook is called once; an invalid patch is a problem of its plugin.

        Raises:
            DeclarationError: two patches of this Patcher have one name, or an option is set that a patch does not have.
        """
        return list(self._collect())

    def with_settings(self, **values: Any) -> Patcher:
        """Set settings of plugins, as in ``[tool.patchcore]``, before the patches are applied; return the Patcher.

        ``with_settings(brake=100)`` ends the program after training step 100, for example.

        Raises:
            SettingsError: no plugin has such a setting, a value is impossible, or the patches are applied already.
        """
        if self.applied:
            raise SettingsError(
                f"{', '.join(values)} cannot be set after the patches are applied; write "
                "Patcher.discover().with_settings(...).apply()"
            )
        given = self.settings.with_given(values, origin="with_settings()")
        self.settings = given.complete(self.plugins.settings())
        self._candidates = None  # patches may depend on settings
        return self

    def disable(self, *names: Name) -> Patcher:
        """Leave ``names`` out of later plans; this overrides earlier calls and the settings. Return the Patcher.

        Examples:
            >>> from patchcore import Patch, Patcher, Replace
            >>> patch = Patch("shop.price", changes=Replace("shop:price", len))
            >>> [entry.verdict for entry in Patcher([patch]).disable("shop.price").plan()]
            ['off']
        """
        self._choose((), names)
        return self

    def enable(self, *names: Name) -> Patcher:
        """Take ``names`` into later plans; this overrides earlier calls and the settings. Return the Patcher."""
        self._choose(names, ())
        return self

    def plan(self) -> Plan:
        """Return the plan: every patch in order, with its verdict and reason. Nothing is written or imported for it.

        Raises:
            UnknownName: an enabled or disabled name, or one that options are set for, means nothing.
            DeclarationError: see :meth:`collect`.
            PlanError: the declared order is a cycle.
        """
        plan = self._make_plan()
        vetoes: dict[str, str] = {}
        waits: dict[str, str] = {}
        for entry in plan if self.plugins.implements("before_apply") else ():
            answer = self._answer(entry, plan, planning=True) if entry.verdict == APPLY else None
            if answer is not None:
                (vetoes if isinstance(answer, Skip) else waits)[entry.patch.name] = answer.reason
        return with_vetoes(plan, vetoes, waits)

    def make_environment(self) -> Environment:
        """Return what is installed now, under the setting ``library_versions``."""
        return Environment(self.settings.library_versions)

    def _make_plan(self) -> Plan:
        """Return the plan before plugins are called that may veto a patch."""
        candidates = self._collect()
        self._environment = self.make_environment()
        plan = make_plan(
            candidates,
            self.settings.choices,
            complete=self.plugins.complete,
            find_home=self.plugins.find_home,
            environment=self._environment,
        )
        names = [name for c in candidates for name in c.patch.names] if self.settings.options else []
        unknown = [
            f"options are set for {name!r}, but no patch has this name{did_you_mean(name, names)}"
            for name in self.settings.options
            if name not in names
        ]
        if unknown and self.plugins.complete:
            raise UnknownName(unknown[0])
        return plan.evolve(notes=(*plan.notes, *unknown), ask=functools.partial(self._remarks_on_plan, plan))

    @property
    def applied_plan(self) -> Plan:
        """The plan of the last :meth:`apply`; before that, the plan that :meth:`apply` would use now."""
        return self.plan() if self._plan is None else self._plan

    @property
    def failure(self) -> Optional[PatchError]:
        """The :class:`PatchError` of the patch that failed since the last :meth:`apply`, or ``None``."""
        return self._failure

    def apply(self) -> Report:
        """Apply the plan: loaded modules now, others right after they are imported. Applying twice changes nothing.

        Raises:
            PatchError: a patch or plugin failed under the policy ``raise``, or a required patch does not fit. Nothing
                stays applied then. Or a signal handler calls in the middle of an operation; nothing is changed then.
            UnknownName, DeclarationError, PlanError: see :meth:`plan`.
        """
        self._refuse_reentry("apply")
        with self._applying:
            if self.applied:
                return self.report()
            plan = self._make_plan()
            self._begin(plan)
            return self._carry_out(plan, plan.patches)

    def _begin(self, plan: Plan) -> None:
        """Forget the last apply; from now on imports in other threads may complete or fail patches of ``plan``."""
        with self._lock:
            self._entries = {entry.patch.name: entry for entry in plan.patches}
            self._plan, self._vetoes, self._applications, self._failure = plan, {}, {}, None
            self._notes, self._remarked, self._notified = list(plan.notes), {}, set()
            self.applied = True

    def _carry_out(self, plan: Plan, entries: Sequence[PlannedPatch]) -> Report:
        """Apply ``entries`` of the plan. If one fails under the policy ``raise``, revert all patches."""
        names = {entry.patch.name for entry in entries}
        try:
            self._refuse(entries)
            self._put_in_force(plan, entries)
            self._refuse_failures()
            report = self._announce(names)
        except BaseException as error:
            self._undo(error, names)
            raise
        self._log(report, names)
        return report

    def _put_in_force(self, plan: Plan, entries: Iterable[PlannedPatch]) -> None:
        """Write the changes that can be written now; the engine writes the others when their modules are imported."""
        moves, vetoing = Moves(loaded=loaded_here()), self.plugins.implements("before_apply")
        for name, error in [(n, a.error) for n, a in self._applications.items() if a.error]:  # of an earlier apply
            self._leave_dependents(self._entries[name].patch, FAILED, describe_error(error))
        for entry in entries:
            if entry.verdict != APPLY or entry.patch.name in self._vetoes:
                continue
            answer = self._final_answer(entry, plan) if vetoing else None
            if isinstance(answer, Skip):
                self._leave_dependents(entry.patch, "skipped", answer.reason)
            else:
                application = self._acquire(entry, answer)
                if application is None:
                    break
                ENGINE.advance(application, moves, self)
        ENGINE.rebind(moves, waiting=list(self._applications.values()))
        with self._lock:
            self._plan = with_vetoes(plan, self._vetoes)

    def _acquire(self, entry: PlannedPatch, wait: Optional[Wait]) -> Optional[Application]:
        """Hold the application of a patch; ``None`` if an import in another thread has failed, or somebody reverts."""
        with self._lock:
            if not self.applied:
                return None
            counting = self.settings.count and entry.patch.count
            known = entry.patch, entry.targets, entry.provenance
            wait = None if entry.patch.name in self._proceeding else wait
            application = ENGINE.acquire(*known, self, counting=counting, extensions=self.extensions, wait=wait)
            self._applications[entry.patch.name] = application
            if counting and not application.counting:
                self._note_not_counted(application)
            return application

    def _refuse_failures(self) -> None:
        if self._failure is not None:
            raise PatchError(str(self._failure)) from self._failure
        self._refuse_problems()

    def _announce(self, names: Container[str]) -> Report:
        """Call the hook ``after_apply`` for the patches that have ``names``; return the report."""
        report = self._report({})
        self._news = False
        self._notify_after_apply(report, names)
        if self._news or len(self.plugins.problems) > len(report.problems):
            self._refuse_problems()
            report = self._report({})
        return report

    def _undo(self, error: BaseException, names: Container[str]) -> None:
        """Revert all patches, because ``error`` has ended the apply."""
        undone = self._revert()
        if isinstance(error, PatchError):
            undone = error.report = error.report or undone
        if isinstance(error, Exception):  # an interrupt is not to wait for hooks
            self._notify_after_apply(undone, names)

    def refresh(self) -> Report:
        """Apply patches that match now but did not when :meth:`apply` ran, because a library was installed for example.

        Patches that were applied or failed, or that a hook vetoed, are not tried again. A pending patch whose module
        was imported unnoticed is applied. Does nothing before :meth:`apply`; raises the same errors.
        """
        self._refuse_reentry("refresh")
        return self._go_on(revert=False)

    def proceed(self, *names: str) -> None:
        """Apply patches that a ``before_apply`` hook holds back with :class:`patchcore.Wait`, in the order of the plan.

        May be called in any thread, and inside an import. A patch that does not wait stays as it is.

        Args:
            names: of patches.

        Raises:
            PatchError: a patch failed under the policy ``raise``; all patches of this Patcher are reverted then.
        """
        with self._lock:
            self._proceeding.update(names)
            waiting = [application for name, application in self._applications.items() if name in names]
        ENGINE.proceed(waiting)

    def replan(self) -> Report:
        """Plan again: apply the patches that match now, as :meth:`refresh` does, and revert those that do not any more.

        That is so after :meth:`enable`, :meth:`disable` and :func:`configure`, and if the answer of a ``when`` has
        changed. Does nothing before :meth:`apply`; raises the same errors.

        Examples:
            >>> import statistics
            >>> import patchcore as pc
            >>> patch = pc.Patch("demo.mean", changes=pc.Replace("statistics:mean", min))
            >>> with pc.Patcher([patch]) as patcher:
            ...     print(statistics.mean([1, 3]))
            ...     report = patcher.disable("demo.mean").replan()
            ...     print(statistics.mean([1, 3]))
            1
            2
        """
        self._refuse_reentry("replan")
        return self._go_on(revert=True)

    def _go_on(self, *, revert: bool) -> Report:
        """Plan again, and carry out what is new; ``revert``: also revert the patches that the new plan leaves out."""
        with self._applying:
            if not self.applied:
                return self.report()
            ENGINE.sweep(list(self._applications.values()))
            plan = self._make_plan()
            with self._lock:
                if revert:
                    self._leave_out([entry.patch.name for entry in plan if entry.verdict != APPLY])
                plan, entries, covered = continue_plan(plan, self._entries, {*self._applications, *self._vetoes})
                self._plan = plan
                self._entries = {entry.patch.name: entry for entry in plan.patches}
                self._notes += (note for note in plan.notes if note not in self._notes)
                ENGINE.release([self._applications.pop(entry.patch.name) for entry in reversed(covered)], self)
            return self._carry_out(plan, entries)

    def _leave_out(self, names: Iterable[str]) -> None:
        """Revert the patches that have ``names``, except those that failed: they are not in force."""
        known = [name for name in names if name in self._applications and self._applications[name].error is None]
        self._release([self._applications.pop(name) for name in reversed(known)])

    def _leave_dependents(self, patch: Patch, verdict: str, reason: str) -> bool:
        """Skip or revert the patches that need ``patch``, which is not applied; true if one of them is required."""
        failed = {name for name, application in self._applications.items() if application.error is not None}
        known = [entry for name, entry in self._entries.items() if name not in {*self._vetoes, *failed}]
        left = dependents(patch, verdict, reason, known)
        self._vetoes.update(left)
        for name, why in left.items():
            logger().warning("patch %s (%s) is not applied: %s", name, self._entries[name].provenance, why)
        with self._lock:
            self._leave_out(left)
        if not self._notified.isdisjoint(left):  # as applied, by an apply that has ended
            self._notify_after_apply(self._report({}), left)
        return any(self._entries[name].patch.required for name in left)

    def _release(self, applications: Iterable[Application]) -> None:
        """Revert patches for this Patcher, the last one first; note what cannot be undone."""
        notes = ENGINE.release(applications, self)
        self._notes += notes
        for note in notes:
            logger().warning("%s", note)

    def revert(self) -> Report:
        """Put the original object back in every slot, except slots that another Patcher still patches.

        After a Ctrl-C the revert is finished first; then ``KeyboardInterrupt`` is raised.

        Raises:
            PatchError: a signal handler calls in the middle of an operation; nothing is changed then.
        """
        self._refuse_reentry("revert")
        return self._revert()

    def _revert(self) -> Report:
        with self._lock:
            held = ENGINE.held_by(self)
            self._news = True
            if self.applied or held:
                known = {id(application): application for application in reversed(self._applications.values())}
                known.update((id(application), application) for application in held)  # apply was interrupted
                self._release(known.values())
                self.applied = False
            return self._report({})

    def _refuse_reentry(self, what: str) -> None:
        """Raise an error if a signal handler or a finalizer calls in the middle of an operation of this thread."""
        if is_reentrant((self._lock, *ENGINE.locks), sys._getframe(2), ENGINE.writer_packages):
            raise PatchError(
                f"cannot {what} now: a signal handler or a finalizer calls Patcher.{what}() while this thread applies "
                "or reverts patches; nothing was changed. Set a flag in the handler, and call it from the program"
            )

    def report(self, *, unreachable: bool = False) -> Report:
        """Return the report on all patches at this moment; changes nothing.

        Args:
            unreachable: also search for places that still hold an original (attributes of objects, closures). This
                takes several walks over all objects of the process.
        """
        applications = list(self._applications.values())
        return self._report(
            ENGINE.rebinder.unreachable(applications, self.plugins.find_holders) if unreachable and self.applied else {}
        )

    def records(self) -> list[PatchRecord]:
        """Return the record of each patch, without the remarks of plugins; empty before :meth:`apply`."""
        return [self._record(entry, {}, ()) for entry in list(self._entries.values())]

    def completed(self, application: Application) -> None:
        """Called by the engine when a patch that waited is applied."""
        late = next((state.late for state in application.states if state.late), "")
        if late:
            logger().warning("patch %s was applied late: %s", application, late)
        logger().debug("%s applied on import", application.patch.name)
        self._news = True
        entry = self._entries[application.patch.name]
        told = self._remarks(entry)
        if self.plugins.implements("after_apply"):
            self.plugins.notify("after_apply", patch=application.patch, outcome=self._record(entry, {}, told))
        try:
            self._refuse_problems()
        except PatchError as failure:
            self._give_up(failure)
            raise
        self._show_problems()

    def failed(self, application: Application) -> None:
        """Called by the engine when a patch failed and was undone; raises :class:`PatchError` under that policy."""
        patch, error = application.patch, application.error
        assert error is not None
        context = Context(application.provenance, self.settings, self.applied_plan, self)
        asked = {"patch": patch, "error": error, "context": context}
        policy = self.plugins.first("on_failure", POLICIES.__contains__, f"one of {', '.join(POLICIES)}", **asked)
        policy = policy or ("raise" if patch.required else self.settings.on_failure)
        application.ignored = policy == "ignore"
        change = next((f"{s.change.kind} {s.target}: " for s in application.states if s.status == FAILED), "")
        message = f"patch {patch.name} ({application.provenance}) failed: {change}{describe_error(error)}"
        self._log_failure(patch.name, message, policy)
        self._news = True
        self._remember(self._record(self._entries[patch.name], {}, ()))
        if self._leave_dependents(patch, FAILED, describe_error(error)) or policy == "raise":
            failure = PatchError(message)
            self._give_up(failure)
            raise failure from error
        if patch.name in self._notified:  # as pending, by an apply that has ended
            self._notify_after_apply(self._report({}), (patch.name,))

    def __enter__(self) -> Patcher:
        self._refuse_reentry("apply")
        # The depth is read first and written last: an interrupt may end the block before the line that counts it, and
        # `_leave` with the earlier depth is right in both cases.
        depth = self._depth
        try:
            self.apply()
            with self._lock:
                self._depth = depth + 1
            return self
        except BaseException:
            self._leave(depth)  # interrupted: there will be no __exit__
            raise

    def __exit__(self, *exc_info: object) -> None:
        depth = self._depth - 1
        try:
            self._refuse_reentry("revert")
            self._leave(depth)
        except PatchError:
            raise
        except BaseException:  # Ctrl-C in the middle: finish the revert, then raise
            self._leave(depth)
            raise

    def _leave(self, depth: int) -> None:
        with self._lock:
            if not depth:  # a decorated function may call itself
                self._revert()
            self._depth = depth

    def __repr__(self) -> str:
        return f"<Patcher {'applied' if self.applied else 'not applied'}, {counted(len(self._applications), 'patch')}>"

    def _collect(self) -> list[Candidate]:
        if self._candidates is None:
            found: dict[str, Candidate] = {}
            for own in self._own:
                self._take(found, own if isinstance(own, Candidate) else Candidate(own, LOCAL_PROVENANCE))
            asked = {"settings": self.settings, "plugins": self.plugins}
            answers = list(self.plugins.collect("register_patches", **asked))
            contributed = [Candidate(patch, provenance) for provenance, patches in answers for patch in patches]
            candidates = [c for c in (*found.values(), *contributed) if isinstance(c.patch, Patch)]
            said = {provenance.plugin: patches for provenance, patches in answers}
            self.plugins.admit_concerned(candidates)
            self.plugins.notify("after_collect", plugins=self.plugins, answers=said, candidates=candidates)
            owners = {c.patch.name: c.provenance for c in contributed if c.is_named_after_its_plugin}
            for candidate in contributed:
                self._take(found, candidate, owners)
            self._candidates = list(found.values())
        return self._candidates

    def _notify_after_apply(self, report: Report, names: Container[str]) -> None:
        """Call the hook ``after_apply`` for the patches that have ``names``."""
        for record in report.patches if self.plugins.implements("after_apply") else ():
            if record.name in names:
                self._notified.add(record.name)
                self.plugins.notify("after_apply", patch=self._entries[record.name].patch, outcome=record)

    def _note_not_counted(self, application: Application) -> None:
        note = f"{application}: calls are not counted, because a Patcher that does not count has applied it before"
        if note not in self._notes:
            self._notes.append(note)

    def _final_answer(self, entry: PlannedPatch, plan: Plan) -> Union[Skip, Wait, None]:
        """Return the answer to the hook ``before_apply`` right before the patch is applied, and keep a veto."""
        with self._lock:
            self._proceeding.discard(entry.patch.name)  # what comes from now on is meant for this wait
        answer = self._answer(entry, plan, planning=False)
        if isinstance(answer, Skip):
            self._vetoes[entry.patch.name] = answer.reason
        return answer

    def _answer(self, entry: PlannedPatch, plan: Plan, *, planning: bool) -> Union[Skip, Wait, None]:
        """Call the hook ``before_apply``; return the first answer. The reason of a veto has the plugin that vetoes."""
        context = Context(entry.provenance, self.settings, plan, self)
        asked = {"patch": entry.patch, "context": context, "planning": planning}
        kinds, expected = (Skip, Wait), "None, Skip('why') or Wait('why')"
        who, answer = self.plugins.decide("before_apply", lambda found: isinstance(found, kinds), expected, **asked)
        found: Union[Skip, Wait, None] = answer
        return Skip(f"vetoed by {who}: {found.reason}") if isinstance(found, Skip) else found

    def _refuse(self, entries: Iterable[PlannedPatch]) -> None:
        """Raise :class:`PatchError` if a planned patch already violates the policy. Nothing has been written yet."""
        self._refuse_problems()
        strict = self.settings.on_failure == "raise"
        remarked = strict and self.plugins.implements("remarks")
        for entry in entries:
            if entry.verdict == APPLY:
                if remarked:
                    self._refuse_findings(entry)
            elif (
                entry.verdict != OFF
                and entry.reason != WAITS
                and (entry.patch.required or (entry.verdict == FAILED and strict))
            ):
                raise PatchError(f"patch {entry.patch.name} ({entry.provenance}) cannot be applied: {entry.reason}")

    def _refuse_findings(self, entry: PlannedPatch) -> None:
        remarks = self.plugins.remarks(entry, thorough=True, environment=self._environment)
        found = [remark for remark in remarks if remark.finding and remark.level >= _WARNING]
        if found:
            texts, advice = (dict.fromkeys(filter(None, each)) for each in zip(*((r.text, r.advice) for r in found)))
            raise PatchError(
                f"patch {entry.patch.name} ({entry.provenance}) cannot be applied: {'; '.join(texts)}. "
                f"{', or '.join([*advice, 'leave it out'])} with --disable {entry.patch.name}"
            )

    def _remarks_on_plan(self, plan: Plan, entry: PlannedPatch) -> list[Remark]:
        if entry.verdict != APPLY:
            return []
        pairs = zip(entry.patch.changes, entry.targets)
        find_home, is_product = self.plugins.find_home, lambda value: bool(ENGINE.journal.behind(value))
        found = alias_remarks(pairs, find_home, is_product, functools.partial(_unordered, plan, entry))
        return found + self.plugins.remarks(entry, thorough=True, environment=self._environment)

    def _refuse_problems(self) -> None:
        if self.plugins.problems and self.settings.on_failure == "raise":
            raise PatchError("; ".join(map(str, self.plugins.problems)))

    def _give_up(self, failure: PatchError) -> None:
        """Revert all patches and keep ``failure``, which an apply in another thread then raises."""
        with self._lock:
            self._failure = failure
            failure.report = self._revert()
        self._notify_after_apply(failure.report, self._notified.copy())

    def _choose(self, enable: Sequence[Name], disable: Sequence[Name]) -> None:
        strength = max((choice.strength or 0 for choice in self.settings.choices), default=0) + 1
        said = ((True, "enable=", enable), (False, "disable=", disable))
        choices = (Choice(on, str(name), origin, strength) for on, origin, names in said for name in names)
        self.settings = self.settings._replace(choices=(*self.settings.choices, *choices))

    def _take(
        self, found: dict[str, Candidate], candidate: Candidate, owners: Optional[Mapping[str, Provenance]] = None
    ) -> None:
        """Add ``candidate`` to ``found``. If another plugin already uses the name, it gets a longer name.

        Args:
            found: by name.
            candidate: the candidate; it is added under another name if its own is taken.
            owners: the plugins that have the best claim to a name, by that.
        """
        patch, provenance = candidate
        owner = owners.get(str(patch), provenance) if owners and isinstance(patch, Patch) else provenance
        if isinstance(patch, Patch) and patch.name not in found and owner == provenance:
            # the user's: an unknown one is not the plugin's failure
            options = self.settings.options_of(patch) if self.settings.options else {}
            found[patch.name] = Candidate(patch.with_options(options) if options else patch, provenance)
            return
        if isinstance(patch, Patch):
            taken = found[patch.name].provenance if patch.name in found else owner
            other = f"{patch.name}+{re.sub(r'[^a-zA-Z0-9_.-]', '_', provenance.plugin)}"
            instead = ""
            if taken != provenance and other not in found:
                found[other] = Candidate(patch.evolve(name=other), provenance)
                instead = f", so this patch is now called {other!r}"
            error = DeclarationError(
                f"the patch name {patch.name!r} is already used by {taken}{instead}; rename one of the patches"
            )
        else:
            error = DeclarationError(f"expected a Patch, got {shown(patch)}")
        if candidate in self._own or provenance is LOCAL_PROVENANCE:
            raise error
        self.plugins.note(provenance, "register_patches", error)

    def _report(self, places: Mapping[int, Sequence[str]]) -> Report:
        remarked = self.plugins.implements("remarks")
        covered = self._covered()
        remarks = [(entry, self._remarks(entry) if remarked else ()) for entry in self._entries.values()]
        records = tuple([self._record(e, places, (*texts, *covered.get(e.patch.name, ()))) for e, texts in remarks])
        sections = self.plugins.sections()
        return Report(records, tuple(self.plugins.problems), tuple(self._notes), describe_process(), sections)

    def _record(self, entry: PlannedPatch, places: Mapping[int, Sequence[str]], told: tuple[str, ...]) -> PatchRecord:
        name = entry.patch.name
        return record_of(
            entry,
            self._applications.get(name),
            veto=self._vetoes.get(name),
            applied=self.applied,
            counted=self.settings.count,
            places=places,
            remarks=told,
        )

    def _covered(self) -> dict[str, list[str]]:
        """Return remarks by patch on its targets that a later patch, of any Patcher, or other code has replaced."""
        covered, overwritten = ENGINE.journal.covered(), ENGINE.journal.overwritten()
        if not covered and not overwritten:
            return {}
        applied = {id(a): n for n, a in self._applications.items() if a.status == APPLIED}
        remarks: dict[str, list[str]] = {}
        for owner, found in covered.items():
            for record, cover, layer in found if owner in applied else ():
                text = covered_by(record.slot.name, layer.owner.patch.name, cover.slot.name)
                remarks.setdefault(applied[owner], []).append(text)
        for record, value in overwritten:
            for owner in {id(layer.owner) for layer in record.layers} & applied.keys():
                text = f"{record.slot.name} holds {describe(value)} now, which other code has put there"
                if isinstance(record.slot, BodySlot) and value is record.slot.body.original:
                    text = (
                        f"{record.slot.name} was edited: the patch is not called until it is reverted and applied again"
                    )
                remarks.setdefault(applied[owner], []).append(text)
        return remarks

    def _remarks(self, entry: PlannedPatch) -> tuple[str, ...]:
        """Return the remarks of plugins on a patch that was applied, or skipped when it was to write.

        The hook is called, and the remarks are logged, once.
        """
        name = entry.patch.name
        application = self._applications.get(name)
        if application is not None and name not in self._remarked and application.status in (APPLIED, SKIPPED):
            found = self.plugins.remarks(entry, thorough=False, environment=self._environment)
            remarks = [remark for remark in found if remark.text]
            self._remarked[name] = tuple(remark.text for remark in remarks)
            for remark in remarks if remarks and not process_rank() else ():
                logger().log(remark.level, "patch %s (%s): %s", name, entry.provenance, remark.text)
        return self._remarked.get(name, ())

    def _log(self, report: Report, tried: Container[str]) -> None:
        """Log notes, failures and the summary of ``report``; a failure that the engine has logged is not repeated."""
        for note in report.notes:
            logger().warning("%s", note)
        for record in report.with_status(FAILED):
            self._remember(record)
            if record.name in tried and record.name not in self._applications:
                message = f"patch {record.name} [{record.origin}]: {record.reason}"
                self._log_failure(record.name, message, self.settings.on_failure)
        self._show_problems()
        if logger().isEnabledFor(_INFO) and not process_rank():
            logger().info("%s", report.summary())

    def _remember(self, record: PatchRecord) -> None:
        """Keep the record of a patch that failed, for the reports of the process."""
        if not self.has_own_report:
            FAILURES[self.made, record.name] = record

    def _log_failure(self, name: str, message: str, policy: str) -> None:
        """Log that patch ``name`` failed. Under the policy ``warn`` there is nothing else that a user would see."""
        logger().log(_LEVELS[policy], "%s", message)
        if policy == "warn":
            show_failure(name, message)

    def _show_problems(self) -> None:
        for problem in self.plugins.problems if self.settings.on_failure == "warn" else ():
            show_failure(f"plugin {problem.plugin}", str(problem))  # the log has them, with their tracebacks


def apply(
    *,
    plugins: Optional[Sequence[str]] = None,
    enable: Union[Name, Sequence[Name]] = (),
    disable: Union[Name, Sequence[Name]] = (),
    strict: bool = False,
    patches: Iterable[Patch] = (),
    count: bool = False,
) -> Patcher:
    """Discover the installed plugins and apply their patches; return the Patcher.

    On its own it stays applied; ``with patchcore.apply():`` restores everything at the end of the block. Arguments and
    exceptions are those of :meth:`Patcher.discover` and :meth:`Patcher.apply`.

    Examples:
        >>> import patchcore as pc
        >>> with pc.apply(plugins=[]) as patcher:  # no installed plugin: nothing but the built-in ones
        ...     patcher.report().summary()
        'no patches'
    """
    patcher = Patcher.discover(
        plugins=plugins, enable=enable, disable=disable, strict=strict, patches=patches, count=count
    )
    patcher.apply()
    return patcher


def configure(arguments: Any) -> None:
    """Choose patches by the arguments that the program has parsed: ``when=`` functions of one parameter get them.

    Every Patcher that is applied plans again: see :meth:`Patcher.replan`. A program calls this once it has its
    arguments, and again when they change; so does a patch that wraps the parser of the program. Until then, patches
    with such a ``when`` wait. A process that is started by spawn parses its arguments itself, and calls this itself.

    Args:
        arguments: any object, an ``argparse.Namespace`` for example; ``None`` takes it back.

    Raises:
        PatchError: see :meth:`Patcher.apply`.

    Examples:
        >>> import argparse, statistics
        >>> import patchcore as pc
        >>> fast = pc.Patch("demo.mean", pc.Replace("statistics:mean", min), when=lambda arguments: arguments.fast)
        >>> with pc.Patcher([fast]):
        ...     pc.configure(argparse.Namespace(fast=True))
        ...     print(statistics.mean([1, 3]))
        ...     pc.configure(None)
        1
    """
    PROGRAM.arguments = arguments
    for patcher in [each for each in PATCHERS if each.applied]:
        patcher.replan()


def original(target: Union[str, Target]) -> Any:
    """Return the object that was at a target before all patches, so that it can be called without them.

    A wrapper gets the original as its first argument; other code that needs the original calls this function. A name
    that was bound to the original before the patch does not help: it may be rebound, or its body is patched.

    Args:
        target: ``package.module:Class.attribute``; its module is imported.

    Returns:
        The original object, or the present one if nothing is patched. For a static or class method or a property, the
        function inside it, which takes ``cls`` or ``self``.

    Examples:
        >>> import statistics
        >>> from patchcore import Patch, Patcher, Replace, original
        >>> patch = Patch("demo.mean", changes=Replace("statistics:mean", lambda data: 0))
        >>> with Patcher([patch]):
        ...     statistics.mean([1, 3]), original("statistics:mean")([1, 3])
        (0, 2)

    Raises:
        DeclarationError: the target is malformed.
        TargetNotFound: a step of it does not exist; the message has the nearest name that does.
        ImportError: its module cannot be imported.
    """
    found = (target if isinstance(target, Target) else Target.parse(target)).pin()
    with using(Extensions(tables=ENGINE.tables)):
        slot = find_slot(found, importlib.import_module(found.module))
    return wrapped_callable(ENGINE.journal.original(slot))


def _unordered(plan: Plan, entry: PlannedPatch) -> Iterator[tuple[str, Target]]:
    """Yield the targets of applied patches that declare no order to the patch of ``entry``, with their names."""
    for other in plan:
        if other.verdict == APPLY and other is not entry and not entry.patch.stacks_with(other.patch):
            changes = zip(other.patch.changes, other.targets)
            yield from ((other.patch.name, target) for change, target in changes if isinstance(change, SlotChange))


def _listed(names: Union[Name, Sequence[Name]]) -> Sequence[Name]:
    return (names,) if isinstance(names, (str, Patch)) else names
