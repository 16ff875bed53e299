"""``torch_npu.utils``, of which nothing is public; names that are looked up in it raise what is missing."""

from __future__ import annotations

from typing import NoReturn

from npu_emulator.torch_npu.npu._refusals import missing_name

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    raise missing_name("torch_npu.utils", name)
