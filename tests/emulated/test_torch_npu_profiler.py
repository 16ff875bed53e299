"""``torch_npu.profiler`` and ``torch.npu.mstx``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu
from torch_npu import profiler
from torch_npu.profiler import profiler as trace_folders
from torch_npu.profiler.profiler import analyse

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.npu import _mstx


def work() -> None:
    """Do something that is seen in a trace."""
    torch.ones(4, 4, device="npu") @ torch.ones(4, 4, device="npu")


def names_in(trace: Path) -> set[str]:
    """Return the names of the events in a trace."""
    return {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}


class TestProfile:
    def test_a_trace_holds_operators_and_says_that_it_is_emulated(self, tmp_path: Path) -> None:
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU]) as profile:
            work()
        profile.export_chrome_trace(str(tmp_path / "trace.json"))
        assert "aten::matmul" in names_in(tmp_path / "trace.json")
        assert "emulated" in json.loads((tmp_path / "trace.json").read_text())["npu_emulator"]

    def test_a_schedule_writes_a_trace_for_every_cycle(self, tmp_path: Path) -> None:
        ready = profiler.tensorboard_trace_handler(str(tmp_path), worker_name="worker")
        schedule = profiler.schedule(wait=1, active=1, warmup=1, repeat=2, skip_first=1)
        with profiler.profile(schedule=schedule, on_trace_ready=ready, record_shapes=True) as profile:
            for _ in range(8):
                work()
                profile.step()
        folders = sorted(tmp_path.iterdir())
        assert len(folders) == 2
        for folder in folders:
            assert folder.name.startswith("worker_")
            assert folder.name.endswith("_ascend_pt")
            assert "aten::matmul" in names_in(folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
            assert "emulated" in json.loads((folder / "profiler_metadata.json").read_text())["npu_emulator"]

    def test_cycles_within_one_millisecond_get_folders_of_their_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trace_folders.time, "time_ns", lambda: 1_700_000_000_123_456_789)
        ready = profiler.tensorboard_trace_handler(str(tmp_path), worker_name="worker")
        for _ in range(2):
            with profiler.profile(on_trace_ready=ready):
                work()
        assert len(list(tmp_path.glob("*/ASCEND_PROFILER_OUTPUT/trace_view.json"))) == 2

    def test_traces_go_where_cann_writes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path))
        with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler()):
            work()
        assert len(list((tmp_path / "profiling_data").glob("*_ascend_pt"))) == 1

    def test_without_analysis_nothing_is_written(self, tmp_path: Path) -> None:
        with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), analyse_flag=False)):
            work()
        assert list(tmp_path.iterdir()) == []

    def test_without_steps(self, tmp_path: Path) -> None:
        profile = profiler._KinetoProfile(activities=[profiler.ProfilerActivity.NPU])
        profile.start()
        work()
        profile.stop()
        profile.export_chrome_trace(str(tmp_path / "trace.json"))
        assert "aten::matmul" in names_in(tmp_path / "trace.json")

    def test_activities_are_torch_npus(self) -> None:
        assert profiler.supported_activities() == {profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU}
        with pytest.raises(ValueError, match="CUDA"):
            profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])


class TestExperimentalConfig:
    def test_options_of_the_hardware_are_recorded(self) -> None:
        config = profiler._ExperimentalConfig(
            profiler_level=profiler.ProfilerLevel.Level1,
            aic_metrics=profiler.AiCMetrics.PipeUtilization,
            export_type=[profiler.ExportType.Text, profiler.ExportType.Db],
            l2_cache=True,
        )
        profile = profiler.profile(experimental_config=config)
        assert profile.npu_config is config
        assert (config.profiler_level, config.aic_metrics) == ("Level1", "ACL_AICORE_PIPE_UTILIZATION")

    @pytest.mark.parametrize(
        "option",
        [{"profiler_level": "Level9"}, {"aic_metrics": "heat"}, {"export_type": ["text", "paper"]}],
        ids=lambda option: next(iter(option)),
    )
    def test_values_that_there_are_not_are_refused(self, option: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=f"{next(iter(option))} is one of"):
            profiler._ExperimentalConfig(**option)

    def test_databases_cannot_be_written(self, tmp_path: Path) -> None:
        config = profiler._ExperimentalConfig(export_type=profiler.ExportType.Db)
        write = profiler.tensorboard_trace_handler(str(tmp_path))
        with pytest.raises(NotEmulated, match="Db"):
            write(profiler.profile(experimental_config=config))

    def test_what_is_supported_is_named(self) -> None:
        assert profiler.ProfilerLevel.Level2 in profiler.supported_profiler_level()
        assert profiler.AiCMetrics.MemoryAccess in profiler.supported_ai_core_metrics()
        assert profiler.supported_export_type() == {"db", "text"}

    def test_there_are_no_raw_data(self) -> None:
        with pytest.raises(NotEmulated, match="keeps no raw data"):
            analyse("somewhere")


class TestMarks:
    def test_marks_and_ranges_are_recorded(self) -> None:
        _mstx.records.clear()
        torch.npu.mstx.mark("here")
        outer = torch.npu.mstx.range_start("outer", torch.npu.current_stream(), domain="model")
        inner = torch.npu.mstx.range_start("inner")
        torch.npu.mstx.range_end(outer, domain="model")
        torch.npu.mstx.range_end(inner)
        assert [record[:3] for record in _mstx.records] == [
            ("mark", "here", "default"),
            ("range", "outer", "model"),
            ("range", "inner", "default"),
        ]
        assert all(record.started <= record.ended for record in _mstx.records)

    def test_a_function_is_in_a_range_even_when_it_fails(self) -> None:
        @torch.npu.mstx.mstx_range("dividing")
        def divide(number: int) -> float:
            return 1 / number

        _mstx.records.clear()
        assert divide(2) == 0.5
        with pytest.raises(ZeroDivisionError):
            divide(0)
        assert [record.message for record in _mstx.records] == ["dividing", "dividing"]
        assert divide.__name__ == "divide"

    def test_they_appear_in_traces(self, tmp_path: Path) -> None:
        with torch_npu.profiler.profile() as profile:
            torch.npu.mstx.mark("here")
            torch.npu.mstx.range_end(torch.npu.mstx.range_start("from here on"))
        profile.export_chrome_trace(str(tmp_path / "trace.json"))
        assert {"mstx: here", "mstx: from here on"} <= names_in(tmp_path / "trace.json")

    def test_wrong_arguments_warn_as_in_torch_npu(self) -> None:
        with pytest.warns(UserWarning, match="not empty"):
            assert torch.npu.mstx.range_start("") == 0
        with pytest.warns(UserWarning, match="expected a torch.npu.Stream"):
            assert torch.npu.mstx.range_start("range", stream=5) == 0
        with pytest.warns(UserWarning, match="expected what mstx.range_start returned, found 0"):
            torch.npu.mstx.range_end(0)
