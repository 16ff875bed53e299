"""Streams and events: everything is done at once here, but programs that order their work run unchanged."""

from __future__ import annotations

import time

import pytest
import torch
from checks import check, within_limit


@check("streams and events")
class TestStreams:
    def test_the_current_stream_follows_the_context(self) -> None:
        stream = torch.npu.Stream()
        default = torch.npu.current_stream()
        assert default == torch.npu.default_stream()
        assert stream != default
        with torch.npu.stream(stream):
            assert torch.npu.current_stream() == stream
        assert torch.npu.current_stream() == default

    def test_a_stream_belongs_to_a_device(self) -> None:
        stream = torch.npu.Stream(device="npu:1")
        assert stream.device == torch.device("npu", 1)
        with torch.npu.stream(stream):
            assert torch.npu.current_device() == 1
        assert torch.npu.current_device() == 0
        assert torch.npu.current_stream(1) == torch.npu.default_stream(1)

    def test_no_stream_is_no_change(self) -> None:
        with torch.npu.stream(None):
            assert torch.npu.current_stream() == torch.npu.default_stream()

    def test_setting_without_a_context(self) -> None:
        stream = torch.npu.Stream()
        torch.npu.set_stream(stream)
        try:
            assert torch.npu.current_stream() == stream
        finally:
            torch.npu.set_stream(torch.npu.default_stream())

    def test_waiting(self) -> None:
        stream = torch.npu.Stream()
        event = torch.npu.current_stream().record_event()
        stream.wait_event(event)
        stream.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(stream):
            tensor = torch.ones(3, device="npu") * 2
        torch.npu.current_stream().wait_stream(stream)
        tensor.record_stream(torch.npu.current_stream())
        stream.synchronize()
        assert stream.query()
        assert event.query()
        assert tensor.tolist() == [2, 2, 2]

    def test_streams_compare_hash_and_show_themselves(self) -> None:
        stream = torch.npu.Stream()
        assert len({stream, stream, torch.npu.Stream()}) == 2
        assert "npu" in repr(stream).lower()

    def test_elapsed_time(self) -> None:
        start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
        start.record()
        time.sleep(0.02)
        end.record()
        end.synchronize()
        assert 15 <= start.elapsed_time(end) < 5000

    def test_events_wait_too(self) -> None:
        event = torch.npu.Event()
        event.record(torch.npu.current_stream())
        event.wait(torch.npu.Stream())
        assert event.query()

    def test_time_without_timing_is_refused(self) -> None:
        first, second = torch.npu.Event(), torch.npu.Event()
        first.record()
        second.record()
        with pytest.raises((RuntimeError, ValueError)):
            first.elapsed_time(second)


@check("generic Stream and Event")
class TestGenericStreams:
    def test_a_stream_by_device(self) -> None:
        stream = torch.Stream("npu")
        assert stream.device == torch.device("npu", 0)
        assert torch.Stream("npu:1").device.index == 1
        stream.synchronize()
        assert stream.query()

    def test_those_of_torch_npu_are_streams(self) -> None:
        assert isinstance(torch.npu.Stream(), torch.Stream)
        assert isinstance(torch.npu.Event(), torch.Event)

    def test_events(self) -> None:
        stream = torch.Stream("npu")
        event = stream.record_event()
        event.synchronize()
        assert event.query()
        stream.wait_event(event)
        stream.wait_stream(torch.Stream("npu"))
        assert torch.Event("npu").device.type == "npu"

    def test_elapsed_time(self) -> None:
        start, end = torch.Event("npu", enable_timing=True), torch.Event("npu", enable_timing=True)
        start.record()
        time.sleep(0.02)
        end.record()
        with within_limit("time a generic event"):
            assert 15 <= start.elapsed_time(end) < 5000
