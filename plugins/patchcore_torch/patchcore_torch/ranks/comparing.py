"""Lets the ranks of a job compare their patches when they form their process group.

This goes through the store by which the ranks have found each other (``torch.distributed.Store``), which
every backend but MPI has: nothing is sent over the devices.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import patchcore as pc
from patchcore import Patcher
from patchcore.plugin import ProcessReport, RunError, describe_error, note_event

if TYPE_CHECKING:
    from patchcore_torch.ranks.agreement import Comparison

__all__ = ["Disagreement", "compare_when_grouped"]

logger = logging.getLogger("patchcore")

#: How long the program waits for the comparison unless a difference is an error, seconds. After that a thread goes on:
#: a rank that is not patched would make the others wait for a minute.
_AT_ONCE = 2.0


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

    from patchcore_torch.ranks.agreement import PATIENCE, Comparison

    policy = patcher.settings.on_failure
    try:
        report.write()
        rank, size = dist.get_rank(), dist.get_world_size()
        if size == 1:
            return
        begun = time.perf_counter()
        store = dist.distributed_c10d._get_default_store()
        host = os.uname().nodename if hasattr(os, "uname") else ""
        comparison = Comparison(store, rank, size, report.manifest, host)
        complete = comparison.run(PATIENCE if policy == "raise" else _AT_ONCE)
    except Exception as error:  # no store (MPI), or one that only looks like it: training is not to suffer
        logger.info("the ranks could not be compared: %s", describe_error(error))
        return
    lines = comparison.differences()
    if complete or policy == "raise":
        lines += comparison.silent()
        _conclude(comparison, report, lines, begun)
        if lines and policy == "raise":
            raise Disagreement("; ".join(lines))
        _log(lines, rank, policy)
    else:
        _log(lines, rank, policy)
        _Listener(comparison, report, rank, policy, lines, begun).start()


def _conclude(comparison: Comparison, report: ProcessReport, lines: Sequence[str], begun: float) -> None:
    """Note the end of the comparison on the timeline, and the generation of the ranks in the report."""
    note_event("compared", detail="; ".join(lines) or f"{comparison.size} ranks have the same patches", since=begun)
    if comparison.generation is not None:
        group, number, clock = comparison.generation
        report.describe(group=group, generation=number, clock=clock)
        report.write()


def _log(lines: Sequence[str], rank: int, policy: str) -> None:
    for line in lines:
        heard = rank != 0 and not line.startswith("rank 0 ")  # rank 0 says it
        logger.log(logging.INFO if heard or policy == "ignore" else logging.WARNING, "%s", line)


class _Listener:
    """Goes on with a comparison in a thread, for a minute at most, and logs its end.

    The thread ends with the process: a thread that calls into the store while the interpreter shuts down aborts it.
    """

    def __init__(
        self, comparison: Comparison, report: ProcessReport, rank: int, policy: str, lines: list[str], begun: float
    ) -> None:
        self._comparison = comparison
        self._report = report
        self._rank = rank
        self._policy = policy
        self._lines = lines
        self._begun = begun
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="patchcore.ranks", daemon=True)

    def start(self) -> None:
        """Start the thread, and end it before the interpreter shuts down."""
        with contextlib.suppress(AttributeError, RuntimeError):  # the interpreter is on its way out
            threading._register_atexit(self._stop)  # type: ignore[attr-defined]  # CPython 3.9 to 3.14
            self._thread.start()

    def _stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _listen(self) -> None:
        from patchcore_torch.ranks.agreement import PATIENCE

        knows_the_silent = True
        try:
            self._comparison.run(PATIENCE, lambda: not self._stopped.is_set())
        except Exception as error:  # the program has ended, and its store with it
            logger.info("the ranks could not be compared: %s", describe_error(error))
            # rank 0, which has ended with the store, may have sent its patches
            knows_the_silent = self._rank == 0
        new = [*self._comparison.differences(), *(self._comparison.silent() if knows_the_silent else ())]
        _conclude(self._comparison, self._report, [*self._lines, *new], self._begun)
        _log(new, self._rank, self._policy)
