"""Settings that a patcher and a builder have in common: profiling, the brake and the precision debugger."""

from __future__ import annotations

from typing import Any, Optional, TypeVar

from mx_driving_compat.predefined.precision import precision_record
from mx_driving_compat.predefined.training import Training

__all__ = ["TrainingRequests"]

_Asked = TypeVar("_Asked", bound="TrainingRequests")


class TrainingRequests:
    """Keeps the settings for training steps."""

    def __init__(self) -> None:
        #: Profiling, brake and recording. Not in mx_driving.patcher.
        self.training = Training()

    def with_profiling(
        self: _Asked,
        path: str,
        level: int = 0,
        skip_first: int = 20,
        wait: int = 1,
        warmup: int = 1,
        active: int = 1,
        repeat: int = 1,
    ) -> _Asked:
        """Record training steps; return the object.

        Args:
            path: a folder for the records.
            level: 0 records the accelerator only, 1 also the CPU and shapes, 2 also call stacks and memory.
            skip_first: how many steps are not recorded at first.
            wait: how many steps between two recordings run without the profiler.
            warmup: how many steps before each recording run while the profiler warms up.
            active: how many steps a recording has.
            repeat: how many recordings there are, 0 for as many as fit.
        """
        steps = {"skip_first": skip_first, "wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
        self.training = self.training._replace(profiling=tuple({"path": path, "level": level, **steps}.items()))
        return self

    def brake_at(self: _Asked, step: int) -> _Asked:
        """End the program, with exit code 0, after training step ``step``; return the object."""
        self.training = self.training._replace(brake=step)
        return self

    def with_precision_debugger(
        self: _Asked,
        config_path: Optional[str] = None,
        seed: Optional[int] = None,
        seed_mode: bool = True,
        **config_kwargs: Any,
    ) -> _Asked:
        """Record steps of training with msprobe, or with patchcore's recorder where it is missing; return the object.

        Args:
            config_path: a configuration of msprobe, a file in JSON.
            seed: for the random numbers of Python, numpy and torch; ``None`` leaves them alone.
            seed_mode: with the seed, use deterministic operators only.
            config_kwargs: keys of the configuration, which win over those of the file.

        Raises:
            SettingsError: the configuration is wrong, or asks for something that needs msprobe.
        """
        record = precision_record(config_path, config_kwargs)
        self.training = self.training._replace(record=tuple(record.items()), seed=seed, deterministic=seed_mode)
        return self
