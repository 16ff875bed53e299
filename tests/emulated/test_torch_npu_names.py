"""The stand-in package: one object under every name, every public name there, and errors where something is not."""

from __future__ import annotations

import importlib
import inspect
from datetime import timedelta

import pytest
import torch
import torch_npu

from npu_emulator.errors import NotEmulated

#: Names of ``torch_npu.npu.__all__`` that need the hardware, with arguments that the real ones take.
REFUSING = {
    "MemPool": (),
    "MemPoolContext": (None,),
    "NPUGraph": (),
    "NPUPluggableAllocator": ("allocator.so", "allocate", "free"),
    "NpuGraphOpHandler": (),
    "change_current_allocator": (None,),
    "check_uce_in_memory": (0,),
    "finalize_dump": (),
    "graph": (None,),
    "graph_pool_handle": (),
    "graph_task_group_begin": (None,),
    "graph_task_group_end": (None,),
    "graph_task_update_begin": (None, None),
    "graph_task_update_end": (None,),
    "host_memory_stats": (),
    "host_memory_stats_as_nested_dict": (),
    "init_dump": (),
    "make_graphed_callables": (None, ()),
    "npurt": (),
    "obfuscation_calculate": (0, None, 1.0),
    "obfuscation_finalize": (0,),
    "obfuscation_initialize": (64, 0),
    "register_npu_graph_handler": (None,),
    "reset_accumulated_host_memory_stats": (),
    "reset_peak_host_memory_stats": (),
    "restart_device": (0,),
    "set_dump": ("dump.json",),
    "stop_device": (0,),
    "stress_detect": (),
    "super_kernel_scope_begin": (),
    "super_kernel_scope_end": (),
    "use_mem_pool": (None,),
}


class TestNames:
    def test_every_public_name_of_torch_npu_is_there(self) -> None:
        names = torch.npu.__all__
        assert len(names) == len(set(names)) == 142
        assert [name for name in names if not hasattr(torch.npu, name)] == []

    @pytest.mark.parametrize("name", sorted(REFUSING))
    def test_what_needs_the_hardware_says_so(self, name: str) -> None:
        with pytest.raises(NotEmulated, match=rf"torch\.npu\.{name} cannot be emulated: .+ real torch_npu"):
            getattr(torch.npu, name)(*REFUSING[name])

    @pytest.mark.parametrize("name", torch.npu.__all__)
    def test_what_can_be_called_is_documented(self, name: str) -> None:
        found = getattr(torch.npu, name)
        if inspect.isfunction(found) or inspect.isclass(found):
            assert inspect.getdoc(found)

    @pytest.mark.parametrize(
        ("module", "name"),
        [("torch_npu", "torch_npu"), ("torch_npu.npu", "torch_npu.npu"), ("torch_npu._C", "torch_npu._C")],
    )
    def test_an_unknown_name_names_the_emulator(self, module: str, name: str) -> None:
        with pytest.raises(AttributeError, match=rf"'{name}' has no attribute 'no_such_name'.*npu_emulator"):
            importlib.import_module(module).no_such_name

    def test_an_unknown_operator_names_those_there_are(self) -> None:
        assert not hasattr(torch_npu, "npu_no_such_operator")
        with pytest.raises(NotEmulated, match="npu_no_such_operator is not emulated"):
            torch_npu.npu_no_such_operator

    def test_operators_are_those_of_torch(self) -> None:
        assert torch_npu.npu_rms_norm is torch.ops.npu.npu_rms_norm
        assert "npu_rms_norm" in dir(torch_npu)


class TestModules:
    def test_torch_and_torch_npu_have_one_device_module(self) -> None:
        assert torch.npu is torch_npu.npu is importlib.import_module("torch.npu")

    @pytest.mark.parametrize("name", ["amp", "amp.grad_scaler", "memory", "npu_config", "random", "streams", "utils"])
    def test_submodules_are_one_object_under_both_names(self, name: str) -> None:
        module = importlib.import_module(f"torch_npu.npu.{name}")
        assert module is importlib.import_module(f"torch.npu.{name}")
        assert module is importlib.import_module(f"npu_emulator.torch_npu.npu.{name}")

    def test_importing_a_submodule_leaves_public_names_alone(self) -> None:
        before = {name: getattr(torch.npu, name) for name in torch.npu.__all__}
        for name in ("graphs", "memory", "npu_config", "random", "streams", "utils"):
            importlib.import_module(f"torch_npu.npu.{name}")
        assert [name for name in before if getattr(torch.npu, name) is not before[name]] == []

    def test_it_says_that_it_is_emulated(self) -> None:
        base, _, local = torch_npu.__version__.partition("+")
        assert torch.__version__.partition("+")[0] == base
        assert local == "emulated"

    def test_torch_autoloads_it_without_further_ado(self) -> None:
        assert torch_npu._autoload() is None


class TestExtensionModule:
    def test_devices_are_counted_and_chosen(self) -> None:
        assert torch_npu._C._npu_getDeviceCount() == torch.npu.device_count()
        torch_npu._C._npu_setDevice(1)
        assert torch_npu._C._npu_getDevice() == torch.npu.current_device() == 1

    def test_options_are_read_in_bytes(self) -> None:
        assert torch_npu._C._npu_getOption("NO_SUCH_OPTION") is None
        torch_npu._C._npu_setOption({"ACL_DEBUG_DIR": "here"})
        assert torch_npu._C._npu_getOption("ACL_DEBUG_DIR") == b"here"

    def test_it_knows_the_chip(self) -> None:
        assert torch_npu._C._npu_getDeviceName() == torch.npu.get_device_name() == "Ascend910B3"
        assert torch_npu._C._npu_get_soc_version() == 223
        assert torch_npu._C._npu_is_support_inf_nan()


class TestDistributed:
    @pytest.mark.parametrize("module", ["torch_npu.distributed", "torch_npu.distributed.distributed_c10d"])
    def test_hccl_is_available_where_libraries_ask(self, module: str) -> None:
        assert importlib.import_module(module).is_hccl_available() is torch.distributed.is_hccl_available() is True
        with pytest.raises(AttributeError, match=rf"'{module}' has no attribute 'Reducer'.*npu_emulator"):
            importlib.import_module(module).Reducer

    def test_process_groups_take_the_options_of_hccl(self) -> None:
        options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
        options.hccl_config = {"hccl_buffer_size": 400}
        options.is_high_priority_stream = True
        torch.distributed.init_process_group(
            "hccl", store=torch.distributed.HashStore(), rank=0, world_size=1, pg_options=options
        )
        try:
            tensor = torch.ones(2, device="npu")
            torch.distributed.all_reduce(tensor)
            assert tensor.tolist() == [1, 1]
        finally:
            torch.distributed.destroy_process_group()

    def test_a_back_end_can_be_made_directly(self) -> None:
        made = torch_npu._C._distributed_c10d.ProcessGroupHCCL
        for timeout in ((), (timedelta(seconds=5),), (made.Options(),)):
            backend = made(torch.distributed.HashStore(), 0, 1, *timeout)
            assert (backend.rank(), backend.size()) == (0, 1)
            with pytest.raises(NotEmulated, match=r"ProcessGroupHCCL\.get_hccl_comm_name cannot be emulated"):
                backend.get_hccl_comm_name(0)
