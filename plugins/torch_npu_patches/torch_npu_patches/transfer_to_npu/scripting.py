"""What torch's compilers know of wrapped functions and of the device that stands in for CUDA.

torch.jit.script and device contexts know the factories by tables, which are kept in step with wrapped ones.

Both tables are filled at first use with what is in ``torch`` at that time. They are filled here before anything is
wrapped. (Those of torch.compile, which would be dear to import for that, are filled with what is
inside the wrappers: :mod:`torch_npu_patches.wrapping`.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable, Optional

from torch_npu_patches.transfer_to_npu.devices import CUDA, NPU
from torch_npu_patches.wrapping import innermost

__all__ = ["has_triton", "is_triton_capable", "make_find_builtin", "make_folded", "make_is_cuda_of_traced"]


def make_find_builtin(original: Callable[[Any], Optional[str]]) -> Callable[[Any], Optional[str]]:
    """Return a ``torch.jit._builtins._find_builtin`` that knows a wrapped factory for the operator that it calls."""
    from torch_npu_patches.private_torch import builtins as _builtins
    from torch_npu_patches.private_torch import device as _device

    _builtins._get_builtin_table()
    _device._device_constructors()

    def _find_builtin(fn: Any) -> Optional[str]:
        return original(innermost(fn))

    return _find_builtin


def make_folded(original: Iterable[Any]) -> dict[Any, None]:
    """Return a table of functions that torch.compile calls while it compiles, with what is inside the wrappers in it.

    The table has ``torch.cuda.is_available`` and others as they are when torch._dynamo is imported: wrappers, perhaps.
    torch.compile follows the call of a wrapper and then looks for the function inside.
    """
    functions = list(original)
    return dict.fromkeys([*functions, *map(innermost, functions)])


def make_is_cuda_of_traced(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a ``TensorVariable.method_attr_is_cuda`` that answers as ``is_cuda`` of the tensor itself does."""
    from torch_npu_patches.private_torch import VariableTracker

    def method_attr_is_cuda(self: Any, tx: Any) -> Any:
        if self.device is None:
            return original(self, tx)
        return VariableTracker.build(tx, self.device.type in (CUDA, NPU))

    return method_attr_is_cuda


def has_triton() -> bool:
    """Return ``False``: Triton generates no code for a device that stands in for CUDA.

    Takes the place of ``torch.utils._triton.has_triton``. Where ``triton`` can be imported, torch's own asks for every
    ``torch.compile`` if the compute capability of CUDA is 7 or more. An NPU has no such number.
    torch_npu's own layer answers the same.
    """
    return False


def is_triton_capable(device: Any = None) -> bool:
    """Return ``False``, as :func:`has_triton` does.

    Takes the place of ``CudaInterface.is_triton_capable``, which the code generators of ``torch._inductor`` call.
    """
    return False
