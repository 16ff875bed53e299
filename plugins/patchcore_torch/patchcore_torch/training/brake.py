"""The brake: ends the program, with exit code 0, after a step of training."""

from __future__ import annotations

import threading
from typing import Callable

from patchcore.plugin import print_message, process_rank
from patchcore_torch.training.ending import at_end, leave_process_groups

__all__ = ["Brake", "Braked"]


class Braked(SystemExit):
    """Raised out of the training loop by the brake: the program ends as by ``sys.exit(0)``, every ``finally`` runs."""


class Brake:
    """Wrapper of :func:`patchcore_torch.training.steps.after_step` that raises :class:`Braked` after a step.

    Args:
        step: how many steps of this process it lets pass, from when it was applied.
    """

    def __init__(self, step: int) -> None:
        self.step = step
        self._finished = 0

    def begin(self) -> None:
        """Count from 1 again: the patch is being applied."""
        self._finished = 0

    def __call__(self, original: Callable[[], None]) -> None:
        original()
        self._finished += 1
        if self._finished < self.step:
            return
        if self._finished == self.step:
            self._announce()
        elif self._finished == self.step + 1:
            print_message(
                f"the brake after step {self.step} did not end the program, because code in it catches SystemExit "
                "('except:' or 'except BaseException:'); catch Exception there. The brake is tried again after every "
                "step"
            )
        raise Braked(0)

    def _announce(self) -> None:
        at_end(leave_process_groups)
        if not process_rank():
            print_message(f"brake: the program ends after training step {self.step}")
        if threading.current_thread() is not threading.main_thread():
            print_message(
                f"the step was made in thread {threading.current_thread().name}: the brake ends this thread, not the "
                "program"
            )
