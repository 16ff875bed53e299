"""The activation of a run in a process: applies its patches and reports on them."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple, Optional

from patchcore.builtin.run.compat import chosen_compat
from patchcore.builtin.run.logs import level_of, log_to_stderr
from patchcore.builtin.run.process_report import ProcessReport
from patchcore.builtin.run.roles import (
    engine_of_daemon,
    engine_of_worker,
    is_installed,
    is_of_an_unknown_engine,
    present_role,
    take_role,
)
from patchcore.builtin.run.session import Session
from patchcore.builtin.run.timeline import AWAKE, TIMELINE
from patchcore.errors import CONTAINED, PatchcoreError, PatchError, UnknownName, describe_error
from patchcore.objects.modules import find_module
from patchcore.patcher import Patcher
from patchcore.planning.conditions import APPLY, OFF
from patchcore.plugins import installed_plugins
from patchcore.report import FAILED
from patchcore.stderr import print_message
from patchcore_startup import is_strict

__all__ = ["Activation", "RunError", "activate", "active", "look_again", "raise_failures", "run_role"]

logger = logging.getLogger("patchcore")


class RunError(PatchError):
    """Ends a program of a run; a user reads its message alone, without a trace.

    Examples:
        >>> import patchcore as pc
        >>> from patchcore.plugin import RunError
        >>> class Plugin:
        ...     @pc.hookimpl
        ...     def start_process(self, patcher, session):
        ...         raise RunError("shop: there are no prices")
        >>> Plugin().start_process(None, None)
        Traceback (most recent call last):
        patchcore.builtin.run.activation.RunError: shop: there are no prices
    """


class Activation(NamedTuple):
    """The part of this process in its run.

    Args:
        session: the run.
        patcher: applied.
        role: of this process, see :mod:`patchcore.builtin.run.roles`.
    """

    session: Session
    patcher: Patcher
    role: str


_active: Optional[Activation] = None

#: Packages whose frames are between an import and its finders.
_IMPORTERS = ("importlib", "patchcore", "patchcore_startup")

#: What failed at the start of a worker of an engine under the policy ``raise``; ``None`` elsewhere.
_kept: Optional[list[str]] = None


def active() -> Optional[Activation]:
    """Return the activation of this process, ``None`` if it is part of no run or is not activated yet."""
    return _active


def run_role() -> str:
    """Return the role of this process in its run, empty if it is part of no run.

    ``main`` is the program of ``patchcore run``, ``launcher`` the program that starts ranks (torchrun), ``rank`` a rank
    of a job, ``worker`` any other process.

    Examples:
        >>> run_role()
        ''
    """
    return "" if _active is None else present_role(_active.role, _active.patcher.plugins)


def activate(text: str) -> set[str]:
    """Apply the patches of the run that ``text`` describes; they stay applied. Nothing else in the process changes.

    An error is logged, and the process goes on with the patches that are applied, unless the run's policy is to raise.

    Args:
        text: see :meth:`Session.parse`.

    Returns:
        Libraries that patches are for and that cannot be found yet; once they can, call :func:`look_again`.

    Raises:
        PatchError: a patch, a plugin or a setting failed, under the policy ``raise``.
    """
    log_to_stderr()
    global _kept
    try:
        session = Session.parse(text)
    except PatchcoreError as error:
        message = f"this process ({sys.executable}) is not patched: {error}"
        if is_strict(text):
            _show_patch_errors_as_messages()
            raise RunError(message) from error
        logger.error("%s", message)
        return set()
    if engine_of_daemon(session.engines) is not None:
        return set()
    log_to_stderr(level_of(session.settings), known=session.problems)
    strict = session.settings.on_failure == "raise"
    is_worker = engine_of_worker(session.engines) is not None
    is_unknown = not is_worker and is_of_an_unknown_engine(session.launcher)
    if strict and (is_worker or is_unknown):
        _kept, strict = [], False
        session = session._replace(settings=session.settings._replace(on_failure="warn"))
    try:
        with _never_collected(), CONTAINED:
            return _activate(session)
    except Exception as error:
        if isinstance(error, PatchError) and not is_worker and not is_unknown:
            _show_patch_errors_as_messages()
            raise  # also without strict: a patch is required
        message = f"this process ({sys.executable}) is not patched: {describe_error(error)}"
        if _kept is not None:
            _kept.append(message)
        if strict:
            _show_patch_errors_as_messages()
            raise PatchError(message) from error
        logger.warning("%s", message, exc_info=not isinstance(error, PatchcoreError))
        return set()
    finally:
        if _kept is not None and is_unknown:  # not before: plugins import, too
            sys.meta_path = [_FailuresInProgram(), *sys.meta_path]


@contextlib.contextmanager
def _never_collected() -> Iterator[None]:
    """Spare the garbage collector what this block loads: patchcore and plugins stay to the end of the process.

    With 24,000 objects more to look at, the next full collection came earlier, and an import of torch took 7 % longer.
    ``gc.freeze`` takes all objects, the program's, too. Therefore nothing is frozen if the program has made so many
    that there was a full collection.
    """
    was_enabled, has_begun = gc.isenabled(), gc.get_stats()[2]["collections"] > 0
    gc.disable()
    try:
        yield
    finally:
        if not has_begun:
            gc.freeze()
        if was_enabled:
            gc.enable()


def _activate(session: Session) -> set[str]:
    global _active
    begun = time.perf_counter()
    patcher = _discover(session)
    _expect_plugins(session, patcher)
    _configure(session, patcher)
    for compat in chosen_compat(patcher.settings, patcher.plugins):
        compat.take_part(patcher)
    patcher.plugins.notify("start_process", patcher=patcher, session=session)
    patcher.apply()
    TIMELINE.note(AWAKE, since=begun)
    engine = engine_of_worker(session.engines)
    role = take_role(session.launcher, patcher.plugins, of_engine=engine is not None)
    _active = Activation(session, patcher, role)
    report = ProcessReport(session, patcher, role)
    if engine is not None:
        report.describe(engine=engine.name)
    report.begin()
    if session.settings.on_failure == "raise" or any(entry.patch.required for entry in patcher.applied_plan):
        _show_patch_errors_as_messages()
    patcher.plugins.notify("process_patched", patcher=patcher, report=report)
    return _missing(patcher)


def _discover(session: Session) -> Patcher:
    """Load the plugins; those that were chosen and are missing here only are complained about like any other."""
    settings = session.settings
    try:
        return Patcher.discover(settings=settings)
    except UnknownName:
        loaded = {plugin.name for plugin in session.plugins}
        here = {provenance.plugin for provenance, _ in installed_plugins()}
        found = tuple(name for name in settings.plugins or () if name in here or name not in loaded)
        return Patcher.discover(settings=settings._replace(plugins=found))


def look_again() -> set[str]:
    """Apply the patches of libraries that have become importable; return the libraries that still cannot be found.

    Raises:
        PatchError: see :func:`activate`.
    """
    if _active is None:
        return set()
    _active.patcher.refresh()
    return _missing(_active.patcher)


def raise_failures() -> None:
    """Raise what has failed in this worker of an engine so far, under the policy ``raise``; from now on failures raise.

    The plugin of an engine calls it in each worker where an error reaches the user. Elsewhere it does nothing.

    Raises:
        RunError: a patch or a plugin failed, or the process is not patched.

    Examples:
        >>> from patchcore.plugin import raise_failures
        >>> raise_failures()  # outside a run
    """
    global _kept
    if _kept is None:
        return
    found = list(_kept)
    if _active is not None:
        report = _active.patcher.report()
        found += [str(problem) for problem in report.problems]
        found += [
            f"patch {r.name} (plugin {r.plugin}) failed: {r.reason}" for r in report.patches if r.status == FAILED
        ]
    elif not found:
        found = [f"this process ({sys.executable}) is not patched"]
    if found:
        raise RunError("; ".join(dict.fromkeys(found)))
    _kept = None
    if _active is not None:
        _active.patcher.settings = _active.patcher.settings._replace(on_failure="raise")


class _FailuresInProgram:
    """A meta path finder that calls :func:`raise_failures` at the first import by code that is not installed.

    It serves workers of an engine that no plugin has described. An error before that ends the worker at its start, and
    the engine starts it again and again. The first import by code of the program is in a task, whose errors a user
    sees.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Raise what has failed if code of the program imports a module; find nothing."""
        if _is_in_program():
            sys.meta_path = [finder for finder in sys.meta_path if finder is not self]
            try:
                raise_failures()
            except RunError:
                sys.meta_path = [self, *sys.meta_path]  # a worker runs several tasks
                raise


def _is_in_program() -> bool:
    """Return True if the module that is being imported was requested by code that is not installed."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _IMPORTERS:
        frame = frame.f_back
    if frame is None:
        return False
    file = frame.f_code.co_filename
    library = os.path.dirname(os.__file__) + os.sep
    return not (is_installed(file) or file.startswith((library, "<frozen ", "<string>")))


