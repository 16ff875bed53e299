"""The pytest plugin: ``pytest --emulate-npu`` and the fixture ``emulated_npu``."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import pytest

from patchcore.plugin import counted

__all__ = ["emulated_npu"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("npu-emulator")
    for option, what in (
        ("--emulate-npu", "the real torch_npu where it and fake-cann are installed, else an imitation"),
        ("--emulate-npu=imitation", "an imitation of torch_npu"),
        ("--emulate-npu=cann", "the real torch_npu"),
    ):
        group.addoption(
            option,
            dest="emulate_npu",
            action="store_const",
            const=option.partition("=")[2] or "auto",
            help=f"emulate an NPU in this test run: torch gets a device npu; torch_npu is {what}",
        )


def pytest_configure(config: pytest.Config) -> None:
    """Emulate from the start, so that test modules may import the emulated libraries."""
    chosen = config.getoption("emulate_npu")
    if chosen:
        from npu_emulator import EmulationError, install

        try:
            install(adapter=None if chosen == "auto" else chosen)
        except EmulationError as error:
            raise pytest.UsageError(f"--emulate-npu: {error}") from error


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Return the lines at the top of a test run: which torch_npu it has, and how to get the real one."""
    if not config.getoption("emulate_npu"):
        return []
    from npu_emulator.installation import current_settings, is_imitated, why_imitated

    if not is_imitated():
        return [f"npu: emulated, torch_npu {metadata.version('torch_npu')} on a fake CANN"]
    settings = current_settings()
    line = f"npu: emulated by an imitation of torch_npu, {counted(settings.devices, 'device')}, core {settings.core}"
    return [line, *filter(None, [why_imitated()])]


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
