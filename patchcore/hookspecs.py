"""The hooks a plugin may implement, with ``@patchcore.hookimpl``. Any argument may be left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import pluggy

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from patchcore.context import Context
    from patchcore.declare.changes import Skip
    from patchcore.declare.patch import Patch
    from patchcore.engine.writers import Guard, Writers
    from patchcore.planning.plan import PlannedPatch
    from patchcore.report import PatchRecord, Remark, Section
    from patchcore.settings import Setting, Settings

__all__ = ["hookimpl", "hookspec"]

hookspec = pluggy.HookspecMarker("patchcore")
hookimpl = pluggy.HookimplMarker("patchcore")


@hookspec
def register_patches(settings: Settings, plugins: Any) -> Iterable[Patch]:  # type: ignore[empty-body]
    """Return the patches this plugin contributes; called each time patches are collected. Import nothing heavy.

    ``plugins`` is the :class:`~patchcore.plugins.Plugins` that are loaded, for a plugin that brings hooks of its own.
    """


@hookspec
def register_settings() -> Iterable[Setting]:  # type: ignore[empty-body]
    """Return the settings of this plugin: keys of ``[tool.patchcore]``, with their environment variables and options."""


@hookspec
def register_writers() -> Writers:  # type: ignore[empty-body]
    """Return what puts the kinds of change in force that this plugin brings.

    By class of change, a function that is called with the engine and returns a
    :class:`~patchcore.engine.writers.Writer`. Classes and functions may be given as targets, ``package.module:Class``,
    which are imported when the first change of that kind is applied.
    """


@hookspec
def register_guards() -> Iterable[Union[Guard, str]]:  # type: ignore[empty-body]
    """Return functions that are asked before a value is written to a slot, or their targets; see :data:`Guard`."""


@hookspec
def register_marks() -> Iterable[Union[Callable[[Any, Any, bool], None], str]]:  # type: ignore[empty-body]
    """Return functions that are called with each wrapper or dispatcher patchcore makes, or their targets.

    They get the function, what it stands for, and whether it is a method, and may set attributes of the function: what
    tells a compiler that reads source how to call it.
    """


@hookspec
def registry_tables() -> Iterable[str]:  # type: ignore[empty-body]
    """Return the attributes in which the registries of a library keep their entries by name, each a dictionary.

    An entry is then a target, ``mmengine.registry:MODELS["ResNet"]``, and :class:`patchcore.Register` can make one.
    """


@hookspec
def remarks(entry: PlannedPatch, thorough: bool) -> Sequence[Remark]:  # type: ignore[empty-body]
    """Return what there is to say about a planned patch here.

    Called when a plan is shown, checked or applied under the policy ``raise`` (``thorough``: sources may be read), and
    once in each process when a patch has been applied, where there is less time.
    """


@hookspec(firstresult=True)
def before_apply(patch: Patch, context: Context) -> Optional[Skip]:
    """Called before each patch is applied; return ``Skip("reason")`` to veto it."""


@hookspec
def after_apply(patch: Patch, outcome: PatchRecord) -> None:
    """Called when a patch has got its status; again when a pending one is completed by an import."""


@hookspec(firstresult=True)
def on_failure(patch: Patch, error: Exception, context: Context) -> Optional[str]:
    """Called when a patch failed and was undone; return ``"raise"``, ``"warn"`` or ``"ignore"`` to say what follows."""


@hookspec(firstresult=True)
def find_holders(originals: Iterable[Any], ours: Iterable[Any]) -> Sequence[tuple[Any, str, str]]:  # type: ignore[empty-body]
    """Return what still holds one of ``originals``, which were replaced: the original, the kind of place, the place.

    Called for ``Patcher.report(unreachable=True)``. What holds them as part of ``ours`` (replacements, wrappers) is left
    out.
    """


@hookspec
def report_sections() -> Iterable[Section]:  # type: ignore[empty-body]
    """Return what reports of this process tell besides patches; called each time one is made, so be quick about it."""


@hookspec
def register_hookspecs() -> Any:
    """Return a module or an object with functions marked ``hookspec``: hooks that this plugin brings for others.

    Called once, before any other hook of any plugin. Whoever calls those hooks is that plugin, by
    ``Plugins.collect(name, ...)``. A plugin that implements a hook which another one brings loads without that one, too,
    where it says so: ``@patchcore.hookimpl(optionalhook=True)``.
    """


@hookspec
def list_sections(plugins: Any) -> Iterable[Section]:  # type: ignore[empty-body]
    """Return what ``patchcore list`` shows besides plugins and patches.

    ``plugins`` is the :class:`~patchcore.plugins.Plugins` that are listed.
    """


@hookspec
def register_commands(subparsers: Any) -> None:
    """Add sub-commands to ``patchcore``: ``subparsers.add_parser(...)`` with ``set_defaults(command=function)``."""


@hookspec
def register_run_options(parser: ArgumentParser, command: str) -> None:
    """Add options to a command that runs code with patches: ``run`` or ``verify``, as ``command`` says."""


@hookspec
def start_process(patcher: Any, session: Any) -> None:
    """Called in each process of ``patchcore run``, before its patches are applied.

    ``patcher`` is the :class:`~patchcore.Patcher` of the process, ``session`` what the process knows of the run
    (:class:`patchcore.builtin.run.session.Session`).
    """


@hookspec
def configure_run(options: Namespace, settings: Settings) -> None:
    """Act on the options of ``patchcore run``, in every process, before patches are applied."""
