"""Phases of a training step: forward, backward, optimizer, clipping; told by the functions that begin them.

``torch.autograd.backward`` and ``grad``, ``step`` and ``zero_grad`` of optimizers, ``torch.nn.utils.clip_grad*`` and
``GradScaler`` are wrapped, by patches like any other. Calls outside all of them belong to the forward. The innermost
one counts, so that the closure of ``optimizer.step(closure)`` is forward and its ``backward()`` is backward.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Optional

import patchcore as pc

__all__ = ["BACKWARD", "CLIPPING", "FORWARD", "OPTIMIZER", "PATCHES", "PHASES", "current"]

FORWARD, BACKWARD, OPTIMIZER, CLIPPING = PHASES = ("forward", "backward", "optimizer", "clipping")


class _Entered(threading.local):
    """The phases that a thread is in, the innermost last."""

    def __init__(self) -> None:
        self.phases: list[str] = []


_entered = _Entered()


def current() -> Optional[str]:
    """Return the innermost phase that this thread has entered; ``None`` in forward and in autograd's threads."""
    return _entered.phases[-1] if _entered.phases else None


@contextmanager
def _inside(phase: str) -> Iterator[None]:
    _entered.phases.append(phase)
    try:
        yield
    finally:
        _entered.phases.pop()


def _wrapper(phase: str) -> Callable[..., Any]:
    """Return a wrapper, see ``patchcore.Wrap``, whose original is a phase."""

    def call(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with _inside(phase):
            return original(*args, **kwargs)

    return call


def step_wrapper(original: Callable[[Any], Any], step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrapper of ``Optimizer.profile_hook_step``, which torch 2.0 to 2.13 calls with ``step`` of every optimizer class.

    Args:
        original: torch's.
        step: of a class of optimizers.
    """
    hooked = original(step)

    @functools.wraps(hooked)
    def call(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if args and callable(args[0]):
            args = (_forward(args[0]), *args[1:])
        elif callable(kwargs.get("closure")):
            kwargs["closure"] = _forward(kwargs["closure"])
        with _inside(OPTIMIZER):
            return hooked(optimizer, *args, **kwargs)

    return call


def _forward(closure: Callable[[], Any]) -> Callable[[], Any]:
    @functools.wraps(closure)
    def call() -> Any:
        with _inside(FORWARD):
            return closure()

    return call


def _patch(name: str, phase: str, *targets: str, requires: str = "torch>=2") -> pc.Patch:
    wrapper = _wrapper(phase)
    return pc.Patch(f"operators.{name}", [pc.Wrap(target, wrapper) for target in targets], requires=requires)


#: Their targets wait for ``torch`` itself: its modules are not to be changed before its own import is complete.
PATCHES = (
    _patch("backward", BACKWARD, "torch:autograd.backward", "torch:autograd.grad"),
    _patch("clipping", CLIPPING, "torch:nn.utils.clip_grad_norm_", "torch:nn.utils.clip_grad_value_"),
    _patch("clipping_parts", CLIPPING, "torch:nn.utils.clip_grads_with_norm_", requires="torch>=2.6"),
    pc.Patch(
        "operators.optimizer",
        [
            pc.Wrap("torch:optim.Optimizer.profile_hook_step", step_wrapper),
            pc.Wrap("torch:optim.Optimizer.zero_grad", _wrapper(OPTIMIZER)),
        ],
        requires="torch>=2",
    ),
    _patch(
        "grad_scaler",
        OPTIMIZER,
        *(f"torch:amp.grad_scaler.GradScaler.{name}" for name in ("unscale_", "step", "update")),
        requires="torch>=2.3",
    ),
)
