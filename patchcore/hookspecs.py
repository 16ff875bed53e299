"""The hooks a plugin may implement, with ``@patchcore.hookimpl``. Any argument may be left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional

import pluggy

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from patchcore.builtin.training.loops import TrainingLoop
    from patchcore.declare.changes import Skip
    from patchcore.declare.patch import Patch
    from patchcore.patcher import Context
    from patchcore.plugins import Plugins
    from patchcore.report import PatchRecord, Section
    from patchcore.settings import Settings

__all__ = ["hookimpl", "hookspec"]

hookspec = pluggy.HookspecMarker("patchcore")
hookimpl = pluggy.HookimplMarker("patchcore")


@hookspec
def register_patches(settings: Settings) -> Iterable[Patch]:  # type: ignore[empty-body]
    """Return the patches this plugin contributes; called each time patches are collected. Import nothing heavy."""


@hookspec(firstresult=True)
def before_apply(patch: Patch, context: Context) -> Optional[Skip]:
    """Called before each patch is applied; return ``Skip("reason")`` to veto it."""


@hookspec
def after_apply(patch: Patch, outcome: PatchRecord) -> None:
    """Called when a patch has got its status; again when a pending one is completed by an import."""


@hookspec(firstresult=True)
def on_failure(patch: Patch, error: Exception, context: Context) -> Optional[str]:
    """Called when a patch failed and was undone; return ``"raise"``, ``"warn"`` or ``"ignore"`` to say what follows."""


@hookspec
def report_sections() -> Iterable[Section]:  # type: ignore[empty-body]
    """Return what reports of this process tell besides patches; called each time one is made, so be quick about it."""


@hookspec
def register_hookspecs() -> Any:
    """Return a module or an object with functions marked ``hookspec``: hooks that this plugin brings for others.

    Called once, before any other hook of any plugin. Whoever calls those hooks is that plugin, by
    ``Plugins.each(name, ...)``. A plugin that implements a hook which another one brings loads without that one, too,
    where it says so: ``@patchcore.hookimpl(optionalhook=True)``.
    """


@hookspec
def list_sections(plugins: Plugins) -> Iterable[Section]:  # type: ignore[empty-body]
    """Return what ``patchcore list`` shows besides plugins and patches; ``plugins`` are those that are listed."""


@hookspec
def training_loops() -> Iterable[TrainingLoop]:  # type: ignore[empty-body]
    """Return the training loops whose steps profiling and brake count; called when a user asks for one of them."""


@hookspec
def register_commands(subparsers: Any) -> None:
    """Add sub-commands to ``patchcore``: ``subparsers.add_parser(...)`` with ``set_defaults(command=function)``."""


@hookspec
def register_run_options(parser: ArgumentParser) -> None:
    """Add options to ``patchcore run``."""


@hookspec
def configure_run(options: Namespace, settings: Settings) -> None:
    """Act on the options of ``patchcore run``, in every process, before patches are applied."""
