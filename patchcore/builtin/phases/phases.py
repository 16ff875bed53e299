"""The phases of this process: which patches wait for which phase, and which phases are reached.

State belongs to the process, since a program reaches a phase once for all Patchers. A child that is forked inherits it;
one that is spawned begins without any phase reached, and reaches its phases itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union
from weakref import WeakKeyDictionary, ref

from patchcore.declare.changes import Skip, Wait
from patchcore.declare.patch import Patch
from patchcore.engine.engine import ENGINE
from patchcore.errors import DeclarationError, UnknownName, did_you_mean
from patchcore.objects.modules import executed_module
from patchcore.planning.conditions import APPLY
from patchcore.planning.plan import Context, Plan, PlannedPatch
from patchcore.report import Remark

if TYPE_CHECKING:
    from patchcore.planning.candidates import Candidate

__all__ = ["PHASES", "Phases", "reach"]

_BEFORE, _AFTER = "before:", "after:"
_WARNING = 30


class _Names(NamedTuple):
    """The phases that the plugins of a Patcher name.

    Args:
        lists: the phases that each plugin names, in its order.
        complete: false if a plugin is not loaded, so that phases may be missing.
    """

    lists: tuple[tuple[str, ...], ...]
    complete: bool


class _Door:
    """A window around the body of a module: opening or closing it reaches a phase, for patches that wait for that.

    The import watch has it as long as a patch waits for it.
    """

    def __init__(self, phase: str, module: str) -> None:
        self.phase = phase
        self.module = module
        self.waiting: dict[object, None] = {}  # a key for each patch that waits

    def open(self) -> None:
        """The body of the module is about to run."""
        if self.phase.startswith(_BEFORE):
            PHASES.reach(self.phase)

    def close(self, *, finished: bool) -> None:
        """The body has run to its end, or it raised."""
        if finished and self.phase.startswith(_AFTER):
            PHASES.reach(self.phase)

    def missed(self, name: str, module: Any) -> None:
        """An import that had begun before this window was there has ended."""
        PHASES.reach(self.phase)


class Phases:
    """The phases that are reached, and the patches that wait for others."""

    def __init__(self) -> None:
        self.lock = RLock()
        self._reached: dict[str, None] = {}
        self._late: dict[str, str] = {}  # by patch: why it comes too late for its phase
        self._names: WeakKeyDictionary[Any, _Names] = WeakKeyDictionary()  # by the plugins of a Patcher
        self._waiting: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()  # by Patcher: patch, phase
        self._doors: dict[str, _Door] = {}
        # Weak: a plan refers to its Patcher.
        self._last: tuple[Optional[ref[Plan]], dict[str, tuple[str, str]]] = (None, {})

    def after_fork(self) -> None:
        """Make a new lock: a thread of the parent may have held the old one."""
        self.lock = RLock()

    @property
    def reached(self) -> list[str]:
        """The phases that are reached, in that order."""
        return list(self._reached)

    def learn(self, plugins: Any, candidates: Sequence[Candidate]) -> None:
        """Keep the phases that plugins name. A patch of an unknown phase is a problem of its plugin.

        Args:
            plugins: the loaded plugins.
            candidates: the patches.
        """
        answers = [(who, tuple(map(str, names))) for who, names in plugins.collect("register_phases")]
        known = _Names(tuple(names for _, names in answers), plugins.complete)
        with self.lock:
            self._names[plugins] = known
        cycle = _cycle(known.lists)
        if cycle:
            who = next(who for who, names in answers if cycle[0] in names)
            plugins.note(
                who, "register_phases", DeclarationError(f"the order of phases is a cycle: {' -> '.join(cycle)}")
            )
        for candidate in candidates:
            reason = _unknown(candidate.patch.phase, known)
            if reason:
                error = DeclarationError(f"patch {candidate.patch.name}: {reason}")
                plugins.note(candidate.provenance, "register_patches", error)

    def decide(self, patch: Patch, context: Context, *, planning: bool) -> Union[Skip, Wait, None]:
        """Return the answer to ``before_apply``: ``None`` once the phase of ``patch`` is reached."""
        patcher = context.patcher
        known = self._names.get(patcher.plugins, _Names((), True))
        reason = _unknown(patch.phase, known)
        if reason:
            return Skip(reason)
        phase, below = self._phase_of(patch, context.plan, known)
        if not phase:
            return None
        key = object()
        with self.lock:
            self._late.pop(patch.name, None)
            if self._is_reached(phase, known):
                module = _module_of(phase)
                if phase.startswith(_BEFORE) and module in sys.modules:
                    self._late[patch.name] = f"{module} was imported before the patch was there"
                return None
            reason = f"waits for phase {phase}{f', as it goes on top of {below}' if below else ''}"
            if planning:
                return Wait(reason)
            self._waiting.setdefault(patcher, {})[patch.name] = phase
            doors = [self._door(name) for name in _up_to(phase, known.lists, later=True) if _module_of(name)]
            for door in doors:
                door.waiting[key] = None
        for door in doors:
            ENGINE.watch.surround(door.module, door)
            ENGINE.watch.join(door.module, door.missed)
        return Wait(reason, ended=partial(self._ended, patcher, patch.name, doors, key))

    def reach(self, name: str) -> None:
        """Reach phase ``name`` and those before it; the patches that wait for them are applied, phase by phase."""
        with self.lock:
            lists = [names for known in list(self._names.values()) for names in known.lists]
            before = [phase for phase in _up_to(name, lists) if phase not in self._reached]
            self._reached.update(dict.fromkeys(before))
            waiting = [(patcher, dict(patches)) for patcher, patches in list(self._waiting.items())]
        # Without the lock: patches are applied, which runs code of others.
        for phase in before:
            for patcher, patches in waiting:
                names = [patch for patch, awaited in patches.items() if awaited == phase]
                if names:
                    patcher.proceed(*names)

    def check(self, name: str) -> None:
        """Raise :class:`UnknownName` if no plugin names phase ``name``, though some name phases and all are loaded."""
        with self.lock:
            known = list(self._names.values())
        if known and all(each.complete for each in known) and all(_unknown(name, each) for each in known):
            raise UnknownName(_unknown(name, known[-1]), name)

    def remarks(self, entry: PlannedPatch) -> list[Remark]:
        """Return that a patch comes late, as the module was imported before the patch could wait for that."""
        late = self._late.get(entry.patch.name)
        return [Remark(f"too late for phase {entry.patch.phase}: {late}", _WARNING, topic="phase")] if late else []

    def _is_reached(self, phase: str, known: _Names) -> bool:
        """Return whether ``phase`` or a later one is reached: by the program, or as its module is imported already."""
        for name in _up_to(phase, known.lists, later=True):
            module = _module_of(name)
            begun = module in sys.modules if name.startswith(_BEFORE) else executed_module(module) is not None
            if name in self._reached or (module and begun):
                return True
        return False

    def _phase_of(self, patch: Patch, plan: Plan, known: _Names) -> tuple[str, str]:
        """Return the phase that ``patch`` waits for, and the patch that it comes from; two empty texts for none.

        A patch on top of another one waits for that one's phase, too: patches stack in the order of the plan.
        """
        with self.lock:
            if self._last[0] is None or self._last[0]() is not plan:
                self._last = ref(plan), _inherited(plan, known.lists)
            return self._last[1].get(patch.name, ("", ""))

    def _door(self, phase: str) -> _Door:
        door = self._doors.get(phase)
        if door is None:
            door = self._doors[phase] = _Door(phase, _module_of(phase))
        return door

    def _ended(self, patcher: Any, name: str, doors: Sequence[_Door], key: object) -> None:
        """Forget that a patch waits: it goes on, or it is reverted."""
        with self.lock:
            self._waiting.get(patcher, {}).pop(name, None)
            for door in doors:
                door.waiting.pop(key, None)
            shut = [door for door in doors if not door.waiting]
            for door in shut:
                self._doors.pop(door.phase, None)
        for door in shut:
            ENGINE.watch.leave(door.module, door)


def reach(name: str) -> None:
    """Reach a phase of the program: patches with ``phase=name`` are applied now, in this and in all later Patchers.

    Phases that a plugin names before this one are reached first. To reach a phase again changes nothing. A forked child
    has the phases of its parent; a spawned one calls this itself. Without a plugin that names phases it is only noted,
    for plugins that are loaded later.

    Args:
        name: ``"worker"``, as a plugin names it with the hook ``register_phases``. The phases ``"before:module"`` and
            ``"after:module"`` are reached by the import of the module; a program may reach them earlier.

    Raises:
        UnknownName: plugins name phases, but not this one; the message has the nearest name.
        PatchError: a patch failed under the policy ``raise``.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> class Plugin:
        ...     @pc.hookimpl
        ...     def register_phases(self):
        ...         return ["shop.open"]
        ...
        ...     @pc.hookimpl
        ...     def register_patches(self):
        ...         return [pc.Patch("demo.mean", pc.Replace("statistics:mean", min), phase="shop.open")]
        >>> patcher = pc.Patcher()
        >>> patcher.plugins.add(Plugin(), "demo")
        >>> with patcher:
        ...     print(patcher.report()["demo.mean"].reason)
        ...     pc.reach("shop.open")
        ...     print(statistics.mean([1, 3]))
        waits for phase shop.open
        1
    """
    PHASES.check(name)
    PHASES.reach(name)


def _module_of(phase: str) -> str:
    """Return the module whose import reaches ``phase``; an empty text for a phase that only a program reaches."""
    begin = next((each for each in (_BEFORE, _AFTER) if phase.startswith(each)), None)
    return "" if begin is None else phase[len(begin) :]


def _unknown(phase: Optional[str], known: _Names) -> str:
    """Return that no plugin names ``phase``, with the nearest name; an empty text if one does."""
    names = [name for names in known.lists for name in names]
    if phase is None or phase in names or _module_of(phase):
        return ""
    return f"no plugin names a phase {phase!r}{did_you_mean(phase, names)}; the hook register_phases does"


def _up_to(phase: str, lists: Iterable[Sequence[str]], *, later: bool = False) -> list[str]:
    """Return ``phase`` with the phases before it in their order; ``later``: with those after it instead."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        if name in found or name in path:
            return
        path.add(name)
        for names in lists:
            if name in names:
                place = list(names).index(name)
                for other in names[place + 1 : place + 2] if later else names[max(place - 1, 0) : place]:
                    add(other)
        found[name] = None

    path: set[str] = set()
    lists = list(lists)
    add(phase)
    return list(found)