def _missing(patcher: Patcher) -> set[str]:
    """The libraries, targeted or needed, whose absence keeps patches from being applied."""
    left = [entry for entry in patcher.applied_plan if entry.verdict not in (APPLY, OFF)]
    names = {target.root for entry in left for target in entry.targets}
    names |= {name.partition(".")[0] for entry in left for name in entry.patch.needs}
    return {name for name in names if not find_module(name)}


def _expect_plugins(session: Session, patcher: Patcher) -> None:
    """Complain about plugins that the launcher has and this process has not, or in another version."""
    here = {p.plugin: p for p in patcher.plugins.installed}
    problems = {problem.plugin for problem in patcher.plugins.problems}  # these have been logged
    for expected in session.plugins:
        found = here.get(expected.name)
        if expected.name in problems:
            continue
        if found is None:
            patcher.plugins.absent.append(expected.name)
            message = f"plugin {expected} is not installed for {sys.executable}, but patchcore run has loaded it"
        elif (found.distribution or "", found.version or "") != expected[1:]:
            message = f"plugin {expected} of patchcore run is {found} for {sys.executable}"
        else:
            continue
        message += "; install the same plugins for every Python of the run"
        if _kept is not None:
            _kept.append(message)
        if patcher.settings.on_failure == "raise":
            raise PatchError(message)
        logger.warning("%s", message)


def _configure(session: Session, patcher: Patcher) -> None:
    """Let plugins act on the options they have added to ``patchcore run``."""
    if patcher.plugins.implements("configure_run"):
        from patchcore.builtin.run.command import parse_options  # the command knows its options

        options = parse_options(session.arguments, patcher.plugins)
        patcher.plugins.notify("configure_run", options=options, settings=patcher.settings)


def _show_patch_errors_as_messages() -> None:
    """Show the message of a patch that ends the run, and not the trace of the import in which it failed."""
    previous = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> Any:
        ours = isinstance(error, PatchError) and (_active is None or error is _active.patcher.failure)
        if ours or isinstance(error, RunError):
            print_message(describe_error(error))
        else:
            previous(kind, error, trace)

    sys.excepthook = show
