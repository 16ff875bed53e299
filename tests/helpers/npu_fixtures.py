"""Fixtures of the folders whose tests run on an emulated NPU from start to end of their process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def as_after_start() -> Iterator[None]:
    """Start every test on device 0 with the same seeds, and with torch's defaults after it."""
    import torch

    torch.manual_seed(0)
    torch.npu.set_device(0)
    yield
    torch.npu.set_device(0)
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
