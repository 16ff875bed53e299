"""``torch.npu``: which devices there are, which is current, and what they are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

from npu_emulator.settings import Settings
from npu_emulator.torch_npu._settings import visible

pytestmark = pytest.mark.skipif(torch.npu.device_count() < 3, reason="needs three devices")


class TestCurrentDevice:
    @pytest.mark.parametrize("device", [2, "npu:2", torch.device("npu", 2)], ids=["index", "name", "device"])
    def test_it_is_set_by_index_name_or_device(self, device: object) -> None:
        torch.npu.set_device(device)
        assert torch.npu.current_device() == 2
        assert torch.zeros(1, device="npu").device.index == 2

    def test_a_negative_index_changes_nothing(self) -> None:
        torch.npu.set_device(1)
        torch.npu.set_device(-1)
        assert torch.npu.current_device() == 1

    def test_there_is_no_such_device(self) -> None:
        with pytest.raises(RuntimeError, match="99"):
            torch.npu.set_device(99)
        assert torch.npu.current_device() == 0

    def test_other_devices_are_refused(self) -> None:
        with pytest.raises(ValueError, match="Expected a npu device, but got: cpu"):
            torch.npu.set_device("cpu")

    def test_every_thread_has_its_own(self) -> None:
        torch.npu.set_device(1)
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(torch.npu.current_device()))
        thread.start()
        thread.join()
        assert seen == [0]


class TestDeviceContext:
    def test_it_ends_with_the_block(self) -> None:
        with torch.npu.device("npu:1"):
            with torch.npu.device(2):
                assert torch.npu.current_device() == 2
            assert torch.npu.current_device() == 1
        assert torch.npu.current_device() == 0

    def test_it_ends_with_an_exception(self) -> None:
        with pytest.raises(ZeroDivisionError), torch.npu.device(1):
            1 / 0
        assert torch.npu.current_device() == 0

    @pytest.mark.parametrize("device", [None, -1])
    def test_none_and_negative_change_nothing(self, device: object) -> None:
        torch.npu.set_device(1)
        with torch.npu.device(device):
            assert torch.npu.current_device() == 1
        assert torch.npu.current_device() == 1

    def test_device_of_follows_a_tensor_and_a_storage(self) -> None:
        tensor = torch.zeros(1, device="npu:2")
        for thing in (tensor, tensor.untyped_storage()):
            with torch.npu.device_of(thing):
                assert torch.npu.current_device() == 2
        with torch.npu.device_of(torch.zeros(1)):
            assert torch.npu.current_device() == 0


class TestWhatTheDevicesAre:
    def test_the_chip_has_a_name_and_properties(self) -> None:
        properties = torch.npu.get_device_properties(1)
        assert properties.name == torch.npu.get_device_name("npu:1") == "Ascend910B3"
        assert (properties.total_memory, properties.cube_core_num, properties.vector_core_num) == (64 << 30, 20, 40)

    @pytest.mark.parametrize(
        "ask",
        [
            torch.npu.get_device_name,
            torch.npu.get_device_properties,
            torch.npu.mem_get_info,
            torch.npu.utilization,
            torch.npu.synchronize,
            torch.npu.memory_allocated,
            lambda index: torch.npu.can_device_access_peer(0, index),
        ],
        ids=["name", "properties", "memory", "utilization", "synchronize", "allocated", "peer"],
    )
    def test_there_is_no_such_device(self, ask: object) -> None:
        with pytest.raises(AssertionError, match="Invalid device id 99"):
            ask(99)

    def test_different_devices_reach_each_other(self) -> None:
        assert torch.npu.can_device_access_peer(0, 1)
        assert not torch.npu.can_device_access_peer(1, 1)

    def test_an_idle_device_is_not_busy(self) -> None:
        assert torch.npu.utilization() == 0

    def test_free_memory_shrinks_by_what_tensors_hold(self) -> None:
        free, total = torch.npu.mem_get_info(1)
        tensor = torch.zeros(1 << 20, device="npu:1")
        assert torch.npu.mem_get_info(1) == (free - 4 * tensor.numel(), total)

    def test_the_capability_is_what_the_environment_pretends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "8.0")
        assert torch.npu.get_device_capability() == (8, 0)
        monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "eight")
        with pytest.warns(UserWarning, match="'major.minor'"):
            assert torch.npu.get_device_capability() is None
        monkeypatch.delenv("TORCH_NPU_DEVICE_CAPABILITY")
        with pytest.warns(UserWarning, match="no compute capability"):
            assert torch.npu.get_device_capability() is None


class TestVisibleDevices:
    """The rules of torch_npu's ``_parse_visible_devices`` and ``device_count``."""

    @pytest.mark.parametrize(
        ("value", "count"),
        [
            ("0,1,2", 3),
            ("3", 1),
            ("5,7", 2),
            ("", 0),
            ("2,1", 0),
            ("1,1", 0),
            ("0,1,9", 2),
            ("0,1 2", 2),
            ("all", 0),
            ("0,,1", 1),
        ],
    )
    def test_the_variable_limits_the_devices(self, value: str, count: int) -> None:
        assert visible(Settings(devices=8), {"ASCEND_RT_VISIBLE_DEVICES": value}).devices == count

    def test_all_are_visible_without_it(self) -> None:
        assert visible(Settings(devices=8), {}) == Settings(devices=8)

    def test_a_process_counts_those_that_it_sees(self) -> None:
        program = "import npu_emulator; npu_emulator.install(); import torch; print(torch.npu.device_count())"
        environ = {**os.environ, "ASCEND_RT_VISIBLE_DEVICES": "1,3"}
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ, timeout=120)
        assert ran.stdout.split() == ["2"], ran.stderr


class TestFork:
    """As on the hardware: ``torch.npu`` refuses a process forked after the first use of the device."""

    PROGRAM = """
import os, sys
import npu_emulator; npu_emulator.install()
import torch
if sys.argv[1] == "used":
    torch.zeros(1, device="npu")
assert torch.npu.is_initialized() == (sys.argv[1] == "used")
child = os.fork()
if child == 0:
    torch.manual_seed(1)
    try:
        torch.npu.current_device()
        outcome = "used"
    except RuntimeError as error:
        outcome = "refused" if "Cannot re-initialize NPU in forked subprocess" in str(error) else str(error)
    print(outcome, torch.npu.is_initialized(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""

    @pytest.mark.parametrize(("before", "outcome"), [("used", "refused False"), ("unused", "used True")])
    def test_a_fork_after_the_first_use_cannot_use_it(self, before: str, outcome: str) -> None:
        command = [sys.executable, "-c", self.PROGRAM, before]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert ran.stdout.strip() == outcome, ran.stderr
