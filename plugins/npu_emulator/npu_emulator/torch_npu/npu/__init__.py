"""``torch.npu``: the runtime of the emulated device.

It has the 142 public names that ``torch_npu.npu.__all__`` had in the 2.6 to 2.9 releases of torch_npu (repository
Ascend/pytorch, ``torch_npu/npu/__init__.py``, commits a145e51 and 0037c39 together). Each works as its docstring says,
or raises :class:`npu_emulator.errors.NotEmulated`; names that are not known raise ``AttributeError``.
"""

# ruff: noqa: F401, F403  this module is where the names of its submodules meet, and each says its own in __all__

from __future__ import annotations

from typing import Any

from npu_emulator.torch_npu.npu import (
    _current_streams,
    _devices,
    _hardware,
    _initialization,
    _storage_types,
    _tensor_types,
    _utils,
    amp,
    autocast_utils,
    deterministic,
    graphs,
    memory,
    npu_config,
    random,
    streams,
    utils,
)
from npu_emulator.torch_npu.npu._current_streams import *
from npu_emulator.torch_npu.npu._devices import *
from npu_emulator.torch_npu.npu._hardware import *
from npu_emulator.torch_npu.npu._initialization import _is_in_bad_fork, _lazy_call, _lazy_init, init, is_initialized
from npu_emulator.torch_npu.npu._mstx import mstx
from npu_emulator.torch_npu.npu._refusals import missing_name
from npu_emulator.torch_npu.npu._storage_types import *
from npu_emulator.torch_npu.npu._tensor_types import *
from npu_emulator.torch_npu.npu._utils import _get_device_index
from npu_emulator.torch_npu.npu.autocast_utils import *
from npu_emulator.torch_npu.npu.deterministic import *
from npu_emulator.torch_npu.npu.graphs import *
from npu_emulator.torch_npu.npu.memory import *
from npu_emulator.torch_npu.npu.npu_config import *
from npu_emulator.torch_npu.npu.random import *
from npu_emulator.torch_npu.npu.streams import *
from npu_emulator.torch_npu.npu.utils import clear_npu_overflow_flag, get_npu_overflow_flag

#: Whose names are those of this module, too, but for some.
_PARTS = (
    _current_streams,
    _devices,
    _hardware,
    _storage_types,
    _tensor_types,
    autocast_utils,
    deterministic,
    graphs,
    memory,
    npu_config,
    random,
    streams,
)
_OF_PARTS_ALONE = {"ExternalStream", "recorded_option"}

__all__ = ["clear_npu_overflow_flag", "get_npu_overflow_flag", "init", "is_initialized", "mstx"]
__all__ += sorted({name for part in _PARTS for name in part.__all__} - _OF_PARTS_ALONE)


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return random._generators()
    if name == "_initialized":  # torch.utils.checkpoint keeps the random states of the device if so
        return _initialization._initialized
    raise missing_name("torch_npu.npu", name)
