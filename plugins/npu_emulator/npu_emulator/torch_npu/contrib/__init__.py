"""``torch_npu.contrib``, of which the emulator has :mod:`~npu_emulator.torch_npu.contrib.transfer_to_npu`."""

from __future__ import annotations

from typing import NoReturn

from npu_emulator.torch_npu.npu._refusals import missing_name

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    raise missing_name("torch_npu.contrib", name)
