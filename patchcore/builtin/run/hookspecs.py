"""The hooks of ``patchcore run``. ``patchcore verify`` calls ``register_run_options`` and ``configure_run``, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional

from patchcore.hookspecs import hookspec

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from patchcore.builtin.run.compat import Compat
    from patchcore.builtin.run.process_report import ProcessReport
    from patchcore.builtin.run.roles import Engine
    from patchcore.errors import PatchcoreError
    from patchcore.planning.plan import Plan
    from patchcore.report import Report
    from patchcore.settings import Settings

__all__ = [
    "conclusions",
    "configure_run",
    "process_patched",
    "rank_launchers",
    "refuse_run",
    "register_compat",
    "register_engines",
    "register_run_options",
    "start_process",
]


@hookspec
def register_run_options(parser: ArgumentParser, command: str) -> None:
    """Add options to ``patchcore run`` or ``patchcore verify``, whose name is ``command``.

    An option with ``dest=f"{patchcore.plugin.SETTING_PREFIX}key"`` sets the setting ``key``.
    """


@hookspec
def start_process(patcher: Any, session: Any) -> None:
    """Prepare a process of ``patchcore run``, right before its patches are applied.

    Args:
        patcher: the :class:`~patchcore.Patcher` of the process.
        session: the run, as this process knows it: :class:`patchcore.plugin.Session`.
    """


@hookspec
def configure_run(options: Namespace, settings: Settings) -> None:
    """Act on the options of ``patchcore run``, in each process of the run, before patches are applied."""


@hookspec(firstresult=True)
def refuse_run(options: Namespace, plan: Plan) -> Optional[PatchcoreError]:
    """Called by ``patchcore run`` before the program starts; return an error to start nothing.

    ``options.project`` is the folder of the program, ``None`` where that is not known.
    """


@hookspec
def register_compat() -> Iterable[Compat]:  # type: ignore[empty-body]
    """Return the interfaces of other patchers that this plugin brings, for ``patchcore run --compat NAME``."""


@hookspec
def register_engines() -> Iterable[Engine]:  # type: ignore[empty-body]
    """Return descriptions of engines whose workers run code of a program: which scripts they and their daemons run."""


@hookspec
def process_patched(patcher: Any, report: ProcessReport) -> None:
    """Called in each process of a run when its patches have been applied; ``start_process`` is called before.

    Args:
        patcher: the :class:`~patchcore.Patcher` of the process.
        report: of this process.
    """


@hookspec
def rank_launchers() -> Iterable[str]:  # type: ignore[empty-body]
    """Return programs that start the ranks of a job and do none of its work: ``torchrun``, ``torch.distributed.run``.

    Commands, and modules that are run by ``python -m``. Nothing is concluded from the patches of such a process.
    """


@hookspec
def conclusions(report: Report, plan: Plan) -> Iterable[str]:  # type: ignore[empty-body]
    """Return texts for the last line of ``patchcore run``, before the numbers of patches: their effect on the program.

    Called at the end of the main process, and of the main process of rank 0: libraries may have shut down already.

    Args:
        report: of this process.
        plan: the plan that was applied last.
    """
