"""The hooks that a plugin may implement.

An implementation is a function of the hook's name, marked ``@patchcore.hookimpl``; it may leave any argument out.
docs/hooks.md shows each hook with an example.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union, cast, overload

import pluggy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchcore.declare.changes import Skip, Wait
    from patchcore.declare.patch import Patch
    from patchcore.declare.target import Target
    from patchcore.engine.writers import Guard, Writers
    from patchcore.objects.generated import Handover
    from patchcore.planning.candidates import Candidate
    from patchcore.planning.conditions import Environment
    from patchcore.planning.plan import Context, PlannedPatch
    from patchcore.report import PatchRecord, Remark, Section
    from patchcore.settings import Setting, Settings

__all__ = ["hookimpl", "hookspec"]

hookspec = pluggy.HookspecMarker("patchcore")

_mark = pluggy.HookimplMarker("patchcore")
_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def hookimpl(function: _F) -> _F: ...


@overload
def hookimpl(
    *, concerns: Optional[Callable[[Sequence[Candidate]], bool]] = None, **options: Any
) -> Callable[[_F], _F]: ...


def hookimpl(
    function: Optional[Callable[..., Any]] = None,
    *,
    concerns: Optional[Callable[[Sequence[Candidate]], bool]] = None,
    **options: Any,
) -> Any:
    """Mark a function or method as the implementation of the hook of its name.

    Args:
        function: the implementation, if there are no options.
        concerns: called with all patches that a Patcher has collected, each with its plugin. The implementation is
            called for Patchers only after this has returned true: a hook that is called for each patch costs time.
        options: those of pluggy: ``optionalhook=True`` for a hook of another plugin that may be missing,
            ``tryfirst``, ``trylast``, ``wrapper``, ``specname``.

    Examples:
        >>> import patchcore as pc
        >>> @pc.hookimpl
        ... def registry_tables():
        ...     return ["_entries"]
        >>> @pc.hookimpl(concerns=lambda candidates: any(found.patch.upstream for found in candidates))
        ... def after_apply(patch, outcome):
        ...     print(patch.upstream, outcome.status)
    """
    if function is not None:
        return _mark(function)

    def mark(function: _F) -> _F:
        marked: Any = _mark(**options)(function)
        if concerns is not None:
            marked.patchcore_concerns = concerns
        return cast(_F, marked)

    return mark


@hookspec
def register_patches(settings: Settings, plugins: Any) -> Iterable[Patch]:  # type: ignore[empty-body]
    """Return the patches that this plugin contributes.

    Called each time patches are collected, also by ``patchcore list``: import nothing heavy.

    Args:
        settings: the user's settings.
        plugins: the loaded :class:`~patchcore.plugins.Plugins`, for a plugin that calls hooks of its own.
    """


@hookspec
def after_collect(plugins: Any, answers: Mapping[str, Sequence[Any]], candidates: Sequence[Candidate]) -> None:
    """Take note of the patches that plugins contribute. ``plugins.note`` reports a problem of a plugin.

    Args:
        plugins: the loaded :class:`~patchcore.plugins.Plugins`.
        answers: the values that each plugin returned from ``register_patches``, by name of the plugin.
        candidates: all patches, those that were passed to the Patcher included, each with its plugin.
    """


@hookspec
def register_settings() -> Iterable[Setting]:  # type: ignore[empty-body]
    """Return the settings of this plugin: keys of ``[tool.patchcore]`` with their environment variables and options.

    Called when a Patcher is made.
    """


@hookspec
def register_writers() -> Writers:  # type: ignore[empty-body]
    """Return the writers of the kinds of change that this plugin brings, by class of change.

    A value is a function that takes the engine and returns a :class:`~patchcore.engine.writers.Writer`. Classes and
    functions may be given as targets, ``package.module:Class``; they are imported when the first change of that kind is
    applied. Called when a Patcher is made.
    """


@hookspec
def register_guards() -> Iterable[Union[Guard, str]]:  # type: ignore[empty-body]
    """Return guards: functions, or their targets, that are called before a value is written to a slot.

    A guard that raises fails the patch, a text that it returns is in the report; see
    :data:`patchcore.engine.writers.Guard`. Guards apply to the patches of the Patchers that loaded the plugin.
    """


@hookspec
def register_marks() -> Iterable[Union[Callable[[Any, Any, bool], Any], str]]:  # type: ignore[empty-body]
    """Return functions, or their targets, that mark each function that patchcore creates or whose body it writes.

    A mark is called with the function (a wrapper, a dispatcher, or the function with the new body), the original, and
    true for a method. It may set attributes of the function that a compiler reads, for example how to call it. They are
    removed with the patch. A mark may return a function: it is called when the patch is removed, which is when no slot
    holds the wrapper any longer, or when the body is written again or restored.
    """


@hookspec
def register_handovers() -> Iterable[Union[Callable[[Any], Optional[Handover]], str]]:  # type: ignore[empty-body]
    """Return functions, or their targets, that describe how a library hands a call over to one of the arguments.

    ``__array_function__`` of numpy and ``__torch_function__`` of torch are such protocols. A patched function follows
    the protocol once, before its patch. Each function is called with the original. It returns ``None``, or a pair of
    functions: the first is called with the arguments of a call and returns true if the call is handed over; the second
    is called with the called function and the arguments, and returns the result.
    """


@hookspec
def registry_tables() -> Iterable[str]:  # type: ignore[empty-body]
    """Return the names of attributes in which registries of a library keep their entries.

    Such an attribute holds a dictionary, by name of the entry. An entry is then a target,
    ``mmengine.registry:MODELS["ResNet"]``, and :class:`patchcore.Register` can add one.
    """


@hookspec
def remarks(entry: PlannedPatch, environment: Environment, thorough: bool) -> Sequence[Remark]:  # type: ignore[empty-body]
    """Return what the user should know about a planned patch in this environment.

    Args:
        entry: the patch with its plugin and its targets.
        environment: the installed libraries, as the plan has them.
        thorough: true if a plan is shown, checked or applied under the policy ``raise``: the implementation may read
            sources. False once in each process, when the patch was applied, or skipped because all that it adds is
            there: be quick.
    """


@hookspec(firstresult=True)
def find_home(target: Target, far: bool) -> Optional[Target]:
    """Return the target under which the object at ``target`` is defined, without importing anything.

    Called when a plan is made, for targets in modules that are not loaded, if another patch has a target that may be
    the same place: ``shop:price``, which ``shop`` imports from ``shop.core``. Two patches of one place are in conflict,
    or ordered as declared, however they spell it.

    Args:
        target: with its module.
        far: true for the remarks of a plan, which name the home of ``user:relu``, taken from torch: ``torch:relu``.
            Otherwise such a name is a place of its own.
    """


@hookspec(firstresult=True)
def before_apply(patch: Patch, context: Context, planning: bool) -> Union[Skip, Wait, None]:
    """Veto a patch with ``Skip("reason")``, or hold it back with ``Wait("reason")``; the first answer counts.

    A patch that is held back is pending until the plugin calls ``context.patcher.proceed(patch.name)``.

    Args:
        patch: to be applied.
        context: who contributes it, the settings, the plan and the Patcher.
        planning: false right before the patch is applied. True if a plan is made to be shown, compared or locked: the
            implementation then only decides, and changes nothing.
    """


@hookspec
def after_apply(patch: Patch, outcome: PatchRecord) -> None:
    """Take note of the status that a patch has got.

    Called for each patch of an apply, also if that raises because one has failed: the others are reverted then. Called
    again when an import completes a pending patch, or when the patch fails in that import.
    """


@hookspec(firstresult=True)
def on_failure(patch: Patch, error: Exception, context: Context) -> Optional[str]:
    """Return the policy for a patch that failed and was undone: ``"raise"``, ``"warn"`` or ``"ignore"``.

    The first answer counts. Without an answer ``required=True`` of the patch and the setting ``on_failure`` decide.
    """


@hookspec(firstresult=True)
def find_holders(originals: Iterable[Any], ours: Iterable[Any]) -> Sequence[tuple[Any, str, str]]:  # type: ignore[empty-body]
    """Return the places that still hold an object that was replaced; called for ``Patcher.report(unreachable=True)``.

    Each place is a triple: the original, the kind of place (``instance attribute``), the place (``demo:NET.act``). The
    first list that a plugin returns counts.

    Args:
        originals: the objects that were replaced.
        ours: replacements and wrappers. A place inside one of them does not count.
    """


@hookspec
def report_sections() -> Iterable[Section]:  # type: ignore[empty-body]
    """Return sections that reports of this process have besides patches; called for each report, so be quick."""


@hookspec
def emulated_devices() -> Iterable[str]:  # type: ignore[empty-body]
    """Return the kinds of device that the plugin emulates in this process: ``["npu"]``; an empty list if it does not.

    ``patchcore verify`` takes no times on such a device, and ``patchcore doctor`` names the plugin that emulates it.
    """


@hookspec
def register_hookspecs() -> Any:
    """Return a module or object with functions marked ``hookspec``: hooks that this plugin brings for other plugins.

    Called once, before any other hook of any plugin. The plugin that brings a hook calls it itself, with
    ``Plugins.collect(name, ...)``. Another plugin that implements the hook with
    ``@patchcore.hookimpl(optionalhook=True)`` also loads if this plugin is missing.
    """


@hookspec
def list_sections(plugins: Any) -> Iterable[Section]:  # type: ignore[empty-body]
    """Return sections that ``patchcore list`` shows besides plugins and patches.

    Args:
        plugins: the listed :class:`~patchcore.plugins.Plugins`.
    """


@hookspec
def register_commands(subparsers: Any) -> None:
    """Add commands to ``patchcore`` with ``subparsers.add_parser("name", help="...", fill="module:add_arguments")``.

    ``add_arguments`` is imported if that command is used, and called with the parser of the command. It adds the
    arguments and calls ``parser.set_defaults(command=function)``; the function takes the parsed options and returns the
    exit code. ``fill`` may also be the function itself.
    ``example="patchcore name train.py"``, a whole command line, stands at the end of the command's help.
    """


@hookspec(firstresult=True)
def advise(name: str, command: str) -> Optional[str]:
    """Return what to do about something that is missing, such as the line that installs it, or ``None``.

    The first answer counts; it is part of the error message, or a line of its own at the end of a run.

    Args:
        name: as it was given: ``"ops"``, ``"--emulate-npu"``, ``"torchrun"``, ``"torch"``, ``"DeformConv"``.
        command: the kind of ``name``. Empty: a command of patchcore. ``"import"``: a module that Python cannot find.
            ``"patch"``: a patch that a user has named, and no loaded plugin contributes. ``"error"``: the exception
            that ended a program of a run, as one line. ``"run"``: an option of ``patchcore run``, or the program that
            it could not start. Another command: an option of that command.
    """
