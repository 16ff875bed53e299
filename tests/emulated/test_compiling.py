"""How torch's compilers learn of the emulated NPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from running import output_of

from npu_emulator import support
from npu_emulator.device import compiling


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


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """Forget what earlier tests compiled."""
    torch._dynamo.reset()
    compiling.graphs_without_inductor.clear()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_dynamo")
class TestInductor:
    @pytest.mark.parametrize("function", [torch.sin, torch.nn.Linear(2, 2).npu()], ids=["function", "module"])
    def test_the_default_back_end_runs_the_operators(self, function: Any) -> None:
        x = torch.ones(2, 2, device="npu")
        assert torch.equal(torch.compile(function, fullgraph=True)(x), function(x))
        assert compiling.graphs_without_inductor == {"": 1}

    def test_a_graph_that_makes_its_own_npu_tensors(self) -> None:
        compiled = torch.compile(lambda: torch.ones(2, device="npu") + 1, backend="inductor")
        assert compiled().tolist() == [2, 2]

    def test_options_of_the_program(self) -> None:
        compiled = torch.compile(lambda x: x.sin().sum(), mode="max-autotune", dynamic=True)
        for length in (3, 5):
            compiled(torch.ones(length, 2, device="npu", requires_grad=True)).backward()
        assert list(compiling.graphs_without_inductor.values()) == [1]
        (section,) = support.report_sections()
        assert section.lines[1].startswith("torch.compile ran 1 graph by aot_eager without max_autotune=True")
        with pytest.raises(RuntimeError, match="Unrecognized mode=slow"):
            torch.compile(torch.sin, mode="slow")

    def test_a_break_in_a_full_graph_is_refused(self) -> None:
        def breaks(x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return x

        with pytest.raises(torch._dynamo.exc.Unsupported):
            torch.compile(breaks, fullgraph=True)(torch.ones(1, device="npu"))

    def test_inductor_itself_refuses(self) -> None:
        graph = torch.fx.symbolic_trace(torch.nn.Sigmoid())
        with pytest.raises(RuntimeError, match=r"NotEmulated.*runs aot_eager"):
            torch._inductor.compile(graph, [torch.ones(2, device="npu")])
