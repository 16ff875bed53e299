"""Training loops: which call of a library is one step of training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

from patchcore import DeclarationError, Patch, Target, Wrap
from patchcore.plugin import Declaration, Item, as_tuple, check_callables
from patchcore_torch.training.steps import CountedCall

__all__ = ["LAST", "TrainingLoop", "user_loop"]


class TrainingLoop(Declaration):
    """The per-iteration method of a training loop: each call of it that returns has completed one step.

    Plugins return these from the hook ``training_loops``. Only the outermost of nested steps counts.

    Args:
        target: a function or method that is called once for each training iteration, and for nothing else.
        when_call: predicate over the arguments of each call, for a method that is also called for other things: only
            calls for which it is true are steps.
        requires: as in :class:`patchcore.Patch`: import packages with PEP 440 specifiers.

    Raises:
        DeclarationError: an argument is malformed.
    """

    target: Target
    when_call: Optional[Callable[..., Any]]
    requires: tuple[str, ...]

    def __init__(
        self,
        target: Union[str, Target],
        *,
        when_call: Optional[Callable[..., Any]] = None,
        requires: Union[str, Sequence[str]] = (),
    ) -> None:
        where = f"TrainingLoop({str(target)!r})"
        check_callables(where, when_call=when_call)
        super().__init__(
            target=target if isinstance(target, Target) else Target.parse(target),
            when_call=when_call,
            requires=as_tuple(requires, "requires", where),
        )

    @property
    def name(self) -> str:
        """The name of the patch that counts the steps: ``patchcore.step.`` and the target with dots."""
        path = ".".join(str(step.key) if isinstance(step, Item) else step for step in self.target.path)
        return "patchcore.step." + re.sub(r"[^\w.]+", "_", f"{self.target.module}.{path}".lstrip("."))

    def patch(self, summary: str = "counts training steps") -> Patch:
        """Return the patch that counts the steps of this loop, around the wrappers of other patches."""
        return Patch(
            self.name,
            [Wrap(self.target, CountedCall(self.when_call))],
            summary=summary,
            requires=self.requires,
            after="*",
            priority=LAST,
            count=False,
        )


#: The priority of the patches here: after all else, so that where one conflicts with another it is this that fails.
LAST = 1_000_000


def user_loop(target: str) -> TrainingLoop:
    """Return the loop that a user has named.

    Args:
        target: ``package.module:Class.method``.

    Raises:
        DeclarationError: the text is no target, or one of the program's own file, which nothing can be patched in
            before it runs.
    """
    loop = TrainingLoop(target)
    if loop.target.root == "__main__":
        raise DeclarationError(
            f"step={target!r}: the program's own file cannot be patched, it runs as it is read; move the function to a "
            "module and name that, step='my_training:train_step', or leave step out to count Optimizer.step"
        )
    return loop
