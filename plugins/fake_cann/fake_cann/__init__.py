"""A fake CANN: the real ``torch_npu``, unchanged, on a machine without an NPU.

torch_npu calls CANN, a set of libraries that drive the hardware. Here small libraries have the names that it calls:
memory of a device is memory of the process, and an operator is computed by PyTorch on the CPU. So the code of
torch_npu runs as it is, with results of a CPU::

    import fake_cann

    fake_cann.install()  # before torch
    import torch

    print(torch.ones(3, device="npu") + 1)

``python -m fake_cann run train.py`` does the same for a program and all its children. Importing this package imports
neither torch nor torch_npu and changes nothing.

``csrc/runtime`` has devices, memory, streams and events, ``csrc/collectives`` the exchange between ranks,
``csrc/operators`` the entry of all operators; ``operators.txt`` names the code that computes each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fake_cann.errors import FakeCannError, RealCannError

if TYPE_CHECKING:
    from fake_cann.environment import install as install

__all__ = ["FakeCannError", "RealCannError", "install"]


def __getattr__(name: str) -> Any:
    """Import the modules that compile and load the libraries only when used: every process lists the plugin."""
    if name != "install":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fake_cann.environment import install

    return install
