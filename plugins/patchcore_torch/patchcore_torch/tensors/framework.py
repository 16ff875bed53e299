"""torch as the framework of ``patchcore verify``: its devices, and tensors in the place of plain values."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Optional

from patchcore import Case, SettingsError
from patchcore.plugin import CPU_DEVICE, CallOutcome, Execution, Framework
from patchcore_torch.tensors import comparison
from patchcore_torch.tensors.execution import TensorExecution

__all__ = ["Tensors"]


class Tensors(Framework):
    """Makes calls with tensors of torch and arrays of numpy; both are used where a case brings them along."""

    def default_device(self) -> str:
        """Return ``"npu"`` where torch has one, real or emulated, else ``"cpu"``; imports torch if it is installed."""
        try:
            torch: Any = importlib.import_module("torch")
            return "npu" if torch.npu.is_available() else CPU_DEVICE
        except (ImportError, AttributeError):
            return CPU_DEVICE

    def require_device(self, device: str) -> None:
        try:
            import torch
        except ImportError:
            return  # checks may do without
        try:
            torch.empty(0, device=device)
        except Exception as error:
            raise SettingsError(f"--device {device}: torch has no such device here ({error})") from error

    def wait_for(self, device: str) -> None:
        torch = sys.modules.get("torch")
        synchronize = getattr(getattr(torch, device.partition(":")[0], None), "synchronize", None)
        if synchronize is not None:
            synchronize(*([device] if ":" in device else []))

    def execution(self, case: Case, device: Optional[str] = None, **options: Any) -> Execution:
        return TensorExecution(case, device, **options)

    def rounded(self, precise: CallOutcome, like: CallOutcome, dtype: str) -> CallOutcome:
        return comparison.rounded(precise, like, dtype)

    def compare_values(self, actual: Any, wanted: Any, rtol: float) -> tuple[float, str]:
        numbers = comparison.compare_numbers(actual, wanted, rtol)
        return super().compare_values(actual, wanted, rtol) if numbers is None else numbers
