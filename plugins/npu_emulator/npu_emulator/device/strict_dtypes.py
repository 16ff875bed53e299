"""Refuses calls with dtypes that torch_npu's documentation leaves out, where the user wants that.

The table is that of ``patchcore ops`` (distribution npu-migrate). A dispatch mode looks at every call of the
thread that starts the device; calls of other threads are not looked at.
"""

from __future__ import annotations

from typing import Any, Callable

import patchcore as pc
from npu_emulator.device.arguments import tensors_in
from npu_emulator.errors import EmulationError
from npu_emulator.private_torch import TorchDispatchMode
from npu_emulator.settings import STRICT_DTYPES

__all__ = ["StrictDtypes", "register"]


def register() -> None:
    """Look at the dtypes of every call from now on, in this thread.

    Raises:
        EmulationError: npu-migrate is not installed.
    """
    try:
        from npu_migrate.ops.tables import excluded_dtypes
    except ImportError as error:
        install = pc.install_command("npu-migrate")
        raise EmulationError(f"npu_emulator: {STRICT_DTYPES}=1 needs the table of npu-migrate: {install}") from error
    StrictDtypes(excluded_dtypes).__enter__()


class StrictDtypes(TorchDispatchMode):
    """Raises a :class:`RuntimeError` for an operator of NPU tensors with a dtype that it does not take on an NPU.

    Args:
        excluded: returns which dtypes of a call an operator does not take.
    """

    supports_higher_order_operators = True

    def __init__(self, excluded: Callable[[str, set[str]], tuple[str, ...]]) -> None:
        super().__init__()
        self._excluded = excluded

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, or refuse it."""
        kwargs = kwargs or {}
        tensors = list(tensors_in((*args, *kwargs.values())))
        if any(tensor.device.type == "npu" for tensor in tensors):
            found = self._excluded(str(getattr(func, "name", str)()), {str(tensor.dtype)[6:] for tensor in tensors})
            if found:
                raise RuntimeError(
                    f"{func.name()} does not take {' and '.join(found)} on an NPU, by torch_npu's documentation "
                    "(--strict-dtypes): cast its arguments, or compute it on the CPU"
                )
        return func(*args, **kwargs)
