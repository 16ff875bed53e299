"""The stand-in for ``torch_npu``: importing it gives this process its emulated NPUs.

``npu_emulator.install()`` makes ``import torch_npu`` resolve to this package. ``torch_npu.npu`` is ``torch.npu``, and
``torch_npu.npu_*`` are the operators of ``torch.ops.npu``.
"""

from __future__ import annotations

from typing import Any


def _autoload() -> None:
    """Do nothing more: torch calls this at the end of its own import, and importing the package was enough."""


# Where this package is imported before torch, the end of the next import is when torch calls the function above.
import torch  # noqa: E402

from npu_emulator import device as _device  # noqa: E402
from npu_emulator.torch_npu import (  # noqa: E402
    _C,
    _settings,
    contrib,
    distributed,
    npu,
    ops,
    optim,
    profiler,
    utils,
)
from npu_emulator.torch_npu.npu._refusals import missing_name  # noqa: E402

__all__ = ["_C", "contrib", "distributed", "npu", "optim", "profiler", "unsupported_dtype", "utils"]

#: The real one has the number of the torch that it is made for; the part after the plus is as in the package metadata.
__version__ = str(torch.__version__).partition("+")[0] + "+emulated"

_device.start(_settings.current_settings())
ops.register()
_C._data_parallel.install()
# The value that torch_npu has where CANN is not installed (torch_npu/utils/collect_env.py); torch.version.cuda stays
# None.
torch.version.cann = "not known"
#: As in torch_npu/_init/registry/backend.py.
unsupported_dtype = [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]


def __getattr__(name: str) -> Any:
    if name.startswith(("npu_", "_npu_")) or name in ops.names():
        return ops.lookup(name)  # raises for operators that are not emulated
    raise missing_name("torch_npu", name)


def __dir__() -> list[str]:
    return [*globals(), *ops.names()]
