"""What torch.jit.script, device contexts and torch.compile know the factories by, kept in step with wrapped ones.

All three have tables of torch's functions, filled at first use with what is in ``torch`` at that time. TorchScript's
and that of the device contexts are filled here before anything is wrapped; the one of torch.compile, which would be
dear to import for that, is filled with what is inside the wrappers.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from torch_npu_patches.transfer_to_npu.devices import CUDA, NPU
from torch_npu_patches.transfer_to_npu.wrappers import innermost

__all__ = ["make_find_builtin", "make_is_cuda_of_traced", "make_load_object"]


def make_find_builtin(original: Callable[[Any], Optional[str]]) -> Callable[[Any], Optional[str]]:
    """Return a ``torch.jit._builtins._find_builtin`` that knows a wrapped factory for the operator that it calls."""
    from torch.jit import _builtins
    from torch.utils import _device

    _builtins._get_builtin_table()
    _device._device_constructors()

    def _find_builtin(fn: Any) -> Optional[str]:
        return original(innermost(fn))

    return _find_builtin


def make_load_object(original: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a ``torch._dynamo.trace_rules.load_object`` that finds what is inside a wrapper."""

    def load_object(name: str) -> Any:
        return innermost(original(name))

    return load_object


def make_is_cuda_of_traced(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a ``TensorVariable.method_attr_is_cuda`` that answers as ``is_cuda`` of the tensor itself does."""
    from torch._dynamo.variables.base import VariableTracker

    def method_attr_is_cuda(self: Any, tx: Any) -> Any:
        if self.device is None:
            return original(self, tx)
        return VariableTracker.build(tx, self.device.type in (CUDA, NPU))

    return method_attr_is_cuda
