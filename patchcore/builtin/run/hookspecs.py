"""The hooks that the plugin ``run`` brings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional

from patchcore.hookspecs import hookspec

if TYPE_CHECKING:
    from argparse import Namespace

    from patchcore.builtin.run.compat import Compat
    from patchcore.builtin.run.process_report import ProcessReport
    from patchcore.errors import PatchcoreError
    from patchcore.planning.plan import Plan
    from patchcore.report import Report

__all__ = ["conclusions", "process_patched", "rank_launchers", "refuse_run", "register_compat"]


@hookspec(firstresult=True)
def refuse_run(options: Namespace, plan: Plan) -> Optional[PatchcoreError]:
    """Called by ``patchcore run`` before the program starts; return an error to start nothing.

    ``options.project`` is the folder of the program, ``None`` where that is not known.
    """


@hookspec
def register_compat() -> Iterable[Compat]:  # type: ignore[empty-body]
    """Return the interfaces of other patchers that this plugin brings, for ``patchcore run --compat NAME``."""


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
    """Return what the last line of ``patchcore run`` says before it counts patches: what the program has got of them.

    Called at the end of the main process, and of the main process of rank 0: libraries may have shut down already.

    Args:
        report: of this process.
        plan: the plan that was applied last.
    """