def _cycle(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the phases of a cycle in the order of several lists, or of one that names a phase twice."""
    for name in dict.fromkeys(name for names in lists for name in names):
        for other in _up_to(name, lists)[:-1]:
            if name in _up_to(other, lists):
                return [other, name, other]
    doubled = next((name for names in lists for name in names if list(names).count(name) > 1), None)
    return [] if doubled is None else [doubled, doubled]


def _inherited(plan: Plan, lists: Sequence[Sequence[str]]) -> dict[str, tuple[str, str]]:
    """Return the phase of each patch that waits, and the patch that has it, if that is another one."""
    entries = [entry for entry in plan if entry.verdict == APPLY]
    found: dict[str, tuple[str, str]] = {}
    for number, entry in enumerate(entries):  # in the order of the plan: those below a patch come before it
        best = (entry.patch.phase or "", "")
        for below in entries[:number] if found else ():
            phase = found.get(below.patch.name, ("", ""))[0]
            if phase and phase != best[0] and _is_on_top(entry, below) and _is_later(phase, best[0], lists):
                best = phase, below.patch.name
        if best[0]:
            found[entry.patch.name] = best
    return found


def _is_later(phase: str, than: str, lists: Sequence[Sequence[str]]) -> bool:
    return not than or than in _up_to(phase, lists)


def _is_on_top(entry: PlannedPatch, below: PlannedPatch) -> bool:
    """Return whether ``entry`` has to be applied after ``below``, which comes before it in the plan."""
    upper, lower = entry.patch, below.patch
    declared = lower.names & set(upper.after) or upper.names & set(lower.before)
    return bool(declared) or not set(entry.targets).isdisjoint(below.targets)


#: The phases of this process.
PHASES = Phases()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: PHASES.after_fork())
