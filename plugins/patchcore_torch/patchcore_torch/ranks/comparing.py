"""Compares the ranks of a job when their process group is initialised: all must have the same patches.

The manifests travel through the store by which the ranks have found each other (``torch.distributed.Store``), which
every backend but MPI has: nothing is sent over the devices.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import patchcore as pc
from patchcore import Patcher
from patchcore.plugin import ProcessReport, RunError, describe_error, note_event

__all__ = ["Disagreement", "compare_when_grouped"]

logger = logging.getLogger("patchcore")


class Disagreement(RunError):
    """The ranks do not patch the same, under the policy ``raise``."""


def compare_when_grouped(patcher: Patcher, report: ProcessReport) -> None:
    """Compare the ranks right after the first ``torch.distributed.init_process_group`` of this process.

    Args:
        patcher: applied; its policy decides whether a difference is logged or raised.
        report: of this process.
    """
    compared = False

    @pc.wrap("torch.distributed.distributed_c10d:init_process_group", name="patchcore.ranks")
    def compare_after(original: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal compared
        result = original(*args, **kwargs)
        if not compared:
            compared = True
            _compare(patcher, report)
        return result

    # apart from the run's own patches: nobody is to find it in reports or to conflict with it
    pc.Patcher([compare_after]).apply()


def _compare(patcher: Patcher, report: ProcessReport) -> None:
    """Log, or raise, the differences between ranks; rank 0 logs them for all."""
    import torch.distributed as dist

    from patchcore_torch.ranks.agreement import NO_MANIFEST, compare_ranks

    try:
        report.write()
        rank, size = dist.get_rank(), dist.get_world_size()
        if size == 1:
            return
        begun = time.perf_counter()
        lines = compare_ranks(dist.distributed_c10d._get_default_store(), rank, size, report.manifest)
    except Exception as error:  # no store (MPI), or one that only looks like it: training is not to suffer
        logger.info("the ranks could not be compared: %s", describe_error(error))
        return
    note_event("compared", detail="; ".join(lines) or f"{size} ranks have the same patches", since=begun)
    if lines and patcher.settings.on_failure == "raise":
        raise Disagreement("; ".join(lines))
    for line in lines:
        heard = rank != 0 and line != NO_MANIFEST.format(0)  # rank 0 says it
        quiet = heard or patcher.settings.on_failure == "ignore"
        logger.log(logging.INFO if quiet else logging.WARNING, "%s", line)
