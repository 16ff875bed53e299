"""Applies the patches of a migration's parent process in a process that its program starts.

Each process leaves recipes in its environment, see :mod:`mx_driving_compat.collecting.recipes`. Here the module of a
patch is imported, and the patch applied, when the module of its target is imported; a patch that the script itself
defines is applied when the script has run.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import pickle
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from mx_driving_compat.collecting import recipes
from mx_driving_compat.collecting.patcher import Patcher
from mx_driving_compat.patches.application import Run, Unit
from mx_driving_compat.patches.base import BasePatch
from patchcore import Call, Wrap
from patchcore import Patch as CorePatch
from patchcore.plugin import describe_error

__all__ = ["begin"]

logger = logging.getLogger("patchcore")

_waiting: list[_Fetch] = []


def begin() -> None:
    """Apply the patches of the parent process here; from now on leave recipes for child processes."""
    inherited = recipes.begin()
    for recipe in inherited:
        _follow(recipe)
    if any(_is_of_script(entry["patch"]) for recipe in inherited for entry in recipe["patches"]):
        work = Wrap("multiprocessing.process:BaseProcess._bootstrap", _begin_work)
        Run([Unit(CorePatch("mx_driving.patcher.script", [work]), [work])]).apply()


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
        text: the patch, as a recipe has it.
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


def _load(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))  # the environment of this process also decides which code it runs
