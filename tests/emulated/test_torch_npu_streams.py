"""``torch.npu`` streams and events."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from npu_emulator.errors import NotEmulated


class TestStreams:
    def test_a_stream_belongs_to_the_current_device_or_to_the_one_named(self) -> None:
        torch.npu.set_device(1)
        assert torch.npu.Stream().device == torch.device("npu:1")
        assert torch.npu.Stream("npu:0", priority=-1).device == torch.device("npu:0")
        assert torch.npu.Stream(priority=-1).priority == -1
        assert isinstance(torch.npu.Stream(), torch.Stream)

    def test_there_is_no_stream_without_its_device(self) -> None:
        with pytest.raises(AssertionError, match="Invalid device id 99"):
            torch.npu.Stream(99)

    def test_streams_are_equal_when_they_are_the_same_queue(self) -> None:
        stream = torch.npu.Stream()
        same = torch.npu.Stream(
            stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
        )
        assert stream == same
        assert hash(stream) == hash(same)
        assert stream != torch.npu.Stream()
        assert torch.npu.default_stream(0) != torch.npu.default_stream(1)
        assert stream != stream.stream_id

    def test_all_work_is_done(self) -> None:
        stream, other = torch.npu.Stream(), torch.npu.Stream()
        stream.wait_stream(other)
        stream.wait_event(other.record_event())
        stream.synchronize()
        assert stream.query()

    def test_a_stream_is_no_pointer(self) -> None:
        with pytest.raises(NotEmulated, match="no stream of CANN's runtime"):
            torch.npu.Stream()._as_parameter_

    def test_tensors_take_note_of_streams(self) -> None:
        tensor = torch.ones(2, device="npu")
        tensor.record_stream(torch.npu.Stream())
        assert tensor.tolist() == [1, 1]

    def test_an_external_stream_is_the_one_that_was_named(self) -> None:
        assert torch.npu.ExternalStream(1234, device=1).npu_stream == 1234
        assert isinstance(torch.npu.SyncLaunchStream(), torch.npu.Stream)


class TestCurrentStream:
    def test_it_is_the_default_one_at_first(self) -> None:
        assert torch.npu.current_stream() == torch.npu.default_stream()

    @pytest.mark.parametrize("select", [torch.npu.stream, torch.npu.StreamContext, lambda stream: stream])
    def test_it_ends_with_the_block(self, select: object) -> None:
        stream = torch.npu.Stream()
        with select(stream):
            assert torch.npu.current_stream() is stream
            assert torch.accelerator.current_stream() == stream
        assert torch.npu.current_stream() == torch.npu.default_stream()

    def test_it_takes_its_device_along(self) -> None:
        stream = torch.npu.Stream("npu:1")
        with torch.npu.stream(stream):
            assert torch.npu.current_device() == 1
            assert torch.npu.current_stream() is stream
            assert torch.npu.current_stream(0) == torch.npu.default_stream(0)
        assert torch.npu.current_device() == 0
        assert torch.npu.current_stream(1) == torch.npu.default_stream(1)

    def test_none_changes_nothing(self) -> None:
        with torch.npu.stream(None):
            assert torch.npu.current_stream() == torch.npu.default_stream()
        torch.npu.set_stream(None)
        assert torch.npu.current_stream() == torch.npu.default_stream()

    def test_every_thread_has_its_own(self) -> None:
        seen: list[torch.Stream] = []
        with torch.npu.stream(torch.npu.Stream()):
            thread = threading.Thread(target=lambda: seen.append(torch.npu.current_stream()))
            thread.start()
            thread.join()
        assert seen == [torch.npu.default_stream()]

    def test_torchs_generic_functions_see_and_set_it(self) -> None:
        stream = torch.npu.Stream()
        torch.accelerator.set_stream(stream)
        assert torch.npu.current_stream() == stream
        torch.npu.set_stream(torch.npu.default_stream())
        assert torch.accelerator.current_stream() == torch.npu.default_stream()


class TestEvents:
    def test_they_measure_time(self) -> None:
        start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
        start.record()
        time.sleep(0.02)
        end.record(torch.npu.current_stream())
        assert 20 <= start.elapsed_time(end) < 2000
        assert end.recorded_time() - start.recorded_time() >= 20_000
        assert end.query()

    def test_time_is_measured_only_if_asked_for(self) -> None:
        timed, untimed = torch.npu.Event(enable_timing=True), torch.npu.Event()
        timed.record()
        untimed.record()
        with pytest.raises(ValueError, match="enable_timing=True"):
            timed.elapsed_time(untimed)
        with pytest.raises(ValueError, match="enable_timing=True"):
            untimed.recorded_time()

    def test_time_is_measured_only_of_what_was_recorded(self) -> None:
        recorded, unrecorded = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
        recorded.record()
        with pytest.raises(RuntimeError, match="must be recorded"):
            recorded.elapsed_time(unrecorded)

    def test_a_stream_records_one(self) -> None:
        event = torch.npu.Stream().record_event()
        event.wait()
        event.synchronize()
        assert "recorded" in repr(event)
        assert isinstance(event, torch.Event)

    def test_no_event_is_shared_between_processes(self) -> None:
        with pytest.raises(NotEmulated, match="interprocess=True"):
            torch.npu.Event(interprocess=True)

    def test_an_external_event_can_be_reset(self) -> None:
        event = torch.npu.ExternalEvent()
        event.record(torch.npu.current_stream())
        event.reset(torch.npu.current_stream())
        assert "uninitialized" in repr(event)
