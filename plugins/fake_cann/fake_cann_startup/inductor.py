"""Refuses the default backend of ``torch.compile`` for the device, by its name.

It is inductor, which compiles for an NPU with triton-ascend, to machine code of an NPU. torch_npu adds itself to
inductor in its package ``torch_npu._inductor``, which the first compilation imports. Without triton-ascend it adds
nothing, and inductor ends with an assertion that names no cause.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn, Optional

__all__ = ["AfterInductor", "refuse_inductor"]

_PACKAGE = "torch_npu._inductor"
_TEXT = (
    "NotEmulated: the default backend of torch.compile (inductor) compiles to machine code of an NPU, which the fake "
    'CANN cannot run. Choose torch.compile(..., backend="aot_eager") here: the same graph, run operator by operator'
)


class _Refusing:
    """Takes the place of inductor's scheduling and of its wrapper for the device."""

    supports_caching = False  # inductor reads it before it creates the wrapper

    def __init__(self, *arguments: Any) -> None:
        raise NotImplementedError(_TEXT)

    @staticmethod
    def create(*arguments: Any) -> NoReturn:
        """Raise, where inductor would create the code that calls its kernels."""
        raise NotImplementedError(_TEXT)


def refuse_inductor() -> None:
    """Let inductor refuse graphs on the device ``npu``. Graphs on the CPU are compiled as before."""
    from fake_cann import private_torch

    private_torch.register_backend_for_device("npu", _Refusing, _Refusing)


class AfterInductor(importlib.abc.MetaPathFinder):
    """Calls :func:`refuse_inductor` as soon as torch_npu has added itself to inductor."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Return the spec of torch_npu's package with another loader; nothing for other modules."""
        if fullname != _PACKAGE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """Executes a module as its own loader does, and then refuses inductor.

    Args:
        loader: the module's own.
    """

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        """Return the module that the loader creates."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, which keeps its own loader."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        refuse_inductor()
