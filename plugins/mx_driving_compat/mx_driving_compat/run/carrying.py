"""Hands the patches of a migration on to the processes that its program starts.

A program that applies patches under ``if __name__ == "__main__":`` has workers without them, where these are spawned
and not forked. In a run of ``patchcore run`` each process leaves a recipe of what it has applied in its environment,
which its children inherit: names, and patches as :mod:`pickle` refers to them, by module and name. In a child a patch
is fetched, and its module imported, when the module of its target is, or once the script has run, where the script
itself defines it. What cannot be carried stays behind, and the report says so: what pickle cannot refer to (a lambda, a
class that a function makes) or fails on, and what is too large for the environment of a process.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

from mx_driving_compat.collecting.patcher import LISTENERS, Patcher
from mx_driving_compat.patches.application import Run, Unit
from mx_driving_compat.patches.base import BasePatch
from mx_driving_compat.predefined.changes import PluginChange, Predefined
from patchcore import Call, Wrap
from patchcore import Patch as CorePatch
from patchcore.plugin import counted, describe_error

__all__ = ["RECIPES", "begin", "left_behind"]

logger = logging.getLogger("patchcore")

#: Environment variable with the recipes of what a process has applied, for the processes it starts.
RECIPES = "PATCHCORE_MX_DRIVING"

#: Characters that all recipes together may have. Linux starts no process with a variable of 128 KiB.
_MOST = 120_000

_inherited: list[dict[str, Any]] = []  # recipes of the parent process
_left: dict[int, _Recipe] = {}  # of this process, by id of the patcher
_waiting: list[_Fetch] = []


def begin() -> None:
    """Apply the patches of the parent process here; from now on leave recipes for child processes."""
    if _LEAVING not in LISTENERS:
        LISTENERS.append(_LEAVING)
    text = os.environ.get(RECIPES)
    if not text:
        return
    _inherited[:] = json.loads(text)
    for recipe in _inherited:
        _follow(recipe)
    if any(_is_of_script(entry["patch"]) for recipe in _inherited for entry in recipe["patches"]):
        work = Wrap("multiprocessing.process:BaseProcess._bootstrap", _begin_work)
        Run([Unit(CorePatch("mx_driving.patcher.script", [work]), [work])]).apply()


class _Leaving:
    """Leaves the recipe of each applied patcher to child processes, and takes it back when the patcher is reverted."""

    def applied(self, patcher: Patcher) -> None:
        _left[id(patcher)] = _Recipe(patcher)
        _publish()

    def reverts(self, patcher: Patcher) -> None:
        if _left.pop(id(patcher), None) is not None:
            _publish()


_LEAVING = _Leaving()


def left_behind() -> list[tuple[str, str]]:
    """Return what the patchers of this process cannot carry to its child processes: names, and why."""
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
    """What a child process needs to apply the patches of a patcher.

    Args:
        patcher: applied.
    """

    def __init__(self, patcher: Patcher) -> None:
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

    def _own(self, patcher: Patcher) -> Iterator[dict[str, str]]:
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


def _follow(recipe: dict[str, Any]) -> None:
    patcher = Patcher(allow_internal_format=recipe["internal_format"])
    for text in recipe["imports"]:
        with _going_on():
            method, arguments = _load(text)
            getattr(patcher.imports, method)(*arguments)
    for text in recipe["predefined"]:
        with _going_on():
            patch_class, options = _load(text)
            patcher.add(patch_class, options=options)
    for name in recipe["disabled"]:
        patcher.selection.pass_over(name)  # the parent has reported unknown names
    with _going_on():
        patcher.put_in_force(tell=False)
    units = [
        Unit(CorePatch(entry["name"], [Call(_Fetch(entry["patch"]), module=entry["module"])]), [entry["name"]])
        for entry in recipe["patches"]
    ]
    with _going_on():
        Run(units).apply()


@contextlib.contextmanager
def _going_on() -> Iterator[None]:
    """Log an error of this block and go on: a worker without a patch is better than no worker."""
    try:
        yield
    except Exception as error:
        logger.warning("a patch of the parent process is not applied here: %s", describe_error(error))


class _Fetch:
    """Unpickles a patch and applies it, when its target is imported.

    Args:
        text: the patch, as :func:`_dump` has it.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, module: Any, options: Any) -> None:
        try:
            patch: BasePatch = _load(self._text)
        except AttributeError:
            if self in _waiting or not _is_of_script(self._text):
                raise
            _waiting.append(self)  # the script imports the target before it defines the patch
            return
        result = patch.apply()
        logger.debug("patch %s of the parent process: %s", result.name, result.status.value)


def _is_of_script(text: str) -> bool:
    return b"__main__" in base64.b64decode(text)


def _begin_work(original: Callable[..., int], *args: Any, **kwargs: Any) -> int:
    """Apply the patches that the script defines, which has run by now; then let the worker begin its work."""
    script = vars(sys.modules["__main__"])
    before = dict(script)
    for fetch in _waiting:
        with _going_on():
            fetch(None, {})
    _waiting.clear()
    # multiprocessing runs the script in a namespace of its own, and copies that to the module __main__.
    changed = {name: value for name, value in script.items() if before.get(name) is not value}
    for function in [value for value in script.values() if isinstance(value, FunctionType)]:
        if changed and function.__module__ == script["__name__"]:
            function.__globals__.update(changed)
    return original(*args, **kwargs)


def _dump(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode("ascii")


def _load(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))  # the environment of this process also decides which code it runs
