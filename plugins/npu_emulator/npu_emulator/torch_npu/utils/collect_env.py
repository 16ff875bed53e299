"""``torch_npu.utils.collect_env``, of which the version of CANN is emulated: there is no CANN."""

from __future__ import annotations

from typing import NoReturn

import torch

from npu_emulator.torch_npu.npu._refusals import missing_name

__all__ = ["get_cann_version"]


def get_cann_version() -> str:
    """Return the version of CANN, ``"not known"`` as where CANN is not installed (torch_npu/utils/collect_env.py)."""
    return str(torch.version.cann)


def __getattr__(name: str) -> NoReturn:
    raise missing_name("torch_npu.utils.collect_env", name)
