"""The ``TorchDispatchMode`` that passes every operator to a tracer; the only module here that imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, Optional

import torch

from npu_migrate import private_torch
from npu_migrate.private_torch import FakeTensor, OpOverload, TorchDispatchMode

__all__ = ["make_mode"]

_NPU_KEY = "PrivateUse1"
#: Asked by Module.to, computes nothing, and reaches a mode only where the emulated device has an answer of its own.
_QUESTION = "aten::_has_compatible_shallow_copy_type"
_NPU = private_torch.get_privateuse1_backend_name


def make_mode(tracer: Any) -> Callable[[], TorchDispatchMode]:
    """Return a function that makes a mode, one for each thread, that reports to ``tracer``.

    Args:
        tracer: a :class:`~npu_migrate.ops.tracing.Tracer`.
    """
    return lambda: _OperatorMode(tracer)


class _OperatorMode(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, tracer: Any) -> None:
        super().__init__()
        self._tracer = tracer
        self._callers: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(issubclass(kind, FakeTensor) for kind in types):
            return func(*args, **kwargs)  # nothing is computed
        if any(kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for kind in types):
            return NotImplemented  # a tensor subclass: the operators that it runs on its inner tensors come here then
        if types or not isinstance(func, OpOverload):
            # autograd copies the tensors that it saves (TensorImpl::shallow_copy_and_detach), by an operator only under
            # a mode
            return func(*args, **kwargs)
        name = func.name()
        if name == _QUESTION:
            return func(*args, **kwargs)
        result = None
        raised = True
        try:
            given = list(_tensors((*args, *kwargs.values())))
            result = self._run(func, name, given, args, kwargs)
            raised = False
        finally:
            device = _device((*given, *_tensors((result,))), kwargs.get("device"))
            if device is not None:
                dtypes = sorted({str(tensor.dtype)[6:] for tensor in given})
                caller = self._callers[-1] if self._callers else None
                self._tracer.saw(name, device, dtypes, _shapes((*args, *kwargs.values())), caller, raised)
        return result

    def _run(self, func: OpOverload, name: str, given: Any, args: Any, kwargs: Any) -> Any:
        device = _device(given, kwargs.get("device"))
        if device != _NPU() or name in self._tracer.kernels or not _is_composite(name):
            return func(*args, **kwargs)
        self._callers.append(name)
        try:
            with self:  # the kernel that func() would find as well, but under the mode
                return func.redispatch(
                    private_torch.DispatchKeySet(private_torch.DispatchKey.PrivateUse1), *args, **kwargs
                )
        finally:
            self._callers.pop()


def _is_composite(name: str) -> bool:
    """Return whether an operator with NPU tensors runs a kernel that is the same for every device."""
    has = private_torch.dispatch_has_kernel_for_dispatch_key
    return not has(name, _NPU_KEY) and (
        has(name, "CompositeExplicitAutograd") or has(name, "CompositeExplicitAutogradNonFunctional")
    )


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _device(tensors: Any, given: Optional[Any]) -> Optional[str]:
    """The kind of device of a call: the first that is not the CPU; ``None`` for a call without tensors."""
    kinds = [tensor.device.type for tensor in tensors]
    if given is not None:
        kinds.append(torch.device(given).type)
    return next((kind for kind in kinds if kind != "cpu"), kinds[0] if kinds else None)


def _shapes(values: Any) -> str:
    """The shapes of tensors among arguments, as text; of a list the number of tensors and the first shape."""
    texts = []
    for value in values:
        if isinstance(value, torch.Tensor):
            texts.append(str(list(value.shape)))
        elif isinstance(value, (list, tuple)):
            shapes = [list(item.shape) for item in value if isinstance(item, torch.Tensor)]
            if shapes:
                texts.append(f"{len(shapes)} x {shapes[0]}" + (", ..." if any(s != shapes[0] for s in shapes) else ""))
    return " ".join(texts)
