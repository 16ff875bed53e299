"""Profiling, brake and recording of the API, done by patchcore's; a process has one of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

from mx_driving_compat.messages.logger import LOGGER_NAME
from mx_driving_compat.messages.results import PatchResult, PatchStatus
from mx_driving_compat.patches.application import revert_with_run
from mx_driving_compat.patches.base import BasePatch
from mx_driving_compat.predefined import catalogue
from mx_driving_compat.predefined.precision import seed_everything
from patchcore import Patcher
from patchcore.plugin import Choice

__all__ = ["Training", "TrainingLoops", "loops_builder", "loops_function"]


class Training(NamedTuple):
    """The settings for training steps.

    Args:
        profiling: the setting ``profiling`` of patchcore, ``None`` for no profiling.
        brake: the step after which the program ends, ``None`` for never.
        record: the setting ``record`` of patchcore, ``None`` for no recording.
        seed: for all random numbers, ``None`` for the program's own.
        deterministic: with the seed, whether torch is to use deterministic operators only.
    """

    profiling: Optional[tuple[tuple[str, Any], ...]] = None
    brake: Optional[int] = None
    record: Optional[tuple[tuple[str, Any], ...]] = None
    seed: Optional[int] = None
    deterministic: bool = True

    def patcher(self) -> Optional[Patcher]:
        """Return a Patcher of patchcore that does it, not applied; ``None`` if neither is set.

        Raises:
            SettingsError: a setting is impossible, or they contradict each other.
        """
        if self.seed is not None:
            seed_everything(self.seed, self.deterministic)
        if self.profiling is None and self.brake is None and self.record is None:
            return None
        settings = catalogue.load().settings
        nothing_else = Choice(False, "*", LOGGER_NAME, -1)
        settings = settings._replace(choices=(nothing_else, *settings.choices), on_failure="warn")
        patcher = Patcher.discover(settings=settings)
        if self.profiling is not None:
            patcher.with_settings(profiling=dict(self.profiling))
        if self.brake is not None:
            patcher.with_settings(brake=self.brake)
        if self.record is not None:
            patcher.with_settings(record=dict(self.record))
        return patcher

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Training:
        """Return the settings from the options of the API's training loop patches.

        Args:
            options: ``enable_profiler``, ``profiling_path``, ``profiling_level``, ``step_ctrl`` (wait, active, warmup,
                repeat, skip_first: numbers of steps), ``enable_brake``, ``brake_step``.
        """
        profiling = None
        if options.get("enable_profiler"):
            names = ("wait", "active", "warmup", "repeat", "skip_first")
            steps = dict(zip(names, options.get("step_ctrl", (1, 1, 1, 1, 20))))
            given = {"path": options["profiling_path"], "level": options.get("profiling_level", 0), **steps}
            profiling = tuple(given.items())
        return cls(profiling, options.get("brake_step") if options.get("enable_brake") else None)


_in_force: dict[Training, Patcher] = {}


class TrainingLoops(BasePatch):
    """A patch for profiling and brake in every training loop that plugins know; equal patches take effect once.

    Args:
        name: of the patch.
        options: see :meth:`Training.of`.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self._name = name
        self.options = dict(options)

    @property
    def name(self) -> str:
        return self._name

    def apply(self) -> PatchResult:
        """Apply it, unless another loop's patch has done so with the same options."""
        training = Training.of(self.options)
        if training not in _in_force or not _in_force[training].applied:
            patcher = training.patcher()
            if patcher is None:
                return PatchResult(PatchStatus.SKIPPED, self.name, "", "neither profiling nor brake is asked for")
            patcher.apply()
            revert_with_run(patcher)
            _in_force[training] = patcher
        self.is_applied = True
        return PatchResult(PatchStatus.APPLIED, self.name, "")


def loops_function(name: str) -> Callable[..., None]:
    """Return the function of API 1.0 that patches a training loop, for ``Patch(function, options)``.

    Args:
        name: of the function.
    """

    def function(module: Any, options: Mapping[str, Any]) -> None:
        TrainingLoops(name, options).apply()

    function.__name__ = function.__qualname__ = name
    return function


def loops_builder(name: str) -> Callable[[Mapping[str, Any]], TrainingLoops]:
    """Return the function ``build_NAME_patch`` of the API, which makes the patch of a training loop from its options.

    Args:
        name: of the patch.
    """

    def build(options: Mapping[str, Any]) -> TrainingLoops:
        return TrainingLoops(name, options)

    build.__name__ = build.__qualname__ = f"build_{name}_patch"
    build.__doc__ = "Return profiling and brake for training loops; equal options are carried out once, for all loops."
    return build
