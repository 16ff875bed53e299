"""Hands the patches of a migration on to the processes that its program starts.

A program that applies patches under ``if __name__ == "__main__":`` has workers without them, where these are spawned
and not forked. In a run of ``patchcore run`` each process leaves a recipe of what it has applied in its environment,
which its children inherit: names, and patches as :mod:`pickle` refers to them, by module and name. In a child a patch
is fetched, and its module imported, when the module of its target is, or once the script has run, where the script
itself defines it; what pickle cannot refer to (a lambda, a function in a function) stays behind, and is logged.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from mx_driving_compat.collecting.patcher import LISTENERS, Patcher
from mx_driving_compat.patches.application import Run, Unit
from mx_driving_compat.patches.base import BasePatch
from mx_driving_compat.predefined.changes import PluginChange, Predefined
from patchcore.builtin.call.change import Call
from patchcore.declare.changes import Wrap
from patchcore.declare.patch import Patch as CorePatch
from patchcore.errors import describe_error

__all__ = ["RECIPES", "begin"]

logger = logging.getLogger("patchcore")

#: Environment variable with the recipes of what a process has applied, for the processes it starts.
RECIPES = "PATCHCORE_MX_DRIVING"

_inherited: list[dict[str, Any]] = []  # recipes of the parent process
_left: dict[int, dict[str, Any]] = {}  # recipes of this process, by id of the patcher
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
        try:
            _follow(recipe)
        except Exception as error:  # a worker without a patch is better than no worker
            logger.warning("patches of the parent process are not applied here: %s", describe_error(error))
    if any(_is_of_script(entry["patch"]) for recipe in _inherited for entry in recipe["patches"]):
        work = Wrap("multiprocessing.process:BaseProcess._bootstrap", _begin_work)
        Run([Unit(CorePatch("mx_driving.patcher.script", [work]), [work])]).apply()


class _Leaving:
    """Leaves the recipe of each applied patcher to child processes, and takes it back when the patcher is reverted."""

    def applied(self, patcher: Patcher) -> None:
        _left[id(patcher)] = _recipe(patcher)
        _publish()

    def reverts(self, patcher: Patcher) -> None:
        if _left.pop(id(patcher), None) is not None:
            _publish()


_LEAVING = _Leaving()


def _publish() -> None:
    recipes = [*_inherited, *_left.values()]
    if recipes:
        os.environ[RECIPES] = json.dumps(recipes)
    else:
        os.environ.pop(RECIPES, None)


def _recipe(patcher: Patcher) -> dict[str, Any]:
    return {
        "imports": [[method, *map(_dump, arguments)] for method, arguments in patcher.imports.calls],
        "internal_format": patcher.internal_format,
        "predefined": [
            _dump((patch_class, options))
            for patch_class, options in patcher.selection.classes()
            if issubclass(patch_class, Predefined)
        ],
        "disabled": sorted(patcher.selection.disabled),
        "patches": list(_own(patcher)),
    }


def _own(patcher: Patcher) -> Iterator[dict[str, str]]:
    for patch in patcher.applied_patches():
        if isinstance(patch, PluginChange):
            continue
        try:
            core = patch.unit().patch
            yield {"name": core.name, "module": core.changes[0].target.module, "patch": _dump(patch)}
        except Exception as error:  # pickle raises errors of any class
            logger.info("patch %s is not carried to worker processes: %s", patch.name, describe_error(error))


def _follow(recipe: dict[str, Any]) -> None:
    patcher = Patcher(allow_internal_format=recipe["internal_format"])
    for method, *arguments in recipe["imports"]:
        getattr(patcher.imports, method)(*map(_load, arguments))
    for patch_class, options in map(_load, recipe["predefined"]):
        patcher.add(patch_class, options=options)
    for name in recipe["disabled"]:
        patcher.selection.pass_over(name)  # the parent has reported unknown names
    patcher.put_in_force(tell=False)
    units = [
        Unit(CorePatch(entry["name"], [Call(_Fetch(entry["patch"]), module=entry["module"])]), [entry["name"]])
        for entry in recipe["patches"]
    ]
    Run(units).apply()


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
        try:
            fetch(None, {})
        except Exception as error:
            logger.warning("a patch of the parent process is not applied here: %s", describe_error(error))
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
