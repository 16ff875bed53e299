"""``torch_npu.utils.flops_count``, whose counter is in the NPU's operators: it can be imported and not be made."""

from __future__ import annotations

from typing import NoReturn

from npu_emulator.torch_npu.npu._refusals import missing_name, refusing_class

__all__ = ["FlopsCounter"]

FlopsCounter = refusing_class(
    "torch_npu.utils.flops_count.FlopsCounter", "the operators of the NPU count, and the emulated ones do not"
)


def __getattr__(name: str) -> NoReturn:
    raise missing_name("torch_npu.utils.flops_count", name)
