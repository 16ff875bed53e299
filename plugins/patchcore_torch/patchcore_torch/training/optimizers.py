"""Steps of loops that nobody has named: calls of torch's ``Optimizer.step``, whatever the optimizer's class.

torch wraps ``step`` of each class when its first object is made, in ``Optimizer.profile_hook_step``, which is where one
function can see all of them: ``step`` itself is overridden by every optimizer, and an ``LRScheduler`` overrides it once
more in the object. From torch 2.0 on the wrapper calls hooks after each step (``register_optimizer_step_post_hook``,
torch 2.0 to 2.13 ``optim/optimizer.py``). Before that it is made by ``Optimizer._hook_for_profile`` (torch 1.7 to
1.13), and a second wrapper goes around the first; objects made before the patch was applied are not seen there.
"""

from __future__ import annotations

import functools
import sys
from types import CodeType
from typing import Any, Callable, Optional

from patchcore import Patch, Replace, Wrap
from patchcore_torch.training.steps import STEPS

__all__ = ["PATCHES", "after_optimizer_step", "count_class"]

#: The mark of classes whose ``step`` is counted.
_COUNTED = "_patchcore_counted"


def after_optimizer_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Count a step, as a hook of torch that is called after each; ``super().step()`` in a step is no other one.

    Args:
        optimizer: whose step it was.
        args, kwargs: of the call.
    """
    caller = sys._getframe(1)
    if not _is_inside_step(optimizer, caller.f_code, caller.f_back):
        STEPS.optimizer_stepped(optimizer)


# For torch.compile: not to be traced, as a function that torch.compiler.disable returns (torch 2.0 to 2.13
# _dynamo/eval_frame.py), which cannot be imported here.
after_optimizer_step._torchdynamo_disable = True  # type: ignore[attr-defined]


def _is_inside_step(optimizer: Any, wrapper: CodeType, frame: Optional[Any]) -> bool:
    """Return whether ``frame`` was called by torch's wrapper for another call of ``step`` of the same optimizer."""
    while frame is not None:
        if frame.f_code is wrapper and frame.f_locals.get("self") is optimizer:
            return True
        frame = frame.f_back
    return False


def count_class(original: Callable[[Any], None], optimizer: Any) -> None:
    """Wrapper of ``Optimizer._hook_for_profile``: let torch wrap the class's ``step``, and count around that.

    After a revert the class keeps the counter, which nothing listens to then.

    Args:
        original: torch's.
        optimizer: object that is being made.
    """
    original(optimizer)
    kind: Any = type(optimizer)
    if not getattr(kind.step, _COUNTED, False):
        kind.step = _counting(kind.step)


def _counting(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)  # keeps the mark that torch has wrapped it
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) in _under_way:  # super().step()
            return step(self, *args, **kwargs)
        _under_way.add(id(self))
        try:
            result = step(self, *args, **kwargs)
        finally:
            _under_way.discard(id(self))
        STEPS.optimizer_stepped(self)
        return result

    setattr(counted, _COUNTED, True)
    return counted


#: Identities of the optimizers whose ``step`` is being called, with torch 1.
_under_way: set[int] = set()

_SUMMARY = "counts training steps where no training loop is known"

#: One for each way in which torch makes ``step`` known.
PATCHES = (
    Patch(
        "patchcore.step.optimizer",
        [Replace('torch.optim.optimizer:_global_optimizer_post_hooks["patchcore"]', after_optimizer_step, create=True)],
        summary=_SUMMARY,
        count=False,
        requires="torch>=2",
    ),
    Patch(
        "patchcore.step.optimizer_torch1",
        [Wrap("torch.optim.optimizer:Optimizer._hook_for_profile", count_class)],
        summary=_SUMMARY,
        count=False,
        requires="torch<2",
    ),
)
