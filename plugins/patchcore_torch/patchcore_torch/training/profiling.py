"""Profiling: decides which steps are recorded, and logs where the records are."""

from __future__ import annotations

import logging
import os
import socket
from typing import Callable, Optional

from patchcore.plugin import describe_error, print_message, process_rank, rank_variable
from patchcore_torch.training.ending import at_end
from patchcore_torch.training.options import ProfilingOptions, steps_text
from patchcore_torch.training.profilers import Recorder, make_recorder

__all__ = ["StepProfiler"]

logger = logging.getLogger("patchcore")


class StepProfiler:
    """Wrapper of :func:`patchcore_torch.training.steps.after_step` that starts, steps and stops a profiler.

    A process that makes no steps writes nothing and imports no profiler. An error of the profiler costs the recording,
    not the training.

    Args:
        options: which steps to record, counted from when it was applied.
    """

    def __init__(self, options: ProfilingOptions) -> None:
        self.options = options
        self.begin()

    def begin(self) -> None:
        """Count from 1 again: the patch is being applied."""
        self._finished = 0
        self._recorder: Optional[Recorder] = None
        self._started_after = 0  # the step before the cycle that is being recorded
        self._failed = False
        self._recordings = 0

    def __call__(self, original: Callable[[], None]) -> None:
        original()
        self._finished += 1
        if self._finished == 1:
            at_end(self._end)
        if not self._failed:
            try:
                self._advance()
            except Exception as error:  # another profiler is running, the disk is full, ...
                self._recorder, self._failed = None, True
                logger.warning("profiling has failed, training goes on: %s", describe_error(error), exc_info=True)

    def _advance(self) -> None:
        if self._recorder is not None:
            self._recorder.step()
            if self._finished == self._started_after + self.options.warmup + self.options.active:
                self._stop()
        if self._recorder is None and self.options.starts_cycle_after(self._finished):
            self._started_after = self._finished
            self._recorder = make_recorder(self.options, _worker_name(), self._first_step)
            self._recorder.start()

    @property
    def _first_step(self) -> int:
        return self._started_after + self.options.warmup + 1

    def _stop(self) -> None:
        """Stop the recorder, which writes the records that are not written yet."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        recorder.stop()
        if self._finished < self._first_step:  # the program ended while the profiler was warming up
            return
        self._recordings += 1
        steps = steps_text(self._first_step, self._finished)
        text = f"profile of {steps} written to {recorder.place}; TensorBoard and ui.perfetto.dev open it"
        if process_rank():
            logger.info("%s", text)
        else:
            print_message(text)

    def _end(self) -> None:
        """At the end of the process: write the records of an unfinished cycle; log if there are none."""
        try:
            self._stop()
        except Exception as error:
            logger.warning("the profile could not be written: %s", describe_error(error), exc_info=True)
            return
        if not self._recordings and not self._failed and not process_rank():
            print_message(
                f"nothing was profiled: the program ended after training step {self._finished}, before "
                f"{self.options.window} could be recorded; lower skip_first={self.options.skip_first} "
                "(--profile-skip-first)"
            )


def _worker_name() -> str:
    """Return the name by which the recordings of this process differ from those of others: rank, host, process id."""
    rank = f"rank{process_rank()}_" if rank_variable() is not None else ""
    return f"{rank}{socket.gethostname()}_{os.getpid()}"
