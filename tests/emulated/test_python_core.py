"""What is particular to the core in Python: memory under two devices, operators run on aliases, and its limits."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading

import pytest
import torch

from npu_emulator import device
from npu_emulator.errors import EmulationError, NotEmulated
from npu_emulator.settings import Settings


@pytest.fixture(autouse=True)
def core():
    """The core, if it is the one in Python."""
    active = device.active()
    if active.name != "python":
        pytest.skip("about the core in Python; NPU_EMULATOR_CORE=python picks it")
    return active


class TestAliases:
    def test_a_write_to_the_cpu_alias_is_seen_on_the_npu(self, core):
        tensor = torch.zeros(3, device="npu")
        core.alias_on_cpu(tensor)[1] = 5
        assert tensor.tolist() == [0, 5, 0]

    def test_a_write_to_the_npu_alias_is_seen_on_the_cpu(self, core):
        tensor = torch.zeros(3)
        core.alias_on_npu(tensor, 1)[1] = 5
        assert tensor.tolist() == [0, 5, 0]

    @pytest.mark.parametrize(
        "view",
        [
            pytest.param(lambda tensor: tensor, id="contiguous"),
            pytest.param(lambda tensor: tensor.transpose(1, 3), id="transposed"),
            pytest.param(lambda tensor: tensor[1:, ::2], id="sliced"),
            pytest.param(lambda tensor: tensor.contiguous(memory_format=torch.channels_last), id="channels_last"),
            pytest.param(lambda tensor: tensor[:0], id="empty"),
            pytest.param(lambda tensor: tensor[0, 0, 0, 0], id="scalar"),
            pytest.param(lambda tensor: tensor[:, :1].as_strided((2, 1, 4, 5), (60, 7, 5, 1)), id="odd_stride_of_one"),
        ],
    )
    def test_the_alias_has_shape_strides_and_address(self, core, view):
        tensor = view(torch.arange(120.0).view(2, 3, 4, 5))
        alias = core.alias_on_npu(tensor, 0)
        back = core.alias_on_cpu(alias)
        for other in (alias, back):
            assert (other.shape, other.stride(), other.data_ptr()) == (tensor.shape, tensor.stride(), tensor.data_ptr())
        assert torch.equal(back, tensor)

    @pytest.mark.parametrize(
        "dtype", [torch.bool, torch.bfloat16, torch.complex64, torch.uint16, torch.float8_e5m2], ids=str
    )
    def test_the_alias_has_the_dtype(self, core, dtype):
        assert core.alias_on_npu(torch.empty(2, dtype=dtype), 0).dtype is dtype

    def test_the_alias_of_a_conjugate_is_one(self, core):
        tensor = torch.tensor([1 + 2j, 3 - 4j])
        alias = core.alias_on_npu(tensor.conj(), 0)
        assert alias.is_conj()
        assert alias.data_ptr() == tensor.data_ptr()
        assert alias.tolist() == [1 - 2j, 3 + 4j]

    def test_the_alias_of_a_negative_is_one(self, core):
        imaginary = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
        assert imaginary.is_neg()
        alias = core.alias_on_npu(imaginary, 0)
        assert alias.is_neg()
        assert alias.tolist() == [-2, 4]

    def test_the_parts_of_a_sparse_tensor_are_aliases(self, core):
        tensor = torch.eye(3).to_sparse()
        alias = core.alias_on_npu(tensor, 0)
        assert alias.is_coalesced()
        assert alias.values().data_ptr() == tensor.values().data_ptr()
        assert torch.equal(alias.to_dense().cpu(), torch.eye(3))

    def test_the_alias_keeps_the_memory(self, core):
        alias = core.alias_on_npu(torch.full((1000,), 7.0), 0)
        gc.collect()
        others = [torch.zeros(1000) for _ in range(8)]
        assert torch.all(alias == 7)
        assert len(others) == 8

    def test_a_device_that_is_not_there_is_refused(self, core):
        with pytest.raises(RuntimeError, match=r"found npu:99.*NPU_EMULATOR_DEVICES"):
            core.alias_on_npu(torch.zeros(1), 99)


class TestOutputs:
    @pytest.fixture
    def matrix(self):
        return torch.arange(9.0).view(3, 3).npu()

    def test_an_empty_view_with_memory_behind_it_fills_that(self, matrix):
        base = torch.zeros(16, device="npu")
        torch.mm(matrix, matrix, out=base[:0])
        assert torch.equal(base[:9].view(3, 3), matrix @ matrix)


class TestForeach:
    def test_tensors_of_several_devices_stay_where_they_are(self):
        tensors = [torch.ones(2, device=f"npu:{index}") for index in (0, 1, 0)]
        doubled = torch._foreach_mul(tensors, 2)
        assert [tensor.device.index for tensor in doubled] == [0, 1, 0]
        torch._foreach_add_(tensors, doubled)
        assert [tensor.tolist() for tensor in tensors] == [[3, 3]] * 3

    def test_pairs_on_different_devices_are_refused(self):
        with pytest.raises(RuntimeError, match="npu:0 and npu:1"):
            torch._foreach_add(
                [torch.ones(2, device="npu:0"), torch.ones(2, device="npu:0")],
                [torch.ones(2, device="npu:0"), torch.ones(2, device="npu:1")],
            )


class TestMoves:
    @pytest.mark.parametrize(
        "move",
        [
            pytest.param(lambda: torch.ones(2).to("npu"), id="to"),
            pytest.param(lambda: torch.ones(2).to(device="npu", dtype=torch.float16), id="to_dtype"),
            pytest.param(lambda: torch.ones(2, device="npu:0").to("npu"), id="from_another"),
            pytest.param(lambda: torch.tensor([1.0], device="npu"), id="tensor"),
            pytest.param(lambda: torch.as_tensor([1.0], device="npu"), id="as_tensor"),
            pytest.param(lambda: torch.empty(2, device="npu"), id="empty"),
            pytest.param(lambda: torch.nn.Linear(1, 1).to("npu").weight, id="module"),
            pytest.param(lambda: torch.eye(2).to_sparse().to("npu"), id="sparse"),
        ],
    )
    def test_npu_without_a_number_is_the_current_device(self, core, move):
        core.set_device(1)
        assert move().device == torch.device("npu:1")

    def test_npu_without_a_number_in_inference_mode(self, core):
        core.set_device(1)
        with torch.inference_mode():
            assert torch.ones(2).to("npu").device.index == 1


class TestLimits:
    def test_a_cpu_storage_is_resized_as_ever(self):
        storage = torch.ones(4).untyped_storage()
        storage.resize_(8)
        assert storage.nbytes() == 8

    @pytest.mark.filterwarnings("ignore:.*quantize")
    def test_quantized_tensors_are_refused(self):
        with pytest.raises(NotEmulated, match=r"no torch\.qint8 on the NPU"):
            torch.quantize_per_tensor(torch.ones(2, device="npu"), 0.1, 0, torch.qint8)

    @pytest.mark.filterwarnings("ignore:Sparse CSR")
    def test_compressed_sparse_tensors_are_refused(self):
        with pytest.raises(NotEmulated, match=r"to_sparse_coo\(\)"):
            torch.eye(2, device="npu").to_sparse_csr()

    def test_an_operator_without_a_cpu_kernel_is_named(self):
        library = torch.library.Library("python_core_test_2", "DEF")
        library.define("nowhere(Tensor x) -> Tensor")
        with pytest.raises(
            NotEmulated, match=r"runs python_core_test_2\.nowhere\.default with its CPU kernel, and it has none"
        ):
            torch.ops.python_core_test_2.nowhere(torch.ones(2, device="npu"))


class TestGenerators:
    @pytest.mark.parametrize(
        "duplicate",
        [
            pytest.param(lambda generator: pickle.loads(pickle.dumps(generator)), id="pickle"),
            pytest.param(copy.deepcopy, id="deepcopy"),
            pytest.param(lambda generator: generator.clone_state(), id="clone_state"),
        ],
    )
    def test_a_duplicate_draws_the_same(self, duplicate):
        generator = torch.Generator("npu:1").manual_seed(3)
        torch.rand(5, device="npu:1", generator=generator)
        same = duplicate(generator)
        assert same.device == torch.device("npu:1")
        expected = torch.rand(4, device="npu:1", generator=generator)
        assert torch.equal(torch.rand(4, device="npu:1", generator=same), expected)


class TestMemory:
    def test_threads_lose_no_count(self, core):
        gc.collect()
        before = core.memory(1)

        def allocate() -> None:
            for _ in range(500):
                torch.empty(16, device="npu:1")

        threads = [threading.Thread(target=allocate) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after = core.memory(1)
        assert after.allocations - before.allocations == 2000
        assert after.allocated == before.allocated


class TestPinnedMemory:
    def test_pinning_what_is_pinned_copies_nothing(self):
        pinned = torch.ones(4).pin_memory()
        assert pinned.pin_memory().data_ptr() == pinned.data_ptr()


class TestStreams:
    @pytest.mark.parametrize(
        "make",
        [
            pytest.param(lambda: torch.Stream("npu:1"), id="string"),
            pytest.param(lambda: torch.Stream(device=torch.device("npu:1"), priority=-1), id="device"),
            pytest.param(lambda: torch.Stream(1), id="number"),
        ],
    )
    def test_a_stream_is_new_and_on_the_device_asked_for(self, make):
        first, second = make(), make()
        assert first.device == second.device == torch.device("npu:1")
        assert first != second
        assert torch.npu.default_stream(1) not in (first, second)
        assert type(first) is torch.Stream

    @pytest.mark.parametrize("device", ["npu", None])
    def test_a_device_without_a_number_is_the_current_one(self, core, device):
        core.set_device(1)
        assert torch.Stream(device).device.index == 1
        event = torch.Event(device)
        event.record()
        assert event.device.index == 1

    def test_a_device_that_is_not_there_is_refused(self):
        with pytest.raises(RuntimeError, match="found npu:99"):
            torch.Stream("npu:99")

    def test_a_stream_that_there_is_keeps_its_number(self):
        stream = torch.npu.Stream("npu:1")
        same = torch.Stream(stream.stream_id, stream.device_index, stream.device_type)
        assert same == stream

    def test_a_stream_is_selected_for_a_block(self, core):
        stream = torch.Stream("npu:1")
        with stream, stream:
            assert core.current_device() == 1
            assert torch.accelerator.current_stream() == stream
            assert isinstance(torch.npu.current_stream(), torch.npu.Stream)
        assert core.current_device() == 0
        assert torch.accelerator.current_stream() == torch.npu.default_stream(0)

    def test_selecting_a_generic_stream_is_seen_by_the_vendor_s_package(self):
        stream = torch.Stream("npu:1")
        torch.accelerator.set_stream(stream)
        try:
            assert torch.npu.current_stream().npu_stream == stream.stream_id
        finally:
            torch.npu.set_stream(torch.npu.default_stream(1))

    def test_an_event_is_where_it_was_recorded(self):
        event = torch.Stream("npu:1").record_event()
        assert event.device == torch.device("npu:1")
        event.synchronize()
        event.wait()
        assert event.query()
        assert torch.Stream("npu:0").record_event(event) is event
        assert event.device == torch.device("npu:0")

    def test_an_event_of_another_kind_of_device_is_refused(self):
        with pytest.raises(RuntimeError, match="does not match recording stream's device type"):
            torch.Stream("npu").record_event(torch.Event("cpu"))

    @pytest.mark.parametrize("kind", ["Stream", "Event"])
    def test_those_of_other_devices_are_torch_s_own(self, kind):
        mine = getattr(torch, kind)
        original = mine.__base__
        assert type(mine("cpu")) is original
        assert isinstance(mine("cpu"), mine)
        assert issubclass(original, mine)
        assert not issubclass(mine, torch.npu.Stream)

    @pytest.mark.parametrize("kind", ["Stream", "Event", "Generator"])
    def test_classes_derived_from_them_are_classes_as_any_other(self, kind):
        base = getattr(torch, kind)
        derived = type("Derived", (base,), {})
        assert isinstance(derived("cpu"), derived)
        assert isinstance(derived("cpu"), base)
        assert not isinstance(base("cpu"), derived)
        assert not issubclass(base, derived)

    def test_a_derived_stream_of_the_cpu_is_entered_as_ever(self, core):
        class Derived(torch.Stream):
            pass

        before = torch.npu.current_stream()
        with Derived("cpu"):
            assert torch.npu.current_stream() == before

    @pytest.mark.parametrize("kind", ["Stream", "Event", "Generator"])
    def test_the_classes_are_pickled_by_name(self, kind):
        assert pickle.loads(pickle.dumps(getattr(torch, kind))) is getattr(torch, kind)

    def test_compiled_programs_make_and_use_them(self):
        def program(tensor):
            stream, event = torch.Stream("npu:1"), torch.Event("npu")
            with stream:
                doubled = tensor * 2
                event.record(stream)
            event.synchronize()
            return doubled, stream

        doubled, stream = torch.compile(program, backend="eager")(torch.ones(2, device="npu:1"))
        assert doubled.tolist() == [2, 2]
        assert stream.device == torch.device("npu:1")


class TestStart:
    def test_starting_again_returns_the_same_core(self, core):
        assert device.start(device._settings) is core

    def test_other_settings_are_refused(self, core):
        other = Settings(core="python", devices=core.device_count() + 1)
        with pytest.raises(EmulationError, match="cannot change within a process"):
            device.start(other)

    @pytest.mark.parametrize(
        ("preparation", "message"),
        [
            pytest.param("torch.__version__ = '2.99.0'", "supports torch 2.13, found 2.99.0", id="other_torch"),
            pytest.param("torch.utils.rename_privateuse1_backend('mine')", "'mine' has taken it", id="other_backend"),
            pytest.param(
                "import sys, types; sys.modules['torch_npu'] = types.ModuleType('torch_npu')",
                "expected no real torch_npu",
                id="real_library",
            ),
        ],
    )
    def test_a_process_that_cannot_have_the_device_is_refused(self, preparation, message):
        program = (
            "import torch\n"
            f"{preparation}\n"
            "from npu_emulator import device, settings\n"
            "device.start(settings.make_settings(core='python'))\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=900, env=_environment()
        )
        assert ended.returncode == 1
        assert message in ended.stderr.splitlines()[-1]


class TestErrorsInBackward:
    """torch asks the guard while such an error is pending in the interpreter; a guard that fails ends the process."""

    def test_of_an_unpacking_hook(self):
        leaf = torch.ones(2, device="npu", requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: {}[tensor.shape]):
            square = leaf * leaf
        with pytest.raises(KeyError):
            square.sum().backward()

    def test_and_the_next_pass_is_not_disturbed(self):
        leaf = torch.ones(2, device="npu", requires_grad=True)
        doubled = leaf * 2
        handle = doubled.register_hook(lambda gradient: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            doubled.sum().backward()
        handle.remove()
        (leaf * 3).sum().backward()
        assert leaf.grad.tolist() == [3, 3]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("NPU_EMULATOR")}


class TestDistributedDataParallel:
    @pytest.mark.parametrize("option", ["find_unused_parameters", "static_graph"])
    def test_what_needs_pinned_memory_is_refused_at_once(self, option: str) -> None:
        model = torch.nn.Linear(2, 2).npu()
        with pytest.raises(NotEmulated, match=rf"DistributedDataParallel\({option}=True\).*npu_emulator build"):
            torch.nn.parallel.DistributedDataParallel(model, **{option: True})

    def test_other_devices_are_left_alone(self) -> None:
        with pytest.raises(ValueError, match="process group has not been initialized"):
            torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), find_unused_parameters=True)
