"""Refuses the arguments that real kernels refuse, so that code which runs here also runs on the device.

The limits are those that mx-driving 26.2 checks or documents (its ``ops`` sources, the checks in its compiled
module, and the pages of its API reference). A kernel called outside them raises :class:`LimitError`, also where the
real library documents a limit without checking it and would compute something else.

The arithmetic of the stand-ins has no such limits: :func:`lifted` switches the checks off, for instance to compare
a kernel with a CPU operator on tiny tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["LimitError", "lifted", "require"]


class LimitError(RuntimeError, ValueError):
    """A kernel was called with arguments that the device does not support.

    Both types, because the real library raises ``ValueError`` from Python and ``RuntimeError`` from C++.
    """


_lifted = 0


@contextmanager
def lifted() -> Iterator[None]:
    """Compute outside the device's limits within the block, in the whole process. May be nested."""
    global _lifted
    _lifted += 1
    try:
        yield
    finally:
        _lifted -= 1


def require(holds: bool, kernel: str, expected: str, found: object) -> None:
    """Raise unless a limit of a kernel holds or the limits are lifted.

    Args:
        holds: whether the call is within the limit.
        kernel: name of the kernel, as in ``mx_driving``.
        expected: the limit, in words.
        found: the offending value.

    Raises:
        LimitError: the limit does not hold.
    """
    if holds or _lifted:
        return
    raise LimitError(
        f"mx_driving.{kernel}: the device takes {expected}, found {found}. Call the original operator here, "
        "or lift the limits of the device: `with npu_emulator.limits.lifted():`."
    )
