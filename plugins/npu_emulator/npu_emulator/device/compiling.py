"""``torch.compile`` on the emulated device: what torch's compilers are told once they are imported.

The front end and the back ends that run what they are given (``"eager"``, ``"aot_eager"``) work as on any device. Code
is generated for no NPU here, so ``"inductor"`` raises :class:`npu_emulator.errors.NotEmulated`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Callable

from npu_emulator.notifying_loader import NotifyingFinder

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
    sys.meta_path.insert(0, NotifyingFinder({name: _registering(part) for name, part in PARTS.items()}))
    for name, part in PARTS.items():
        if name in sys.modules:
            importlib.import_module(part).register()


def _registering(part: str) -> Callable[[ModuleType], None]:
    return lambda _: importlib.import_module(part).register()
