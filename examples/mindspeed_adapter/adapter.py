"""MindSpeed's features, declared: each feature is a patch in each of the two phases of MindSpeed's adaptor.

The features decide and register as before. In the place of MindSpeed's own manager they get a :class:`Collector`.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable

import patchcore as pc

#: Of the phases that were reached, with their patches.
PATCHERS: list[pc.Patcher] = []
_MANAGER = "mindspeed.features_manager.features_manager:MindSpeedFeaturesManager"


class Collector:
    """Takes the registrations of a feature, and makes changes of them.

    Args:
        earlier: those of the features before it.
    """

    def __init__(self, earlier: list[Collector]) -> None:
        self.earlier = earlier
        self.changes: list[pc.Change] = []

    def register_patch(
        self, name: str, function: Any = None, force_patch: bool = False, create_dummy: bool = False
    ) -> None:
        """Stand in for the function of MindSpeed's manager: a wrapper is known by the end of its name."""
        owner, missing = _owner_of(name, create_dummy)
        if missing:
            self.changes.append(pc.DummyImport(owner))
        if name == owner:
            return
        target = f"{owner}:{name[len(owner) + 1 :]}"
        if str(getattr(function, "__name__", "")).endswith(("wrapper", "decorator")):
            self.changes.append(pc.Replace(target, factory=function, same_name=True))
        else:
            for other in self.earlier if force_patch else ():
                other.changes = [c for c in other.changes if str(c.target) != target or getattr(c, "factory", None)]
            function = function or importlib.import_module("mindspeed.patch_utils").dummy_function_wrapper(name)
            self.changes.append(pc.Replace(target, function, create="always", same_name=True))


def _owner_of(name: str, create_dummy: bool) -> tuple[str, bool]:
    """Return the module of a target, which MindSpeed writes with dots alone, and whether it has to be made."""
    steps = name.split(".")
    for end in range(len(steps), 0, -1):
        try:
            importlib.import_module(".".join(steps[:end]))
        except ModuleNotFoundError:
            continue
        return ".".join(steps[:end]), False
    if not create_dummy:
        raise ModuleNotFoundError(f"no module for {name}")
    return ".".join(steps[:-1] or steps), True


def phase(method: str) -> Callable[..., None]:
    """Return the wrapper of one phase of MindSpeed's adaptor; ``method`` is that of the features."""

    def apply_phase(original: Any, manager: Any, arguments: Any = None) -> None:
        collected: dict[str, Collector] = {}
        for feature in manager.FEATURES_LIST:
            if feature.is_need_apply(arguments):
                collector = Collector(list(collected.values()))
                getattr(feature, method)(collector, arguments)
                collected[f"mindspeed.{feature.feature_name}.{method}"] = collector
        patches = []
        for wraps in (False, True):  # replacements go below the wrappers of all features
            for name, collector in collected.items():
                own = [change for change in collector.changes if wraps == bool(getattr(change, "factory", None))]
                if own:
                    name = f"{name}.wrappers" if wraps else name
                    patches.append(pc.Patch(name, list(dict.fromkeys(own)), required=True, signatures="any"))
        patcher = pc.Patcher(patches, order="listed", strict=True)
        patcher.apply()
        PATCHERS.append(patcher)
        for change in (change for patch in patches for change in patch.changes):
            if isinstance(change, pc.DummyImport):
                importlib.import_module(change.target.module)  # code may look in sys.modules, as MindSpeed's does

    return apply_phase


def remove_patches(original: Any, manager: Any) -> None:
    """Revert the patches of both phases, the last one first."""
    while PATCHERS:
        PATCHERS.pop().revert()


FEATURES = pc.Patch(
    "adapter.features",
    [
        pc.Wrap(f"{_MANAGER}.apply_features_pre_patches", phase("pre_register_patches")),
        pc.Wrap(f"{_MANAGER}.apply_features_patches", phase("register_patches")),
        pc.Wrap(f"{_MANAGER}.remove_patches", remove_patches),
    ],
)


@pc.hookimpl
def register_patches() -> list[pc.Patch]:
    """Return the one patch that takes over."""
    return [FEATURES]
