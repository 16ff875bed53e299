"""Programs whose tests have a mock in place of torch."""

from __future__ import annotations

import sys
from unittest import mock

import pytest

import patchcore as pc
from torch_npu_patches.transfer_to_npu.equal_devices import EqualDevices


def test_the_memory_of_a_mock_is_not_taken_for_that_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = mock.MagicMock()
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pc.Patcher([pc.Patch("equal", [EqualDevices()])], plugins=[]) as patcher:
        found = patcher.report()["equal"]
    assert found.status == "failed"
    assert "torch:device is no class, but an object of MagicMock" in found.reason
