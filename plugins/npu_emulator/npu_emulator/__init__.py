"""An emulated NPU, for machines without one: an ``npu`` device in torch, ``torch_npu`` and ``mx_driving``.

Importing this package changes nothing. After :func:`install`, models train on ``npu:0`` as they do on the CPU, and the
kernels that NPU patches call are there, as reference implementations in plain PyTorch::

    import npu_emulator

    npu_emulator.install()
    import torch

    torch.ones(2, device="npu:0").npu().cpu()
    npu_emulator.mx_driving.calls["deform_conv2d"]   # how often a kernel ran, and so whether a patch was taken

Neither importing the package nor installing imports torch. ``patchcore run --emulate-npu train.py`` does it for whole
runs, and ``pytest --emulate-npu`` for tests.

``installation.py`` and ``stand_ins.py`` answer imports. ``device/`` gives torch the device, either in Python
(``dlpack/``) or compiled (``native/csrc``), behind one interface (``interface.py``); both share ``kernels/``,
``hccl.py`` and ``compiling.py``. ``torch_npu/`` and ``mx_driving/`` are the libraries, written with nothing but
torch.
"""

from __future__ import annotations

from npu_emulator import limits, mx_driving
from npu_emulator.errors import EmulationError, NotEmulated, RealLibraryError
from npu_emulator.installation import Installation, install, is_installed

__all__ = [
    "EmulationError",
    "Installation",
    "NotEmulated",
    "RealLibraryError",
    "install",
    "is_installed",
    "limits",
    "mx_driving",
]
