"""Built-in plugin ``training``: counts training steps, profiles some of them, and ends a program after one.

It has the settings ``profiling``, ``brake`` and ``step``, and contributes patches if a user sets ``profiling`` or
``brake``. Other plugins name training loops with the hook ``training_loops``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from patchcore.declare.patch import Patch
    from patchcore.settings import Setting, Settings

__all__ = [
    "register_hookspecs",
    "register_patches",
    "register_run_options",
    "register_settings",
    "start_process",
]

_NAME = "patchcore.training.collected"


@hookimpl
def register_hookspecs() -> Any:
    from patchcore.builtin.training import hookspecs

    return hookspecs


@hookimpl
def register_settings() -> Iterable[Setting]:
    from patchcore.builtin.training.settings import SETTINGS

    return SETTINGS


@hookimpl
def register_run_options(parser: ArgumentParser, command: str) -> None:
    from patchcore.builtin.training.settings import add_options

    if command == "run":
        add_options(parser)


@hookimpl
def register_patches(settings: Settings, plugins: Any) -> Iterable[Patch]:
    if settings.get("profiling") is None and settings.get("brake") is None:
        return []
    from patchcore.builtin.training.patches import counters, listeners  # only if a user asks for them

    plugins.add(_Beginning(), _NAME)
    return [*counters(settings, plugins), *listeners(settings)]


class _Beginning:
    """Has recording and braking count from 1 again when their patches are applied."""

    @hookimpl
    def before_apply(self, patch: Patch) -> None:
        if patch.name in ("patchcore.profiling", "patchcore.brake"):
            for change in patch.changes:
                change.source.begin()


@hookimpl
def start_process(patcher: Any, session: Any) -> None:
    if patcher.settings.get("profiling") is not None or patcher.settings.get("brake") is not None:
        from patchcore.builtin.training.ending import complain_without_steps

        complain_without_steps()
