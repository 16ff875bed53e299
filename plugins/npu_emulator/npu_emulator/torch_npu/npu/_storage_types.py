"""``torch.npu.FloatStorage`` and its like: names under which torch knows typed storages of the device."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from npu_emulator import private_torch
from npu_emulator.private_torch import LegacyStorage as _LegacyStorage
from npu_emulator.torch_npu.npu._refusals import refuse

__all__ = [
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CharStorage",
    "DoubleStorage",
    "FloatStorage",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "ShortStorage",
]


def _storage_type(name: str, dtype: torch.dtype) -> type:
    def refuse_buffer(cls: type, *_: Any, **__: Any) -> NoReturn:
        refuse(f"torch.npu.{name}.from_buffer", "storages of the device cannot view memory of the host")

    attributes = {
        "__doc__": f"Storage of {dtype} on the NPU.",
        # torch reads the kind of device off the module's name (torch.storage._get_device_from_module).
        "__module__": "torch.npu",
        "dtype": dtype,
        "_dtype": dtype,
        "from_buffer": classmethod(refuse_buffer),
    }
    storage_type = type(_LegacyStorage)(name, (_LegacyStorage,), attributes)
    private_torch.storage_classes.add(storage_type)
    return storage_type


BFloat16Storage = _storage_type("BFloat16Storage", torch.bfloat16)
BoolStorage = _storage_type("BoolStorage", torch.bool)
ByteStorage = _storage_type("ByteStorage", torch.uint8)
CharStorage = _storage_type("CharStorage", torch.int8)
DoubleStorage = _storage_type("DoubleStorage", torch.float64)
FloatStorage = _storage_type("FloatStorage", torch.float32)
HalfStorage = _storage_type("HalfStorage", torch.float16)
IntStorage = _storage_type("IntStorage", torch.int32)
LongStorage = _storage_type("LongStorage", torch.int64)
ShortStorage = _storage_type("ShortStorage", torch.int16)
