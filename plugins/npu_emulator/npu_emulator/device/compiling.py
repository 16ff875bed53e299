"""``torch.compile`` on the emulated device: what torch's compilers are told once they are imported.

The front end and the back ends that run what they are given (``"eager"``, ``"aot_eager"``) work as on any device. Code
is generated for no NPU here, so ``"inductor"`` raises :class:`npu_emulator.errors.NotEmulated`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Optional

from npu_emulator.notifying_loader import NotifyingLoader

__all__ = ["register"]

#: Module of torch -> module of ours that registers the device with it.
PARTS = {
    "torch._dynamo.device_interface": "npu_emulator.device.compilers.front_end",
    "torch._inductor.codegen.common": "npu_emulator.device.compilers.code_generator",
}


def register() -> None:
    """Register the device with torch's compilers as soon as each is imported. Once per process.

    They take seconds to import, and most programs never do.
    """
    sys.meta_path.insert(0, _Finder())
    for name, part in PARTS.items():
        if name in sys.modules:
            importlib.import_module(part).register()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of :data:`PARTS` where they are, and has the device registered after they were executed."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Return the module's spec, or ``None`` for every other module."""
        if name not in PARTS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = NotifyingLoader(spec.loader, lambda _: importlib.import_module(PARTS[name]).register())
        return spec
