"""Several devices, the current one, and errors when they are mixed up."""

from __future__ import annotations

import threading
from typing import Callable

import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same

SAME_DEVICE = "Expected all tensors to be on the same device"


class TestMixedDevices:
    @pytest.mark.parametrize(
        "function",
        [
            lambda a, b: a + b,
            lambda a, b: a @ b,
            lambda a, b: torch.cat([a, b]),
            lambda a, b: F.linear(a, b),
            lambda a, b: torch.where(a > 0, a, b),
            lambda a, b: a.mul_(b),
            lambda a, b: F.mse_loss(a, b),
        ],
        ids=["add", "matmul", "cat", "linear", "where", "in-place", "loss"],
    )
    @pytest.mark.parametrize(
        ("first", "second"), [("npu:0", "cpu"), ("cpu", "npu:0"), ("npu:0", "npu:1")], ids=["nc", "cn", "nn"]
    )
    def test_operators_refuse(self, function: Callable[..., object], first: str, second: str) -> None:
        with pytest.raises(RuntimeError, match=SAME_DEVICE) as caught:
            function(torch.ones(2, 2, device=first), torch.ones(2, 2, device=second))
        assert "npu:0" in str(caught.value)
        assert second.replace("npu:0", first) in str(caught.value)

    def test_a_module_with_an_input_from_elsewhere(self) -> None:
        with pytest.raises(RuntimeError, match=SAME_DEVICE):
            torch.nn.Linear(2, 2).npu()(torch.ones(1, 2))
        with pytest.raises(RuntimeError, match=r"(?i)same device|same type|Input type"):
            torch.nn.Conv2d(1, 1, 1).npu()(torch.ones(1, 1, 2, 2))

    def test_indices_on_the_npu_into_a_cpu_tensor(self) -> None:
        with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
            torch.ones(3)[torch.tensor([0], device="npu")]

    def test_a_tensor_of_no_dimension_may_be_on_the_cpu(self) -> None:
        assert_same(torch.ones(2, device="npu") * torch.tensor(3.0), torch.full((2,), 3.0))


class TestSeveralDevices:
    def test_results_stay_where_their_inputs_are(self) -> None:
        for index in range(torch.npu.device_count()):
            tensor = torch.ones(2, device=f"npu:{index}")
            made = [tensor + 1, tensor @ tensor, torch.zeros_like(tensor), tensor[:1], F.relu(tensor), tensor.clone()]
            assert {one.device.index for one in made} == {index}

    def test_the_current_device_is_where_no_index_goes(self) -> None:
        with torch.npu.device(1):
            assert torch.zeros(1, device="npu").device.index == 1
            assert torch.zeros(1).npu().device.index == 1
            assert torch.zeros(1).to("npu").device.index == 1
            assert torch.zeros(1, device="npu:0").device.index == 0
            assert (torch.zeros(1, device="npu:0") + 1).device.index == 0
        assert torch.zeros(1, device="npu").device.index == 0


class TestBackwardAcrossDevices:
    def test_every_gradient_is_with_its_leaf(self) -> None:
        leaves = [torch.ones(2, requires_grad=True, device=device) for device in ("npu:0", "npu:1", "cpu")]
        total = sum((leaf * (number + 1)).to("npu:1") for number, leaf in enumerate(leaves))
        total.square().sum().backward()
        assert [leaf.grad.device for leaf in leaves] == [leaf.device for leaf in leaves]
        assert [leaf.grad.tolist() for leaf in leaves] == [[12.0] * 2, [24.0] * 2, [36.0] * 2]


class TestBadIndex:
    @pytest.mark.parametrize(
        "use",
        [
            lambda index: torch.zeros(1, device=f"npu:{index}"),
            lambda index: torch.zeros(1).to(f"npu:{index}"),
            lambda index: torch.zeros(1).npu(index),
            lambda index: torch.npu.set_device(index),
            lambda index: torch.npu.get_device_properties(index),
            lambda index: torch.npu.memory_allocated(index),
        ],
        ids=["factory", "to", "npu", "set_device", "properties", "memory"],
    )
    def test_no_such_device(self, use: Callable[[int], object]) -> None:
        with pytest.raises((RuntimeError, AssertionError), match=r"(?i)device") as caught:
            use(torch.npu.device_count())
        assert str(torch.npu.device_count()) in str(caught.value)

    def test_a_device_of_another_type(self) -> None:
        with pytest.raises(ValueError, match="npu"):
            torch.npu.set_device("cpu")


class TestCurrentDevice:
    def test_setting_in_every_way(self) -> None:
        for device in (1, "npu:1", torch.device("npu", 1)):
            torch.npu.set_device(0)
            torch.npu.set_device(device)
            assert torch.npu.current_device() == 1

    def test_the_context_puts_it_back(self) -> None:
        seen = []

        def fail_inside() -> None:
            with torch.npu.device("npu:1"):
                seen.append(torch.npu.current_device())
                raise KeyError

        with pytest.raises(KeyError):
            fail_inside()
        assert seen == [1]
        assert torch.npu.current_device() == 0
        with torch.npu.device(None):
            assert torch.npu.current_device() == 0

    def test_the_context_of_a_tensor(self) -> None:
        with torch.npu.device_of(torch.zeros(1, device="npu:1")):
            assert torch.npu.current_device() == 1
        with torch.npu.device_of(torch.zeros(1)):
            assert torch.npu.current_device() == 0

    def test_every_thread_has_its_own(self) -> None:
        seen = []

        def work() -> None:
            seen.append(torch.npu.current_device())
            torch.npu.set_device(1)
            seen.append(torch.zeros(1, device="npu").device.index)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen == [0, 1]
        assert torch.npu.current_device() == 0

    def test_questions_about_the_device(self) -> None:
        assert torch.npu.is_available()
        assert torch.npu.get_device_name(0).startswith("Ascend")
        properties = torch.npu.get_device_properties(0)
        assert properties.name == torch.npu.get_device_name()
        assert properties.total_memory > 2**30
        assert torch.npu.is_bf16_supported()
        torch.npu.synchronize()
        torch.npu.synchronize("npu:1")
        torch.npu.init()
        assert torch.npu.is_initialized()


class TestAccelerator:
    def test_the_npu_is_the_accelerator(self) -> None:
        assert torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator() == torch.device("npu")
        torch.accelerator.synchronize()

    def test_memory(self) -> None:
        before = torch.accelerator.memory_allocated()
        tensor = torch.zeros(2**18, device="npu")
        assert torch.accelerator.memory_allocated() - before == tensor.nbytes
        torch.accelerator.empty_cache()


class TestAcceleratorDevices:
    def test_it_counts_the_devices(self) -> None:
        assert torch.accelerator.device_count() == torch.npu.device_count()

    def test_its_current_device_is_that_of_torch_npu(self) -> None:
        torch.accelerator.set_device_index(1)
        assert torch.npu.current_device() == torch.accelerator.current_device_index() == 1
        assert torch.zeros(1, device="npu").device.index == 1
        torch.npu.set_device(0)
        assert torch.accelerator.current_device_index() == 0

    def test_the_context_puts_it_back(self) -> None:
        with torch.accelerator.device_index(1):
            assert torch.npu.current_device() == 1
        assert torch.npu.current_device() == 0
