"""Profiling and brake as a program, settings and plugins ask for them."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import patchcore as pc
from patchcore.plugins import Plugins
from patchcore.settings import Settings
from patchcore_torch import TrainingLoop
from patchcore_torch.training import profiling
from patchcore_torch.training.brake import Braked
from patchcore_torch.training.profilers import Recorder

pytestmark = pytest.mark.usefixtures("fresh_steps")

GYM = {"gym": "", "gym.loops": "def train_step(): return 'trained'\ndef evaluate(): return 'evaluated'"}
SUPPORT = f"plugin patchcore.torch, patchcore-torch {pc.__version__}"
STEP = "gym.loops:train_step"


@pytest.fixture
def gym(make_package: Any) -> Any:
    make_package(GYM)
    return importlib.import_module("gym.loops")


def train(gym: Any, most: int = 100) -> int:
    """Train until the brake, or to the end; return how many steps were made."""
    for done in range(1, most + 1):
        try:
            gym.train_step()
        except Braked:
            return done
    return most


def plugin(**hooks: Any) -> Plugins:
    plugins = Plugins(discover=False)
    implementations = SimpleNamespace(**{name: pc.hookimpl(hook) for name, hook in hooks.items()})
    plugins.load([(pc.patcher.Provenance("gymnast"), lambda: implementations)])
    return plugins


class FakeProfile:
    """Stands in for a profiler.

    Args:
        log: gets what happens to it.
    """

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def start(self) -> None:
        self.log.append("start")

    def step(self) -> None:
        self.log.append("step")

    def stop(self) -> None:
        self.log.append("stop")


@pytest.fixture
def profiler_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    log: list[str] = []
    monkeypatch.setattr(
        profiling, "make_recorder", lambda options, worker, first: Recorder(FakeProfile(log), f"place of {first}")
    )
    monkeypatch.setattr(profiling, "at_end", lambda function: log.append("at end"))
    return log


class TestBrake:
    def test_ends_the_program_after_the_step(self, gym: Any, capsys: pytest.CaptureFixture[str]) -> None:
        with pc.Patcher().with_settings(brake=3, step=[STEP, "gym.loops:evaluate"]):
            assert train(gym) == 3
        assert "patchcore: brake: the program ends after training step 3\n" in capsys.readouterr().err

    def test_is_no_error_and_exits_with_0(self, gym: Any) -> None:
        assert issubclass(Braked, SystemExit)
        assert not issubclass(Braked, Exception)
        with pc.Patcher().with_settings(brake=1, step=STEP), pytest.raises(Braked) as raised:
            gym.train_step()
        assert raised.value.code == 0

    def test_counts_anew_each_time_it_is_applied(self, gym: Any) -> None:
        patcher = pc.Patcher().with_settings(brake=3, step=STEP)
        with patcher:
            gym.train_step()
        with patcher:
            assert train(gym) == 3

    def test_of_two_patchers_each_counts_its_own_steps(self, gym: Any) -> None:
        with pc.Patcher().with_settings(brake=5, step=STEP):
            gym.train_step()
            gym.train_step()
            with pc.Patcher().with_settings(brake=2, step=STEP):
                assert train(gym) == 2
            assert train(gym) == 1

    def test_that_is_swallowed_says_so_once_and_is_tried_again(
        self, gym: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stops = 0
        with pc.Patcher().with_settings(brake=2, step=STEP):
            for _ in range(5):
                try:
                    gym.train_step()
                except BaseException:
                    stops += 1
        assert stops == 4
        lines = capsys.readouterr().err.splitlines()
        assert [line for line in lines if "did not end the program" in line and "catch Exception" in line] == [lines[1]]
        assert len(lines) == 2

    def test_without_a_step_needs_profiling(self, tmp_path: Path) -> None:
        with pytest.raises(pc.SettingsError, match="profiling is off; give the step"):
            pc.Patcher().with_settings(brake="auto")

    @pytest.mark.parametrize("n", [0, "soon", 1.5])
    def test_is_checked_when_it_is_set(self, n: Any) -> None:
        with pytest.raises(pc.SettingsError, match="expected the step after which the program ends"):
            pc.Patcher().with_settings(brake=n)

    @pytest.mark.parametrize("step", ["gym.loops.", "gym loops", "__main__:step"])
    def test_a_step_is_checked_when_it_is_set(self, step: str) -> None:
        with pytest.raises(pc.SettingsError, match=r"with_settings\(\)"):
            pc.Patcher().with_settings(brake=1, step=step)

    def test_comes_too_late_when_the_patches_are_applied(self) -> None:
        with pc.Patcher() as patcher, pytest.raises(pc.SettingsError, match="brake cannot be set after"):
            patcher.with_settings(brake=3)


class TestProfiling:
    def test_records_the_steps_of_the_schedule(
        self, gym: Any, tmp_path: Path, profiler_log: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        patcher = (
            pc.Patcher()
            .with_settings(profiling={"path": tmp_path, "skip_first": 4, "warmup": 2, "active": 3})
            .with_settings(brake=20, step=STEP)
        )
        states = []
        with patcher:
            for _ in range(10):
                gym.train_step()
                states.append(len(profiler_log))
        assert profiler_log == ["at end", "start", *["step"] * 5, "stop"]
        assert states == [1, 2, 3, 4, 5, 6, 8, 8, 8, 8]  # started after step 2, stopped after step 7
        assert capsys.readouterr().err == (
            "patchcore: profile of steps 5 to 7 written to place of 5; TensorBoard and ui.perfetto.dev open it\n"
        )

    def test_ends_the_program_when_it_is_complete(self, gym: Any, tmp_path: Path, profiler_log: list[str]) -> None:
        with pc.Patcher().with_settings(profiling={"path": tmp_path}).with_settings(brake="auto", step=STEP):
            assert train(gym) == 21
        assert profiler_log[-1] == "stop"

    def test_repeats(self, gym: Any, tmp_path: Path, profiler_log: list[str]) -> None:
        schedule = {"skip_first": 2, "wait": 0, "warmup": 1, "active": 1, "repeat": 3}
        with (
            pc.Patcher().with_settings(profiling={"path": tmp_path, **schedule}).with_settings(brake="auto", step=STEP)
        ):
            assert train(gym) == 7
        assert profiler_log == ["at end", *["start", "step", "step", "stop"] * 3]

    def test_a_profiler_that_fails_does_not_fail_the_training(
        self, gym: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        calls = []

        def refuse(*arguments: Any) -> Any:
            calls.append(arguments)
            raise RuntimeError("another profiler is running")

        monkeypatch.setattr(profiling, "make_recorder", refuse)
        monkeypatch.setattr(profiling, "at_end", lambda function: None)
        with pc.Patcher().with_settings(profiling={"path": tmp_path, "repeat": 3}).with_settings(brake=40, step=STEP):
            assert train(gym) == 40
        assert len(calls) == 1
        assert "profiling has failed, training goes on: RuntimeError: another profiler is running" in caplog.text

    def test_is_checked_when_it_is_set(self, tmp_path: Path) -> None:
        with pytest.raises(pc.SettingsError, match="active=0"):
            pc.Patcher().with_settings(profiling={"path": tmp_path, "active": 0})
        with pytest.raises(pc.SettingsError, match=", before step 21"):
            pc.Patcher().with_settings(brake=5).with_settings(profiling={"path": tmp_path})
        with pytest.raises(pc.SettingsError, match=", before step 21"):
            pc.Patcher().with_settings(profiling={"path": tmp_path}).with_settings(brake=5)

    def test_path_is_that_of_the_call(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        patcher = pc.Patcher().with_settings(profiling={"path": "records"})
        assert patcher.settings.get("profiling") is not None
        assert patcher.settings.get("profiling")["path"] == str(tmp_path / "records")


class TestPlan:
    def names(self, patcher: pc.Patcher) -> list[str]:
        return [entry.patch.name for entry in patcher.plan() if entry.verdict == "apply"]

    def test_has_the_patches_of_the_core(self, gym: Any, tmp_path: Path) -> None:
        patcher = pc.Patcher().with_settings(profiling={"path": tmp_path}).with_settings(brake="auto", step=STEP)
        plan = {entry.patch.name: entry for entry in patcher.plan()}
        assert list(plan) == ["patchcore.step.gym.loops.train_step", "patchcore.profiling", "patchcore.brake"]
        assert {str(entry.provenance) for entry in plan.values()} == {SUPPORT}
        assert plan["patchcore.brake"].patch.summary == "ends the program after training step 21"
        assert plan["patchcore.profiling"].patch.summary == f"records step 21 in {tmp_path}"
        report = patcher.apply()
        patcher.revert()
        assert {record.name: record.status for record in report.patches} == dict.fromkeys(plan, "applied")

    def test_without_a_named_step_optimizers_count_and_the_loops_of_plugins(self, gym: Any) -> None:
        plugins = plugin(training_loops=lambda: (TrainingLoop(target) for target in [STEP]))
        patcher = pc.Patcher(plugins=plugins).with_settings(brake=2)
        plan = {entry.patch.name: str(entry.provenance) for entry in patcher.plan()}
        assert plan == {
            "patchcore.step.gym.loops.train_step": SUPPORT,
            "patchcore.step.optimizer": SUPPORT,
            "patchcore.step.optimizer_torch1": SUPPORT,
            "patchcore.brake": SUPPORT,
        }
        with patcher:
            assert train(gym) == 2

    def test_with_a_named_step_nothing_else_counts(self, gym: Any) -> None:
        plugins = plugin(training_loops=lambda: [TrainingLoop(STEP)])
        patcher = pc.Patcher(plugins=plugins).with_settings(brake=2, step="gym.loops:evaluate")
        assert self.names(patcher) == ["patchcore.step.gym.loops.evaluate", "patchcore.brake"]

    def test_a_plugin_that_returns_something_else_is_noted(self, gym: Any) -> None:
        plugins = plugin(training_loops=lambda: [STEP])
        patcher = pc.Patcher(plugins=plugins).with_settings(brake=2)
        assert "patchcore.brake" in self.names(patcher)
        assert "patchcore.brake" in self.names(patcher)
        assert len(plugins.problems) == 1
        assert "expected patchcore_torch.TrainingLoop objects, got 'gym" in plugins.problems[0].message

    def test_has_nothing_of_it_where_nobody_asks(self) -> None:
        plugins = plugin(training_loops=lambda: pytest.fail("asked"))
        assert pc.Patcher(plugins=plugins).collect() == []

    def test_disabling_everything_leaves_what_was_asked_for(self, gym: Any) -> None:
        patcher = pc.Patcher([pc.Patch("p", [pc.Replace("gym.loops:evaluate", print)])], disable="*")
        patcher.with_settings(brake=2, step=STEP)
        assert self.names(patcher) == ["patchcore.step.gym.loops.train_step", "patchcore.brake"]
        patcher.disable("patchcore.brake")
        assert self.names(patcher) == ["patchcore.step.gym.loops.train_step"]

    def test_counts_around_what_another_patch_makes_of_the_function(self, gym: Any) -> None:
        other = pc.Patch("gym.faster", [pc.Replace("gym.loops.train_step", lambda: "faster")])
        with pc.Patcher([other]).with_settings(brake=2, step=STEP):
            assert gym.train_step() == "faster"
            assert train(gym) == 1
        with pc.Patcher([other]), pc.Patcher().with_settings(brake=2, step=STEP):
            assert gym.train_step() == "faster"


class TestSettings:
    def load(self, tmp_path: Path, text: str = "", **environ: str) -> Settings:
        (tmp_path / "pyproject.toml").write_text(text)
        return Settings.load(environ=environ, start=tmp_path).complete(Plugins(discover=False).settings())

    def test_of_pyproject(self, tmp_path: Path) -> None:
        text = '[tool.patchcore]\nbrake = "auto"\nstep = ["gym.loops:train_step"]\n'
        text += '[tool.patchcore.profiling]\npath = "records"\nlevel = 2\n'
        settings = self.load(tmp_path, text)
        assert (settings.get("brake"), settings.get("step")) == ("auto", (STEP,))
        assert settings.get("profiling") is not None
        assert settings.get("profiling")["path"] == str(tmp_path / "records")
        assert (settings.get("profiling")["level"], settings.get("profiling")["active"]) == (2, 1)

    def test_of_the_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        settings = self.load(tmp_path, PATCHCORE_PROFILING="records", PATCHCORE_BRAKE="30", PATCHCORE_STEP="a.b:c,d:e")
        assert (settings.get("brake"), settings.get("step")) == (30, ("a.b:c", "d:e"))
        assert settings.get("profiling") is not None
        assert settings.get("profiling")["path"] == str(tmp_path / "records")
        assert settings.origins["brake"] == "PATCHCORE_BRAKE"

    def test_empty_texts_switch_off(self, tmp_path: Path) -> None:
        text = '[tool.patchcore]\nbrake = 3\n[tool.patchcore.profiling]\npath = "x"\nskip_first = 2\n'
        settings = self.load(tmp_path, text, PATCHCORE_PROFILING="", PATCHCORE_BRAKE="")
        assert (settings.get("brake"), settings.get("profiling")) == (None, None)

    def test_that_contradict_each_other_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(pc.SettingsError, match="before step 21 can be recorded"):
            self.load(tmp_path, "[tool.patchcore]\nbrake = 3\n", PATCHCORE_PROFILING="records")
