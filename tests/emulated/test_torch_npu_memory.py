"""``torch.npu.memory``: statistics, and memory for other libraries."""

from __future__ import annotations

import pytest
import torch

MIB = 1 << 20


@pytest.fixture
def device() -> int:
    """A device on which nothing else is allocated meanwhile."""
    index = torch.npu.device_count() - 1
    torch.npu.reset_peak_memory_stats(index)
    return index


class TestStatistics:
    def test_names_of_the_statistics_are_torch_npus(self, device: int) -> None:
        tensor = torch.empty(MIB, dtype=torch.uint8, device=f"npu:{device}")
        stats = torch.npu.memory_stats(device)
        assert stats["allocated_bytes.all.current"] == torch.npu.memory_allocated(device) >= tensor.numel()
        assert stats["reserved_bytes.all.peak"] == torch.npu.max_memory_reserved(device)
        assert stats["reserved_bytes.all.current"] == torch.npu.memory_reserved(device) >= tensor.numel()
        assert stats["num_ooms"] == 0
        nested = torch.npu.memory_stats_as_nested_dict(device)
        assert nested["active_bytes"]["all"]["current"] == stats["active_bytes.all.current"]

    def test_allocations_are_counted_from_the_last_reset_on(self, device: int) -> None:
        torch.npu.reset_accumulated_memory_stats(device)
        assert torch.npu.memory_stats(device)["allocation.all.allocated"] == 0
        torch.empty(3, device=f"npu:{device}")
        assert torch.npu.memory_stats(device)["allocation.all.allocated"] == 1

    def test_a_snapshot_sums_up_to_what_is_allocated(self, device: int) -> None:
        tensor = torch.empty(MIB, dtype=torch.uint8, device=f"npu:{device}")
        sizes = {segment["device"]: segment["allocated_size"] for segment in torch.npu.memory_snapshot()}
        assert sizes[device] == torch.npu.memory_allocated(device) >= tensor.numel()

    def test_a_summary_can_be_read(self, device: int) -> None:
        tensor = torch.empty(3 * MIB, dtype=torch.uint8, device=f"npu:{device}")
        summary = torch.npu.memory_summary(device)
        assert f"device ID {device} (emulated)" in summary
        assert "3 MiB" in summary
        del tensor

    @pytest.mark.parametrize(
        ("old", "new"), [("memory_cached", "memory_reserved"), ("max_memory_cached", "max_memory_reserved")]
    )
    def test_old_names_warn(self, old: str, new: str) -> None:
        with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
            answer = getattr(torch.npu, old)()
        assert answer == getattr(torch.npu, new)()

    @pytest.mark.parametrize("name", ["reset_max_memory_allocated", "reset_max_memory_cached"])
    def test_old_resets_warn_that_they_reset_everything(self, device: int, name: str) -> None:
        torch.empty(MIB, dtype=torch.uint8, device=f"npu:{device}")
        with pytest.warns(DeprecationWarning, match="resets all peaks"):
            getattr(torch.npu, name)(device)
        assert torch.npu.max_memory_allocated(device) == torch.npu.memory_allocated(device)


class TestRawMemory:
    def test_it_is_allocated_until_it_is_deleted(self, device: int) -> None:
        before = torch.npu.memory_allocated(device)
        address = torch.npu.caching_allocator_alloc(MIB, device)
        assert torch.npu.memory_allocated(device) == before + MIB
        torch.npu.caching_allocator_delete(address)
        assert torch.npu.memory_allocated(device) == before

    def test_nothing_is_deleted_twice(self, device: int) -> None:
        address = torch.npu.caching_allocator_alloc(16, device)
        torch.npu.caching_allocator_delete(address)
        with pytest.raises(RuntimeError, match=f"nothing is allocated at {address:#x}"):
            torch.npu.caching_allocator_delete(address)

    def test_a_stream_is_a_stream(self) -> None:
        torch.npu.caching_allocator_delete(torch.npu.caching_allocator_alloc(16, stream=torch.npu.current_stream()))
        with pytest.raises(TypeError, match="found 'first'"):
            torch.npu.caching_allocator_alloc(16, stream="first")


class TestFraction:
    def test_it_is_recorded(self, device: int) -> None:
        assert torch.npu.get_per_process_memory_fraction(device) == 1.0
        torch.npu.set_per_process_memory_fraction(0.5, device)
        assert torch.npu.get_per_process_memory_fraction(device) == 0.5
        torch.npu.set_per_process_memory_fraction(1.0, device)

    @pytest.mark.parametrize(("fraction", "error"), [(1, TypeError), (1.5, ValueError), (-0.1, ValueError)])
    def test_it_is_a_float_from_0_to_1(self, fraction: float, error: type[Exception]) -> None:
        with pytest.raises(error, match="fraction"):
            torch.npu.set_per_process_memory_fraction(fraction)
