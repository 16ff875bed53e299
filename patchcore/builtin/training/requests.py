"""What a program asks of a Patcher besides patches: profiling and a brake."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from patchcore.errors import SettingsError

if TYPE_CHECKING:
    from patchcore.planning.plan import Candidate, PlannedPatch
    from patchcore.plugins import Plugins
    from patchcore.settings import Choice, Settings

__all__ = ["Requests"]

_R = TypeVar("_R", bound="Requests")


class Requests:
    """The calls of a Patcher that ask for profiling and a brake, which settings can ask for too.

    Both become patches of the plugin ``patchcore``, which are planned, applied, reported and reverted like others.
    """

    settings: Settings
    plugins: Plugins
    applied: bool
    _counters: Optional[list[Candidate]] = None

    def with_profiling(
        self: _R,
        path: Union[str, os.PathLike[str]],
        level: int = 0,
        skip_first: int = 20,
        wait: int = 1,
        warmup: int = 1,
        active: int = 1,
        repeat: int = 1,
        *,
        step: Union[str, Sequence[str]] = (),
    ) -> _R:
        """Record training steps, by default step 21; return the Patcher.

        Args:
            path: directory for the records, is made where it is missing.
            level: 0: the accelerator only, 1: also the CPU and shapes of tensors, 2: also call stacks and memory.
            skip_first, wait, warmup, active, repeat: which steps, see
                :class:`patchcore.builtin.training.options.ProfilingOptions`.
            step: targets of the functions each call of which is a step, ``"my.module:Trainer.train_step"``; by default
                the training loops that plugins know, else ``Optimizer.step`` of torch.

        Raises:
            SettingsError: a value is impossible, values contradict each other, or :meth:`apply` was called already.
        """
        schedule = {"skip_first": skip_first, "wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
        return self._request("with_profiling", step, profiling={"path": path, "level": level, **schedule})

    def brake_at(self: _R, n: Optional[int] = None, *, step: Union[str, Sequence[str]] = ()) -> _R:
        """End the program, with exit code 0, after training step ``n``; return the Patcher.

        Args:
            n: 1 or more; by default the step after which profiling, which was asked for before, is complete.
            step: see :meth:`with_profiling`.

        Raises:
            SettingsError: an argument means nothing, there is no such step, or :meth:`apply` was called already.
        """
        return self._request("brake_at", step, brake="auto" if n is None else n)

    def _request(self: _R, call: str, step: Union[str, Sequence[str]], **asked: Any) -> _R:
        from patchcore.builtin.training.patches import with_request

        if self.applied:
            raise SettingsError(
                f"{call}() comes too late, the patches are applied; write Patcher.discover().{call}(...).apply()"
            )
        if step:
            asked["step"] = step
            self._counters = None
        self.settings = with_request(self.settings, asked, f"{call}()")
        return self

    def _requested(self, others: Sequence[Candidate]) -> list[Candidate]:
        """Return the patches that were asked for, besides ``others``; those of each plan count steps from 1."""
        if self.settings.profiling is None and self.settings.brake is None:
            return []
        from patchcore.builtin.training import patches  # for those who train and ask

        if self._counters is None:  # the plugins are asked once
            self._counters = patches.counters(self.settings, self.plugins, others)
        return [*self._counters, *patches.listeners(self.settings)]

    def _is_request(self, entry: PlannedPatch) -> bool:
        """Tell whether a planned patch is there for profiling or a brake: nobody wants to know how often it is hit."""
        if self._counters is None:
            return False
        from patchcore.builtin.training.patches import CORE

        return entry.provenance == CORE or any(entry.patch is counter.patch for counter in self._counters)

    def _with_requests(self, requested: list[Candidate]) -> tuple[Choice, ...]:
        """Return the choices of the settings, and those that ``requested`` stands for."""
        if not requested:
            return self.settings.choices
        from patchcore.builtin.training.patches import choices_for

        return (*self.settings.choices, *choices_for(requested, self.settings))
