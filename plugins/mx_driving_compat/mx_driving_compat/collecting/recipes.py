"""Leaves recipes of the patches of a migration to the processes that its program starts.

A program that applies patches under ``if __name__ == "__main__":`` has workers without them, where these are spawned
and not forked. In a run of ``patchcore run`` each process leaves a recipe of each applied patcher in its environment,
which its children inherit: names, and patches as :mod:`pickle` refers to them, by module and name.
:mod:`mx_driving_compat.run.carrying` applies them in a child. Some patches cannot be handed on, and the report lists
them: those that pickle cannot refer to (a lambda, a class that a function makes) or fails on, and those that are too
large for the environment of a process.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

from mx_driving_compat.predefined.changes import PluginChange, Predefined
from patchcore.plugin import counted, describe_error

__all__ = ["RECIPES", "begin", "leave", "left_behind", "take_back"]

logger = logging.getLogger("patchcore")

#: Environment variable with the recipes of the patchers of a process, for the processes it starts.
RECIPES = "PATCHCORE_MX_DRIVING"

#: Characters that all recipes together may have. Linux starts no process with a variable of 128 KiB.
_MOST = 120_000

_begun = False
_inherited: list[dict[str, Any]] = []  # recipes of the parent process
_left: dict[int, _Recipe] = {}  # of this process, by id of the patcher


def begin() -> list[dict[str, Any]]:
    """Leave recipes for child processes from now on; return the recipes of the parent process."""
    global _begun
    _begun = True
    text = os.environ.get(RECIPES)
    if text:
        _inherited[:] = json.loads(text)
    return _inherited


def leave(patcher: Any) -> None:
    """Leave the recipe of an applied :class:`~mx_driving_compat.Patcher` to child processes, in a process of a run."""
    if _begun:
        _left[id(patcher)] = _Recipe(patcher)
        _publish()


def take_back(patcher: Any) -> None:
    """Remove the recipe of a patcher that is about to be reverted."""
    if _left.pop(id(patcher), None) is not None:
        _publish()


def left_behind() -> list[tuple[str, str]]:
    """Return the patches of this process that its child processes do not get: their names, and the reasons."""
    return [pair for recipe in _left.values() for pair in recipe.behind]


def _publish() -> None:
    text = _text()
    if text == "[]":
        os.environ.pop(RECIPES, None)
    else:
        os.environ[RECIPES] = text


def _text() -> str:
    return json.dumps([*_inherited, *(recipe.view for recipe in _left.values())])


class _Recipe:
    """The data with which a child process applies the patches of a patcher.

    Args:
        patcher: applied.
    """

    def __init__(self, patcher: Any) -> None:
        self.behind: list[tuple[str, str]] = []
        self._room = _MOST - len(_text())
        predefined = [pair for pair in patcher.selection.classes() if issubclass(pair[0], Predefined)]
        self.view: dict[str, Any] = {
            "imports": self._dump_each((f"{m} {args[0]}", (m, args)) for m, args in patcher.imports.calls),
            "internal_format": patcher.internal_format,
            "predefined": self._dump_each((patch_class.__name__, (patch_class, o)) for patch_class, o in predefined),
            "disabled": sorted(patcher.selection.disabled),
            "patches": list(self._own(patcher)),
        }

    def _own(self, patcher: Any) -> Iterator[dict[str, str]]:
        for patch in patcher.applied_patches():
            if not isinstance(patch, PluginChange):
                for text in self._dump_each([(patch.name, patch)]):
                    core = patch.unit().patch
                    yield {"name": core.name, "module": core.changes[0].target.module, "patch": text}

    def _dump_each(self, named: Iterable[tuple[str, Any]]) -> list[str]:
        """Return each value as text; note those that have to stay behind."""
        texts = []
        for name, value in named:
            try:
                text = _dump(value)
                if len(text) > self._room:
                    raise ValueError(f"{counted(len(text), 'character')}, too many for the environment of a process")
            except Exception as error:  # pickle raises errors of any class
                self.behind.append((name, describe_error(error)))
                logger.info("%s is not carried to worker processes: %s", *self.behind[-1])
            else:
                self._room -= len(text) + len(name)
                texts.append(text)
        return texts


def _dump(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode("ascii")
