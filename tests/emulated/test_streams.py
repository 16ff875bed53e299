"""Streams and events: everything is done at once here, but programs that order their work run unchanged."""

from __future__ import annotations

import time

import torch
from limits import within_limit


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
