"""The pytest plugin: ``pytest --emulate-npu`` and the fixture ``emulated_npu``."""

from __future__ import annotations

from typing import Any

import pytest

from patchcore.plugin import counted

__all__ = ["emulated_npu"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("npu-emulator")
    group.addoption(
        "--emulate-npu",
        action="store_true",
        help="emulate an NPU in this test run: torch gets a device npu, torch_npu and mx_driving can be imported",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Emulate from the start, so that test modules may import the emulated libraries."""
    if config.getoption("--emulate-npu"):
        from npu_emulator import EmulationError, install

        try:
            install()
        except EmulationError as error:
            raise pytest.UsageError(f"--emulate-npu: {error}") from error


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return the line at the top of a test run: the NPU is emulated."""
    if not config.getoption("--emulate-npu"):
        return []
    from npu_emulator.installation import current_settings

    settings = current_settings()
    return [f"npu: emulated, {counted(settings.devices, 'device')}, core {settings.core}"]


@pytest.fixture(scope="session")
def emulated_npu() -> Any:
    """``torch.device("npu:0")``, emulated: from the first test that asks for it to the end of the process.

    torch cannot forget a device. Where other tests must not see one, run those that use this in a process of their own,
    with ``pytest --emulate-npu`` and a folder or marker that selects them.
    """
    from npu_emulator import install

    install()
    import torch

    return torch.device("npu:0")
