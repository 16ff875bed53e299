"""The engine: puts patches in force, now or when their modules are imported, whole or not at all.

One engine serves the process, because slots are global: two Patchers of one process must see each other's writes. A
Patcher calls :meth:`Engine.acquire`, which returns an :class:`~patchcore.engine.application.Application`;
:meth:`Engine.advance`, which writes the changes whose modules are loaded; :meth:`Engine.rebind`, which binds names that
hold an original by value; and :meth:`Engine.release`. The :class:`~patchcore.engine.importing.ImportWatch` calls the
engine when a module that a change waits for has been executed, and the engine then advances the applications in the
order in which they were acquired.

A :class:`~patchcore.engine.writers.Writer` makes the edits of each kind of change and enters them in the
:class:`~patchcore.engine.journal.Journal`. If a change fails, the journal removes the layers of its application. An
application lives until the last Patcher that holds it releases it. Code of others (imports of replacements, factories,
legacy functions) never runs while the journal's lock is held: it could wait for another thread that needs the lock.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from threading import local
from types import ModuleType
from typing import Any, Callable, Optional, Protocol, TypeVar

from patchcore.declare.changes import SlotChange, Wait, resolve
from patchcore.declare.patch import Patch
from patchcore.declare.target import Target
from patchcore.engine.application import Application, ChangeState, Holder
from patchcore.engine.context import WriteContext, Writer
from patchcore.engine.events import tell
from patchcore.engine.importing import ImportWatch, loaded_here
from patchcore.engine.journal import Journal
from patchcore.engine.rebinding import Modules, Moves, Rebinder
from patchcore.engine.writers import WriterFactory, writer_of
from patchcore.errors import PatchError, TargetNotFound, describe_error, did_you_mean
from patchcore.objects.extensions import NONE, Extensions, using
from patchcore.objects.lazy import lazy_home
from patchcore.objects.modules import (
    attribute,
    executed_module,
    is_lazy,
    is_stub,
    missing_ancestor,
    namespace_of,
    submodule_names,
)
from patchcore.planning.provenance import Provenance
from patchcore.report import APPLIED, FAILED, PENDING, REVERTED, SKIPPED

__all__ = ["ENGINE", "Engine", "ImportWitness"]

_T = TypeVar("_T")


class ImportWitness(Protocol):
    """An object that is called for each import while it looks for the edits of a function that patches by hand."""

    def add(self, name: str, module: ModuleType) -> None:
        """Called right after the body of a module has run, before patches are applied in it."""


class Engine:
    """Applies and releases patches in this process.

    :attr:`journal`, :attr:`rebinder`, :attr:`watch` and :attr:`witnesses` are for writers.
    """

    def __init__(self) -> None:
        self.journal = Journal()
        # One lock for both: a layer in the journal and the state of its application must change together, and with two
        # locks every path would have to take them in one order.
        self._lock = self.journal.lock
        self.rebinder = Rebinder(self.journal)
        self.watch = ImportWatch(self._imported, self._overtaken)
        self._active: dict[str, list[Application]] = {}  # by patch name
        # By module, in the order in which patches were applied. An application stays here when its changes are written:
        # importlib.reload() runs the body of the module again, and the changes must then be written again.
        self._waiting: defaultdict[str, dict[Application, None]] = defaultdict(dict)
        # The same, but only applications that still have to write in the module. Two threads may advance them at once,
        # one after the import and one in Patcher.apply(); patches of one slot must still stack in this order.
        self._queues: defaultdict[str, dict[Application, None]] = defaultdict(dict)
        self._advancing = local()  # the applications this thread is advancing, and which to go over again
        self._keeping: defaultdict[str, dict[Application, None]] = defaultdict(dict)  # by module with names to keep
        self._executed: dict[str, ModuleType] = {}  # bodies that have run inside imports that have not returned yet
        self.witnesses: list[ImportWitness] = []
        self._writers: dict[WriterFactory, Writer] = {}  # one of each factory, for all plugins that bring it
        self._missed = False  # true if _imported has left an import to _sweep_missed

    def after_fork(self) -> None:
        """Take locks back that other threads of the parent held when this process was forked."""
        self.journal.after_fork()
        self._lock = self.journal.lock
        self.watch.after_fork()

    @property
    def active(self) -> list[str]:
        """The names of the patches that are in force or wait for an import."""
        return list(self._active)

    def applications(self) -> list[Application]:
        """Return the applications that are in force or wait for an import. Callers hold the lock."""
        return [application for active in self._active.values() for application in active]

    @property
    def tables(self) -> list[str]:
        """The attributes in which registries keep their entries, for some patch that is in force or waits."""
        with self._lock:
            applications = self.applications()
        return [table for application in applications for table in application.extensions.tables]

    def acquire(
        self,
        patch: Patch,
        targets: Sequence[Target],
        provenance: Provenance,
        holder: Holder,
        *,
        shared: bool = True,
        counting: bool = False,
        extensions: Extensions = NONE,
        wait: Optional[Wait] = None,
    ) -> Application:
        """Activate ``patch`` on behalf of ``holder``. Nothing is written yet: :meth:`advance` does that.

        Args:
            patch: the patch; an application of the same patch that is in force is shared, not stacked.
            targets: the target of each change, with its module.
            provenance: who contributes the patch.
            holder: its methods are called after later imports; it gives the application back with :meth:`release`.
            shared: false for an application that only this holder uses.
            counting: count the calls of its targets; an application that is in force already does not change.
            extensions: the extensions of the holder's plugins; an application that is in force already keeps its own.
            wait: write nothing before :meth:`proceed`, unless another holder need not wait.
        """
        with self._lock:
            application = self._in_force(patch, provenance) if shared else None
            if application is None:
                application = Application(
                    patch, targets, provenance, shared=shared, counting=counting, extensions=extensions, wait=wait
                )
                # The holder is entered before the application is: a Patcher that Ctrl-C interrupts here looks up all
                # applications that it holds, and releases them. An application without a holder would stay for ever.
                application.holders.append(holder)
                # A new list in one assignment, because an interrupt may come between any two statements.
                self._active[patch.name] = [*self._active.get(patch.name, ()), application]
                for name in application.modules:
                    self.expect(name, application)
                for name in application.keeps:
                    self._keeping[name][application] = None
                    self.watch.watch(name, application)
            elif holder not in application.holders:
                application.holders.append(holder)
                if application.waits and wait is not None:
                    application.waits += (wait,)
        # Another thread may have begun such an import before the watch knew of it, and has found the module's loader
        # already. The watch cannot stand in for that loader, so the end of the import is the only chance to patch.
        self._join((*application.expects, *application.keeps))
        if wait is None:  # another holder may have had to wait
            _end_waits([application])
        elif not application.waits and wait.ended is not None:
            wait.ended()
        return application

    def proceed(self, applications: Sequence[Application]) -> None:
        """Go on with applications that wait, in this order; the others stay as they are."""
        waiting = [application for application in applications if application.waits]
        _end_waits(waiting)
        if self.journal.is_busy:  # a signal handler calls in the middle of an operation
            self._missed = True
            return
        moves = Moves(loaded=loaded_here())
        for application in waiting:
            self.advance(application, moves)
        self.rebind(moves)

    @property
    def locks(self) -> tuple[Any, ...]:
        """The locks that are held while something is changed."""
        return self.journal.lock, self.watch.lock

    def writer_packages(self) -> set[str]:
        """The packages, or modules in none, that the writers in use come from."""
        # By the class and not by the factory: a factory may be a function of another module, and `is_reentrant` looks
        # for the frames of the methods.
        modules = (type(writer).__module__ for writer in self._writers.values())
        return {module.rpartition(".")[0] or module for module in modules}

    def held_by(self, holder: Holder) -> list[Application]:
        """Return the applications that ``holder`` holds, the last one first."""
        with self._lock:
            return [a for a in self.applications() if holder in a.holders][::-1]

    def advance(self, application: Application, moves: Moves, holder: Optional[Holder] = None) -> None:
        """Write the changes of ``application`` whose modules have been executed and that are not written there yet.

        Args:
            application: in force; if a change fails, it is undone and ``failed`` of its holders is called.
            moves: the writes are added to it, for :meth:`rebind`.
            holder: the caller; ``completed`` of the other holders is called if the application has become complete.
        """
        if application.waits:
            return
        under_way: dict[Application, bool] = self._advancing.__dict__.setdefault("applications", {})
        if application in under_way:
            # Its own code, such as a factory, imports the module of another change, and the watch calls back. Going on
            # here would write the changes of the patch within each other, so the loop below goes round once more.
            under_way[application] = True
            return
        state = None
        try:
            under_way[application] = True
            while under_way[application]:
                under_way[application] = False
                for state in application.states:
                    if state.awaits is None and state.is_open and application.in_force:
                        self._write(application, state, None, moves)
                for name in application.modules:
                    module = self._module(name)
                    if module is not None:
                        self._let_precede(application, name, moves)
                    for state in application.states:
                        if state.awaits != name or not application.in_force:
                            continue
                        if module is None:
                            self.check_findable(application, name, moves.found)
                        elif state.written_in is not module and not self.defers(application, state):
                            if self._follow_lazy(application, state, module):
                                under_way[application] = True  # its module may be loaded
                            else:
                                self._write(application, state, module, moves)
                    if module is not None:
                        self._leave_queue(application, name, module)
        except Exception as error:
            if self.journal.records_of(application):
                # Names that somebody imported from where a replacement is defined would else be taken for names that
                # took it from the patched slot, and undoing the patch would bind them to the original.
                self.rebinder.rebind(moves)
            # `fail` returns False if the application was ended already, by another thread or by an import within this
            # advance, which has reported why. The error here is a consequence of that, unless it is the PatchError of
            # another patch: that one must end the apply.
            if not self.fail(application, state, error) and isinstance(error, PatchError):
                raise
            return
        finally:
            under_way.pop(application, None)
        self.announce(application, holder)
        self._sweep_missed()

    def _follow_lazy(self, application: Application, state: ChangeState, module: ModuleType) -> bool:
        """True if the target is a name that its module provides lazily; wait for the module that defines it."""
        first = state.target.path[0] if state.target.path and isinstance(state.change, SlotChange) else None
        if type(first) is not str or first in (namespace_of(module) or {}):
            return False
        home = lazy_home(state.target.module, module, first)
        if home is None or home in state.followed:
            return False
        state.followed += (state.target.module,)
        state.target = Target(home, state.target.path)
        state.awaits = home
        with self._lock:
            application.modules = tuple(dict.fromkeys([each.awaits for each in application.states if each.awaits]))
            self.expect(home, application)
        self._join([home])
        return True

    def announce(self, application: Application, holder: Optional[Holder] = None) -> None:
        """Call ``completed`` of the holders of ``application``, except ``holder``, when its last change is written."""
        with self._lock:
            if application.announced or application.status != APPLIED:
                return
            application.announced = True
            holders = list(application.holders)
        # Without the lock: a holder calls hooks of plugins, which may import modules or wait for other threads.
        tell(APPLIED, application.patch.name)
        for other in holders:
            if other is not holder:
                other.completed(application)

    def rebind(self, moves: Moves, waiting: Iterable[Application] = ()) -> None:
        """Bind by-value references to the replacements; see :meth:`patchcore.engine.rebinding.Rebinder.rebind`."""
        # first, because such an import may end during the rebinding below and take the replacement from its slot
        self.watch.join_elsewhere(
            lambda _, __, fresh: self.rebinder.rebind(Moves(m._replace(first=False) for m in moves), fresh)
        )
        self.rebinder.rebind(moves, waiting=waiting)

    def release(self, applications: Iterable[Application], holder: Holder) -> list[str]:
        """End the hold of ``holder`` on ``applications``; those without another holder are undone, last applied first.

        Returns notes on slots where other code had written on top of a patch.
        """
        held = [application for application in applications if holder in application.holders]
        notes = _to_the_end(lambda: self._release(held, holder))
        _end_waits([application for application in held if application.ended])
        self._sweep_missed()
        return notes

    def _release(self, applications: Sequence[Application], holder: Holder) -> list[str]:
        """Release; may be called again if it was interrupted: the holder is removed after everything else is done."""
        with self._lock:
            ending = [a for a in applications if a.in_force and all(other is holder for other in a.holders)]
            notes = self._undo(ending)
            for application in ending:
                for state in application.states:
                    if state.status in (APPLIED, PENDING):
                        state.reason = "its module was never imported" if state.status == PENDING else ""
                        state.status = REVERTED
                application.ended = True
                tell(REVERTED, application.patch.name)
            for application in applications:
                application.holders[:] = [other for other in application.holders if other is not holder]
        return notes

    def sweep(self, applications: Iterable[Application]) -> None:
        """Write changes whose modules were imported without the watch seeing it, and note that it was late."""
        moves = Moves()
        for application in applications:
            if application.waits or application.status != PENDING:
                continue
            if not any(map(self._module, application.awaited)) and not any(s.is_open for s in application.states):
                continue
            for state in application.states:
                missed = state.missed
                if missed:
                    state.late = missed
                    if state.control is not None:
                        state.control.catch_up(state.target.module, sys.modules[state.target.module])
            self.advance(application, moves)
        self.rebind(moves)

    def _sweep_missed(self) -> None:
        """Apply pending patches to modules that a signal handler imported while the journal was busy."""
        if self._missed and not self.journal.is_busy:
            self._missed = False
            with self._lock:
                applications = self.applications()
            self.sweep(applications)

    def _in_force(self, patch: Patch, provenance: Provenance) -> Optional[Application]:
        for application in self._active.get(patch.name, ()):
            same_plugin = provenance.distribution is not None and provenance == application.provenance
            # some plugins make new patches for each Patcher, from its settings
            made_anew = same_plugin and patch.options == application.patch.options
            if application.shared and (application.patch is patch or made_anew or application.patch == patch):
                return application
        return None

    def _let_precede(self, application: Application, name: str, moves: Moves) -> None:
        """Keep the order of the queue of module ``name``: advance the applications that waited earlier first.

        Another thread may not have advanced them yet.
        """
        with self._lock:
            queue = self._queues.get(name, {})
            if application not in queue or next(iter(queue)) is application:
                return
            earlier = list(itertools.takewhile(lambda other: other is not application, queue))
        for other in earlier:
            self.advance(other, moves)

    def _leave_queue(self, application: Application, name: str, module: ModuleType) -> None:
        """Remove ``application`` from the queue of module ``name`` if all of its changes in it are written."""
        with self._lock:
            for state in application.states:
                if state.awaits == name and state.written_in is not module:
                    return
            self._queues.get(name, {}).pop(application, None)

    def expect(self, name: str, application: Application) -> None:
        """Advance ``application`` each time module ``name`` is executed. Callers hold the lock."""
        application.expects.append(name)
        self._waiting[name][application] = None
        self._queues[name][application] = None
        self.watch.watch(name, self)

    def _join(self, names: Iterable[str]) -> None:
        """Join imports that have begun, after an application began to wait for them and before the check that they end.

        Without the journal's lock: importlib may make this wait for a finder of another thread.
        """
        for name in list(names):
            self.watch.join(name, self._ended)

    def _forget(self, application: Application) -> None:
        """Remove ``application`` from all queues; may be called again if it was interrupted."""
        active = [other for other in self._active.get(application.patch.name, ()) if other is not application]
        if active:
            self._active[application.patch.name] = active
        else:
            self._active.pop(application.patch.name, None)
        for name in application.keeps:
            self.watch.unwatch(name, application)
            self._keeping.get(name, {}).pop(application, None)
            if not self._keeping.get(name):
                self._keeping.pop(name, None)
        for name in application.expects:
            for table in (self._waiting, self._queues):
                table.get(name, {}).pop(application, None)
            if not self._waiting.get(name):
                self.watch.unwatch(name, self)
                self._waiting.pop(name, None)
                self._queues.pop(name, None)
        self.watch.leave_roots(application)
        application.expects.clear()

    def _imported(self, name: str, module: ModuleType, fresh: Modules) -> None:
        for witness in list(self.witnesses):
            witness.add(name, module)
        if self.journal.is_busy:  # a signal handler imports in the middle of an operation
            self._missed = True
            return
        with self._lock:
            waiting = list(self._waiting.get(name, ()))
            self._renew(name, module, waiting)
        moves = Moves(loaded=loaded_here())
        try:
            # `executed_module` would not return it: importlib resets `__spec__._initializing` only after the loader has
            # returned (`_load_unlocked` in importlib/_bootstrap.py), and this is called by the loader.
            self._executed[name] = module
            for application in waiting:
                self.advance(application, moves)
        finally:
            self._executed.pop(name, None)
        # An object that this module defines can only be in modules that ran meanwhile, so the others are not searched.
        # A training program has thousands of modules, and each import of a patched one would search them all.
        local = {id(move) for move in moves if attribute(move.old, "__module__") == name}
        for modules in (fresh, None):  # any module may hold an object that was defined elsewhere
            some = [move for move in moves if (id(move) in local) is (modules is fresh)]
            if some:
                self.rebinder.rebind(Moves(some, loaded=moves.loaded), modules)
        self._keep_names(name, module)

    def _ended(self, name: str, module: ModuleType) -> None:
        """Write the changes that wait for module ``name``, whose import had begun before it was watched."""
        with self._lock:
            waiting = list(self._waiting.get(name, ()))
            if any(record.slot.owner is module and record.slot.read() is not record.top for record in self.journal):
                self._renew(name, module, waiting)  # it was a reload
        moves = Moves(loaded=loaded_here())
        for application in waiting:
            self.advance(application, moves)
        self.rebinder.rebind(moves)
        self._keep_names(name, module)

    def _keep_names(self, name: str, module: ModuleType) -> None:
        """Bind the names in module ``name`` that patches keep, and that were bound just now, to the original."""
        for application in list(self._keeping.get(name, ())):
            if application.in_force:
                self.rebinder.keep(application, name, module)

    def _overtaken(self) -> None:
        """Patch modules whose import a finder in front of the watch has hidden: now, or when the import ends."""
        with self._lock:
            applications = self.applications()
            names = list(self._waiting)
        self._join(names)
        for state in (state for application in applications for state in application.states):
            control = state.control
            if control is not None and state.status == PENDING:
                self.watch.join(state.target.module, control.catch_up)
        self.sweep(applications)

    def _renew(self, name: str, module: ModuleType, waiting: Iterable[Application]) -> None:
        """Mark the changes of module ``name`` as not written: its body has run again, in a reload or a new module."""
        states = [s for a in waiting for s in a.states if s.target.module == name and s.written_in is not None]
        written = [state for state in states if state.written_in is module]
        if written:
            self.journal.renew(module, self.rebinder.origin)
            self.rebinder.retire()
        # no other reference to the old modules may stand here: forget_unused counts the references
        spaces = list({id(s.written_in): namespace_of(s.written_in) for s in states if s not in written}.values())
        for state in states:
            state.written_in = None
        if spaces:
            self.rebinder.forget_unused(name, module, spaces)

    def _module(self, name: str) -> Optional[ModuleType]:
        """Return module ``name`` when its body has run, else ``None``."""
        return self._executed.get(name) or executed_module(name)

    @contextlib.contextmanager
    def telling(self, witness: ImportWitness) -> Iterator[None]:
        """Call ``witness`` for every watched module that is imported inside the block."""
        try:
            self.witnesses.append(witness)
            yield
        finally:
            self.witnesses[:] = [other for other in self.witnesses if other is not witness]

    def _write(self, application: Application, state: ChangeState, module: Optional[ModuleType], moves: Moves) -> None:
        extensions, kind = application.extensions, type(state.change)
        extensions.load(lambda function: resolve(Target.parse(function)) if isinstance(function, str) else function)
        writer = extensions.writers_in_use.get(kind)
        if writer is None:
            factory = writer_of(kind, extensions.writers)
            # Plugins are loaded once for each Patcher, and each brings the same factory: a writer may keep state on the
            # changes of the process, so there is one of each factory and not one for each Patcher.
            writer = extensions.writers_in_use[kind] = self._writers.get(factory) or factory(self)
            self._writers[factory] = writer
        with using(extensions):
            writer.write(WriteContext(self.journal, self.rebinder, application, state, module, moves))
        if not isinstance(state.change, SlotChange):  # it may have made modules importable
            moves.found.clear()

    def check_findable(self, application: Application, name: str, found: Optional[set[str]] = None) -> None:
        """Raise an error if module ``name`` can never be imported; wait for its parent if that may still provide it.

        ``found`` has the modules that are known to exist; those that are found now are added.
        """
        missing = None if name in sys.modules else missing_ancestor(name, found)
        if missing is None or is_stub(missing):
            return
        parent = missing.rpartition(".")[0]
        if parent and self._module(parent) is None:
            with self._lock:
                if parent not in application.expects:
                    self.expect(parent, application)
            self._join([parent])
            return
        if not parent:
            raise TargetNotFound(f"no module named {missing!r} is installed; install it, or --disable {application}")
        raise TargetNotFound(f"{parent} has no module {missing!r}{did_you_mean(missing, submodule_names(parent))}")

    def defers(self, application: Application, state: ChangeState) -> bool:
        """True if the replacement's module is still being imported; subscribe to the end of that import.

        That module may import the target's library itself, before the statement that defines the replacement.
        """
        source = state.change.source
        name = source.module if type(source) is Target else None
        if name not in sys.modules or is_lazy(sys.modules[name]) or self._module(name) is not None:
            return False
        with self._lock:
            if application.in_force and name not in application.expects:
                self.expect(name, application)
            state.defers_to = name
        self._join([name])
        return self._module(name) is None  # it has not ended meanwhile

    def fail(self, application: Application, state: Optional[ChangeState], error: Exception) -> bool:
        """Undo the application and call its holders; return False if it was not in force any more."""
        with self._lock:
            if not application.in_force:
                return False
            _to_the_end(lambda: self._end_failed(application, state, error))
            holders = list(application.holders)
        # Without the lock, as in `announce`: a holder reverts its other patches, logs and calls hooks.
        tell(FAILED, application.patch.name, describe_error(error))
        refusal = None
        for holder in holders:
            try:
                holder.failed(application)
            except Exception as raised:  # the other holders are called too
                refusal = refusal or raised
        if refusal is not None:
            raise refusal
        return True

    def _end_failed(self, application: Application, state: Optional[ChangeState], error: Exception) -> None:
        self._undo([application])
        because = f" because {state.change} failed" if state is not None else ""
        for other in application.states:
            if other is state:
                other.status, other.reason = FAILED, describe_error(error)
            elif other.status == APPLIED:
                other.status, other.reason = REVERTED, f"undone{because}"
            elif other.status == PENDING:
                other.status, other.reason = SKIPPED, f"not tried{because}"
            other.rebound, other.kept = (), ()
        application.error = error

    def _undo(self, applications: Sequence[Application]) -> list[str]:
        """Undo the writes of ``applications`` and forget them; may be called again if it was interrupted."""
        # First, because withdraw() undoes writes that an interrupted operation of the journal had adopted: undone
        # later, that operation would put them back.
        self.journal.recover()
        notes = [note for application in applications for state in application.states for note in state.withdraw()]
        notes += self.journal.remove(applications, self.rebinder.origin)
        self.rebinder.retire()
        for application in applications:
            self._forget(application)
        if not self._active:
            self.rebinder.forget()
        return notes


def _end_waits(applications: Iterable[Application]) -> None:
    """Let applications wait no more, and call ``ended`` of each wait, without a lock: it is code of others."""
    for application in applications:
        waits, application.waits = application.waits, ()
        for wait in waits:
            if wait.ended is not None:
                wait.ended()


def _to_the_end(operation: Callable[[], _T]) -> _T:
    """Call ``operation``; if a Ctrl-C or a signal handler interrupts it, finish it first and raise after that."""
    try:
        return operation()
    except BaseException:
        # The operations are written so that each step does only the work that is left: a second call finishes the
        # first.
        operation()
        raise


#: The engine of this process.
ENGINE = Engine()
# A fork copies a lock in the state that it has, but only the thread that forks (Python docs, ``os.fork``). A lock that
# another thread holds in that moment would stay locked in the child for ever. Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ENGINE.after_fork)
