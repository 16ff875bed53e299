"""Puts the operators of the emulated device into ``mmcv._ext`` when that is imported, and takes them out again.

A device has its operators whether a program uses patches or not, so this is part of the device and no patch. A patch of
an operator is applied on top of it: the import watch of patchcore is in front of this finder on ``sys.meta_path``, and
reports the import when the operators are in place.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Optional

from npu_emulator.notifying_loader import NotifyingLoader

__all__ = ["MODULE", "OperatorsHook"]

#: The module that mmcv's ``ext_loader.load_ext`` imports for every operator.
MODULE = "mmcv._ext"
#: Functions of the module that say how it was built.
_NOT_OPERATORS = frozenset(["get_compiler_version", "get_compiling_cuda_version"])


class OperatorsHook(importlib.abc.MetaPathFinder):
    """Lets the other finders find ``mmcv._ext`` and gives it the operators when its body has run."""

    def __init__(self) -> None:
        self._replaced: list[tuple[ModuleType, str, Any, Any]] = []

    def connect(self) -> None:
        """Have the operators put in place when the module is imported, or now; nothing if it is connected."""
        finders = sys.meta_path
        if self in finders:
            return
        place = finders.index(importlib.machinery.PathFinder) if importlib.machinery.PathFinder in finders else 0
        sys.meta_path.insert(place, self)
        module = sys.modules.get(MODULE)
        if module is not None:
            self.put_operators(module)

    def disconnect(self) -> None:
        """Undo :meth:`connect`: each operator is mmcv's own again, but for one that somebody has replaced since."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for module, name, operator, emulated in reversed(self._replaced):
            if vars(module).get(name) is emulated:
                setattr(module, name, operator)
        self._replaced.clear()

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the spec of ``mmcv._ext`` from the finders behind this one, with a loader that comes back here."""
        if fullname != MODULE or self not in sys.meta_path:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = NotifyingLoader(spec.loader, self.put_operators)
                return spec
        return None

    def put_operators(self, module: ModuleType) -> None:
        """Replace every operator of ``mmcv._ext`` by one that also knows NPU tensors."""
        # Here and not above: these modules import torch, which a program may import after this hook is connected.
        from npu_emulator.mmcv_operators.builds import build_of
        from npu_emulator.mmcv_operators.dispatching import emulate

        # Patches that present another version of mmcv do that in mmcv itself, not here.
        build = build_of(str(getattr(sys.modules.get("mmcv.version"), "__version__", "0")))
        for name, operator in list(vars(module).items()):
            if callable(operator) and not name.startswith("_") and name not in _NOT_OPERATORS:
                emulated = emulate(name, operator, build)
                setattr(module, name, emulated)
                self._replaced.append((module, name, operator, emulated))
