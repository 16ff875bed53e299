"""The Python functions that torch's C++ calls about the device.

The guard is asked in the middle of a backward pass, also while C++ unwinds because a hook or a kernel in Python has
raised. Then the exception is still pending in the interpreter, every call of a Python function fails, and the guard's
failure ends the process. So the guard first takes the pending exception away, and the entry into the engine raises it
again.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any, Callable, Optional

import torch

from npu_emulator import private_torch
from npu_emulator.private_torch import acc as _acc

__all__ = ["Guard", "Hooks", "install"]

# Its result does not matter: ctypes raises a pending exception after a call of Python's own functions. Without
# arguments and result the call makes no object, which would fail while an exception is pending.
_raise_pending = ctypes.pythonapi.Py_IsInitialized
_raise_pending.argtypes = []
_raise_pending.restype = None


class _Thread(threading.local):
    pending: Optional[BaseException] = None


_thread = _Thread()
_DEVICE_TYPE = private_torch.DeviceType.PrivateUse1


class Hooks(_acc.PrivateUse1Hooks):
    """Declares the device to torch's C++."""

    def is_available(self) -> bool:
        """Return True: the device is available."""
        return True

    def is_built(self) -> bool:
        """Return True: torch is built with the device."""
        return True

    def has_primary_context(self, dev_id: int) -> bool:
        """Return True: a device needs no preparation."""
        return True


class Guard(_acc.DeviceGuard):
    """Returns to torch's C++ the kind of device that it guards; it does not know the current device."""

    def type_(self) -> private_torch.DeviceType:
        """Return the kind of device."""
        try:
            _raise_pending()  # first: nothing else works while an exception is pending
        except BaseException as error:
            _thread.pending = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)  # not of here
        return _DEVICE_TYPE


def install() -> tuple[Hooks, Guard]:
    """Register hooks and guard, and let backward passes raise the exception that the guard has taken away.

    Returns:
        The objects to which torch keeps raw pointers: the caller must never delete them.
    """
    hooks, guard = Hooks(), Guard()
    _acc.register_python_privateuseone_hook(hooks)
    _acc.register_python_privateuseone_device_guard(guard)
    # torch.autograd has a reference of its own, which is the one that backward() and grad() use.
    torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward = _raising_what_was_pending(
        private_torch.engine_run_backward
    )
    return hooks, guard


def _raising_what_was_pending(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def run_and_raise(*args: Any, **kwargs: Any) -> Any:
        try:
            return run(*args, **kwargs)
        except SystemError:
            # C++ reports a failure, and finds no exception where Python keeps it.
            pending, _thread.pending = _thread.pending, None
            if pending is None:
                raise
        raise pending

    return run_and_raise
