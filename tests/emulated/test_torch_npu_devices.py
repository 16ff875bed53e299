"""``torch.npu``: which devices there are, which is current, and what they are."""

from __future__ import annotations

import pytest
import torch
from running import output_of

from npu_emulator.device.visibility import visible_devices

pytestmark = pytest.mark.skipif(torch.npu.device_count() < 3, reason="needs three devices")


class TestCurrentDevice:
    def test_a_negative_index_changes_nothing(self) -> None:
        torch.npu.set_device(1)
        torch.npu.set_device(-1)
        assert torch.npu.current_device() == 1


class TestDeviceContext:
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
        assert properties.multi_processor_count == 40

    @pytest.mark.parametrize("name", ["major", "warp_size", "gcnArchName"])
    def test_what_only_gpus_have_is_none(self, name: str) -> None:
        assert getattr(torch.npu.get_device_properties(), name) is None

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
            ("0,²", 1),
            ("٣", 0),
            ("0,001", 2),
            ("0," + "9" * 5000, 1),
        ],
    )
    def test_the_variable_limits_the_devices(self, value: str, count: int) -> None:
        assert visible_devices(8, {"ASCEND_RT_VISIBLE_DEVICES": value}) == count

    def test_all_are_visible_without_it(self) -> None:
        assert visible_devices(8, {}) == 8

    def test_a_process_counts_those_that_it_sees_however_often_it_starts_the_device(self) -> None:
        program = (
            "import npu_emulator; npu_emulator.install()\n"
            "import torch\n"
            "from npu_emulator import device, installation\n"
            "print(torch.npu.device_count(), device.start(installation.current_settings()) is device.active())\n"
        )
        assert output_of(program, ASCEND_RT_VISIBLE_DEVICES="1,3") == "2 True\n"


class TestStart:
    """``npu_emulator.device.start()`` in a process that has not imported ``torch_npu``."""

    PROGRAM = """
from npu_emulator import device
from npu_emulator.settings import Settings
core = device.start(Settings(devices=3, chip={chip!r}))
import torch
print(core.device_count(), torch.npu.get_device_name(), torch.ones(1).npu().device)
"""

    def test_it_starts_with_the_settings_that_it_is_given(self) -> None:
        assert output_of(self.PROGRAM.format(chip="Ascend910B1")) == "3 Ascend910B1 npu:0\n"

    @pytest.mark.parametrize("autoload", ["0", "1"])
    def test_it_starts_what_is_installed(self, autoload: str) -> None:
        program = "import npu_emulator; npu_emulator.install(devices=3)" + self.PROGRAM.format(chip="Ascend910B3")
        assert (
            output_of(program, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload, NPU_EMULATOR_CORE="auto")
            == "3 Ascend910B3 npu:0\n"
        )

    def test_torch_npu_can_be_installed_afterwards(self) -> None:
        program = (
            "from npu_emulator import device, settings\n"
            "device.start(settings.Settings(devices=2))\n"
            "import npu_emulator; npu_emulator.install(devices=2)\n"
            "import torch, torch_npu, torch_npu.testing, torch_npu.npu.amp\n"
            "print(torch_npu.npu is torch.npu, torch_npu.npu.amp is torch.npu.amp, torch.npu.device_count())\n"
        )
        assert output_of(program) == "True True 2\n"

    def test_a_start_that_failed_can_be_tried_again(self) -> None:
        program = (
            "import torch\n"
            "from npu_emulator import device, settings\n"
            "version, torch.__version__ = torch.__version__, '2.99.0'\n"
            "try:\n"
            "    device.start(settings.Settings(devices=2))\n"
            "except Exception as error:\n"
            "    print(type(error).__name__)\n"
            "torch.__version__ = version\n"
            "print(device.start(settings.Settings(devices=3)).device_count())\n"
        )
        assert output_of(program) == "EmulationError\n3\n"


class TestNoDevice:
    PROGRAM = """
import npu_emulator; npu_emulator.install()
import torch
print(torch.npu.is_available(), torch.npu.device_count(), torch.accelerator.is_available())
torch.manual_seed(1)
torch.npu.manual_seed_all(1)
def outcome(use):
    try:
        return use()
    except (RuntimeError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
for use in (
    lambda: torch.ones(1, device="npu"),
    lambda: torch.ones(1, device="npu:0"),
    lambda: torch.ones(1).npu(),
    lambda: torch.ones(1).to("npu:0"),
    lambda: torch.nn.Linear(1, 1).npu(),
    torch.npu.init,
    torch.npu.current_device,
    torch.npu.synchronize,
    lambda: torch.npu.set_device(0),
    torch.npu.get_device_name,
    torch.npu.memory_allocated,
):
    print(outcome(use))
print(torch.ones(2).sum())
"""

    def test_torch_is_imported_and_every_use_says_that_there_is_none(self) -> None:
        first, *uses, last = output_of(self.PROGRAM, ASCEND_RT_VISIBLE_DEVICES="").splitlines()
        assert (first, last) == ("False 0 False", "tensor(2.)")
        assert len(uses) == 11
        for use in uses[:-2]:
            assert use.startswith("RuntimeError: No NPU devices are available: ASCEND_RT_VISIBLE_DEVICES is ''"), use
        for use in uses[-2:]:
            assert "Invalid device id 0: expected no device, because ASCEND_RT_VISIBLE_DEVICES hides all" in use


class TestFork:
    """As on the hardware: a process forked after the first use of the device is refused, whatever it calls."""

    PROGRAM = """
import os, sys
import npu_emulator; npu_emulator.install()
import torch
host = torch.ones(2)
uses = {
    "current_device": lambda: torch.npu.current_device(),
    "zeros": lambda: torch.zeros(2, device="npu"),
    "to": lambda: host.to("npu"),
    "npu": lambda: host.npu(),
    "current_stream": lambda: torch.npu.current_stream(),
    "properties": lambda: torch.npu.get_device_properties(),
}
if sys.argv[1] == "used":
    x = host.to("npu")
    sparse = x.to_sparse()
    uses |= {
        "add": lambda: x + 1,
        "add_": lambda: x.add_(1),
        "cpu": lambda: x.cpu(),
        "item": lambda: x[0].item(),
        "copy_": lambda: x.copy_(host),
        "to the host": lambda: host.copy_(x),
        "ones_like": lambda: torch.ones_like(x),
        "repr": lambda: repr(x),
        "sparse": lambda: sparse + sparse,
        "linear": lambda: torch.nn.functional.linear(x, x),
    }
assert torch.npu.is_initialized() == (sys.argv[1] == "used")
child = os.fork()
if child == 0:
    torch.manual_seed(1)
    assert torch.npu.device_count() == 8 and (host + 1).sum().item() == 4  # what the workers of a DataLoader do
    for name, use in uses.items():
        try:
            use()
        except RuntimeError as error:
            assert str(error).startswith("Cannot re-initialize NPU in forked subprocess. To"), (name, error)
            print("refused", end=" ")
        else:
            print(name, "used", end=" ")
    print(torch.npu.is_initialized(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""

    def test_a_fork_after_the_first_use_cannot_use_it(self) -> None:
        assert output_of(self.PROGRAM, "used").split() == ["refused"] * 16 + ["False"]

    def test_a_fork_before_the_first_use_can(self) -> None:
        assert "refused" not in output_of(self.PROGRAM, "unused")
