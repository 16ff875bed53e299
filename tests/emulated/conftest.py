"""Tests of the emulated NPU: collected only in a process that has one, ``pytest tests/emulated --emulate-npu``.

torch can neither rename nor forget a device, so these tests have a process of their own. ``NPU_EMULATOR_CORE=python``
or ``native`` picks the core.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the folder out unless the NPU is emulated: its modules need the device."""
    return None if config.getoption("emulate_npu", default=False) else True


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark of :func:`checks.check`."""
    config.addinivalue_line("markers", "check(name): one of the behaviours in tests/emulated/checks.py")


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Take the place of the fixture for the core's tests: an emulated device stays to the end of its process."""


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
