"""The steps of training that this process has completed, and the function in which each of them ends.

Two things count, and never both: calls of named loops (:class:`CountedCall`), and, as long as no named loop was seen,
steps of optimizers. Patches that act on steps wrap :func:`after_step`.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Optional

from patchcore.plugin import Declaration

__all__ = ["STEPS", "CountedCall", "Steps", "after_step"]


class Steps:
    """The state of the training steps of a process."""

    def __init__(self) -> None:
        #: How many steps were completed.
        self.finished = 0
        #: Whether a named loop has made a step, from when on those of optimizers do not count.
        self.in_named_loop = False
        self._calls = threading.local()  # depth: calls of named loops that are under way in this thread
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()  # optimizers, since the last step began

    def optimizer_stepped(self, optimizer: Any) -> None:
        """Count a call of ``optimizer.step``, which has just ended.

        A step of training is a round in which every optimizer steps, of a GAN both: it ends when its first optimizer
        does, and the next one begins when an optimizer of the round steps again. With optimizers that step equally
        often, this is the count of each; else that of the one that steps most.

        Args:
            optimizer: anything that can be referred to weakly.
        """
        if self.in_named_loop:
            return
        is_new_round = not self._stepped or optimizer in self._stepped
        if is_new_round:
            self._stepped.clear()
        self._stepped.add(optimizer)
        if is_new_round:
            after_step()

    def loop_begins(self) -> None:
        """Note that a call of a named loop begins; each is followed by :meth:`loop_ends`."""
        self.in_named_loop = True  # now: the first step of its optimizer is inside
        self._calls.depth = getattr(self._calls, "depth", 0) + 1

    def loop_ends(self) -> bool:
        """Note that a call of a named loop ends; return whether it was the outermost."""
        self._calls.depth -= 1
        return not self._calls.depth


#: Those of this process.
STEPS = Steps()


def after_step() -> None:
    """Note that a training step is complete. Profiling and brake are wrapped around this function."""
    STEPS.finished += 1


class CountedCall(Declaration):
    """Wrapper ``(original, *args, **kwargs)`` of the per-iteration method of a loop. A call that raises is no step.

    Args:
        when_call: returns true for the arguments of a call that is a step; ``None`` where all are.
    """

    when_call: Optional[Callable[..., Any]]

    def __init__(self, when_call: Optional[Callable[..., Any]] = None) -> None:
        super().__init__(when_call=when_call)

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.when_call is not None and not self.when_call(*args, **kwargs):
            return original(*args, **kwargs)
        STEPS.loop_begins()
        outermost = False
        try:
            result = original(*args, **kwargs)
        finally:
            outermost = STEPS.loop_ends()
        if outermost:
            after_step()
        return result
