"""Memory statistics count what tensors hold, and objects go when they should."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from comparing import assert_same

MIB = 2**20


class TestStatistics:
    def test_allocating_and_freeing(self) -> None:
        before = torch.npu.memory_allocated()
        tensor = torch.zeros(MIB // 4, device="npu")
        assert torch.npu.memory_allocated() - before == MIB
        view = tensor[10:]
        del tensor
        assert torch.npu.memory_allocated() - before == MIB
        del view
        assert torch.npu.memory_allocated() == before

    def test_results_of_operators_count(self) -> None:
        tensor = torch.zeros(MIB // 4, device="npu")
        before = torch.npu.memory_allocated()
        result = tensor + 1
        assert torch.npu.memory_allocated() - before == MIB
        result.add_(1)
        assert torch.npu.memory_allocated() - before == MIB

    def test_the_peak_stays_until_it_is_reset(self) -> None:
        torch.npu.reset_peak_memory_stats()
        before = torch.npu.memory_allocated()
        del_me = torch.zeros(MIB // 4, device="npu")
        del del_me
        assert torch.npu.max_memory_allocated() - before >= MIB
        torch.npu.reset_peak_memory_stats()
        assert torch.npu.max_memory_allocated() == torch.npu.memory_allocated() == before

    def test_devices_are_counted_apart(self) -> None:
        before = torch.npu.memory_allocated(0), torch.npu.memory_allocated(1)
        tensor = torch.zeros(MIB // 4, device="npu:1")
        assert torch.npu.memory_allocated(0) == before[0]
        assert torch.npu.memory_allocated("npu:1") - before[1] == tensor.nbytes


class TestThreadsAndGarbage:
    def test_a_cycle_of_python_objects_is_collected(self) -> None:
        gc.collect()
        before = torch.npu.memory_allocated()
        tensor = torch.zeros(MIB // 4, device="npu")
        tensor.itself = tensor
        del tensor
        gc.collect()
        assert torch.npu.memory_allocated() == before

    def test_attributes_stay_while_only_the_graph_holds_the_tensor(self) -> None:
        leaf = torch.ones(2, device="npu", requires_grad=True)
        leaf.note = "kept"
        result = leaf * 2
        del leaf
        gc.collect()
        assert result.grad_fn.next_functions[0][0].variable.note == "kept"

    def test_threads_compute_and_differentiate_at_once(self) -> None:
        x = torch.linspace(-1, 1, 64).reshape(8, 8)
        expected = [(x * number).tanh() @ x for number in range(8)]
        found: list[torch.Tensor | None] = [None] * 8
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                theirs = x.npu().requires_grad_()
                for _ in range(20):
                    found[number] = (theirs * number).tanh() @ theirs
                    found[number].sum().backward()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert_same([one.detach() for one in found if one is not None], expected, rtol=1e-6, atol=1e-6)

    def test_hooks_run_in_the_thread_that_called_backward(self) -> None:
        leaf = torch.ones(2, device="npu", requires_grad=True)
        seen = []
        leaf.register_hook(lambda gradient: seen.append(threading.get_ident()))
        (leaf * 2).sum().backward()
        assert seen == [threading.get_ident()]

    @pytest.mark.parametrize("grad", [True, False], ids=["inside", "outside"])
    def test_memory_is_steady_over_many_steps(self, grad: bool) -> None:
        leaf = torch.ones(1000, device="npu", requires_grad=grad)
        before = torch.npu.memory_allocated()
        for _ in range(200):
            result = (leaf * 2 + 1).relu().sum()
            if grad:
                torch.autograd.grad(result, leaf)
        del result
        assert torch.npu.memory_allocated() == before
