"""What profiling and brake can be asked for, and which steps that means."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patchcore as pc
from patchcore_torch.training.options import ProfilingOptions, brake_step, check_brake


def options(**values: Any) -> ProfilingOptions:
    return ProfilingOptions.of({"path": "profile", **values})


def windows(options: ProfilingOptions, steps: int) -> list[list[int]]:
    """Play ``steps`` steps and return the recorded ones, a list for each time that the profiler was started."""
    recorded: list[list[int]] = []
    started: Optional[int] = None
    for step in range(1, steps + 1):
        if started is not None and step > started + options.warmup:
            recorded[-1].append(step)
        if started is not None and step == started + options.warmup + options.active:
            started = None
        if options.starts_cycle_after(step):
            assert started is None, "a cycle starts in another"
            started = step
            recorded.append([])
    return [window for window in recorded if window]


class TestSteps:
    def test_step_21_is_recorded_by_default(self) -> None:
        assert windows(options(), 100) == [[21]]
        assert options().starts_after == 19  # step 20 is the warm-up
        assert options().window == "step 21"

    def test_active_steps_follow_each_other_and_cycles_repeat(self) -> None:
        repeated = options(skip_first=4, wait=2, warmup=1, active=3, repeat=2)
        assert windows(repeated, 100) == [[5, 6, 7], [11, 12, 13]]
        assert repeated.window == "steps 5 to 7"

    def test_repeat_0_goes_on_to_the_end(self) -> None:
        assert windows(options(skip_first=3, wait=0, warmup=0, repeat=0), 8) == [[4], [5], [6], [7], [8]]

    @given(
        skip_first=st.integers(0, 12),
        wait=st.integers(1, 4),
        warmup=st.integers(0, 4),
        active=st.integers(1, 4),
        repeat=st.integers(1, 4),
    )
    def test_first_and_last_step_are_those_of_the_schedule(self, **schedule: int) -> None:
        wanted = options(**schedule)
        found = windows(wanted, 100)
        assert found[0][0] == wanted.first_step == max(schedule["skip_first"], wanted.wait + wanted.warmup) + 1
        assert found[-1][-1] == wanted.last_step
        assert [len(window) for window in found] == [wanted.active] * wanted.repeat
        gaps = [later[0] - earlier[-1] for earlier, later in zip(found, found[1:])]
        assert set(gaps) <= {wanted.wait + wanted.warmup + 1}


class TestProfiling:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"active": 0}, "profiling: active=0; expected a whole number, 1 or more"),
            ({"skip_first": -1}, "profiling: skip_first=-1; expected a whole number, 0 or more"),
            ({"wait": 1.5}, "profiling: wait=1.5; expected a whole number"),
            ({"repeat": True}, "profiling: repeat=True; expected a whole number"),
            ({"warmup": "2"}, "profiling: warmup='2'; expected a whole number"),
            ({"level": 3}, "profiling: level=3; expected 0 "),
            ({"level": None}, "profiling: level=None; expected a whole number"),
            ({"skip_first": 0, "wait": 0}, "at least one step comes before its warm-up; write skip_first=2"),
            ({"skipfirst": 0}, "profiling has no option 'skipfirst'; did you mean 'skip_first'?"),
            ({"path": ""}, "profiling: path=''; expected the directory"),
        ],
        ids=lambda value: str(value) if isinstance(value, dict) else "",
    )
    def test_what_is_impossible_is_refused(self, values: dict[str, Any], message: str) -> None:
        with pytest.raises(pc.SettingsError) as raised:
            options(**values)
        assert message in str(raised.value)

    def test_a_path_is_needed(self) -> None:
        with pytest.raises(pc.SettingsError, match=r"profiling has no path.*path='profile'"):
            ProfilingOptions.of({"level": 1})

    def test_a_file_is_no_directory(self, tmp_path: Path) -> None:
        (tmp_path / "taken").write_text("")
        with pytest.raises(pc.SettingsError, match=r"expected a directory, and .*taken is a file"):
            options(path=str(tmp_path / "taken" / "inside"))


class TestBrake:
    @pytest.mark.parametrize(("given_", "meant"), [(1, 1), ("12", 12), ("auto", "auto")], ids=str)
    def test_steps_and_auto(self, given_: Any, meant: Any) -> None:
        assert check_brake(given_) == meant

    @pytest.mark.parametrize("value", [0, -3, True, 1.0, "soon", "1.5", None, "²", "٣", 2**64, "9" * 5000], ids=ascii)
    def test_anything_else_is_refused(self, value: Any) -> None:
        with pytest.raises(pc.SettingsError, match="expected the step after which the program ends, 1 or more"):
            check_brake(value)

    def test_auto_ends_after_the_last_recorded_step(self) -> None:
        assert brake_step("auto", options()) == 21
        assert brake_step("auto", options(skip_first=4, wait=2, active=3, repeat=2)) == 13

    def test_auto_needs_an_end_of_profiling(self) -> None:
        with pytest.raises(pc.SettingsError, match="profiling is off; give the step"):
            brake_step("auto", None)
        with pytest.raises(pc.SettingsError, match="repeat=0 goes on to the end of training"):
            brake_step("auto", options(repeat=0))

    def test_a_step_before_anything_is_recorded_is_refused(self) -> None:
        with pytest.raises(pc.SettingsError, match="after step 20, before step 21"):
            brake_step(20, options())
        assert brake_step(21, options()) == 21
        assert brake_step(500, options()) == 500
