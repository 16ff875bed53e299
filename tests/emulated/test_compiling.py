"""How torch's compilers learn of the emulated NPU."""

from __future__ import annotations

import pytest
import torch
from running import output_of


class TestRegistration:
    def test_it_waits_for_dynamo_to_be_imported(self) -> None:
        output = output_of(
            """
            import npu_emulator; npu_emulator.install(devices=2)
            import sys, torch
            print("torch._dynamo" in sys.modules)
            from torch._dynamo import device_interface
            print(device_interface.get_interface_for_device("npu:1").__name__)
            print("npu:2" in dict(device_interface.get_registered_device_interfaces()))
            """
        )
        assert output.split() == ["False", "NpuInterface", "False"]

    def test_the_module_keeps_its_own_loader(self) -> None:
        from torch._dynamo import device_interface

        assert "class DeviceInterface" in device_interface.__loader__.get_source(device_interface.__name__)
        assert device_interface.__spec__.loader is device_interface.__loader__

    def test_a_process_that_has_imported_dynamo_registers_at_once(self) -> None:
        program = """
            import npu_emulator; npu_emulator.install(devices=2)
            import os
            os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
            import torch._dynamo.device_interface as device_interface
            import torch_npu
            print(device_interface.get_interface_for_device("npu").__name__)
            """
        assert output_of(program).split() == ["NpuInterface"]


class TestInterface:
    def test_devices_are_exchanged(self) -> None:
        from torch._dynamo.device_interface import DeviceGuard, get_interface_for_device

        with DeviceGuard(get_interface_for_device("npu"), 1):
            assert torch.npu.current_device() == 1
        assert torch.npu.current_device() == 0


class TestInductor:
    @pytest.mark.parametrize("function", [torch.sin, torch.nn.Linear(2, 2).npu()], ids=["function", "module"])
    def test_it_refuses_and_names_the_backends_that_work(self, function: object) -> None:
        torch._dynamo.reset()
        with pytest.raises(RuntimeError, match=r"NotEmulated.*backend='aot_eager'"):
            torch.compile(function, backend="inductor")(torch.ones(2, 2, device="npu"))
