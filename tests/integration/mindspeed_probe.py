"""Run by test_mindspeed_real.py: applies and reverts MindSpeed's features, and prints the facts as JSON.

The modules that the features will import are imported first, so that the places before and after can be compared.
With ``everything`` after the name of the file, all features are called, whatever the arguments are: as the plan does,
which goes on after features that exclude each other.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

ROOTS = ("megatron", "torch", "torch_npu", "importlib")


def places() -> dict[str, Any]:
    """Return the object at each name of the libraries' modules and classes, and the code of each function."""
    found: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ROOTS and isinstance(module, types.ModuleType):
            for key, value in list(vars(module).items()):
                add(found, f"{name}:{key}", value)
                if isinstance(value, type) and value.__module__ == name:
                    for inner, held in list(vars(value).items()):
                        add(found, f"{name}:{key}.{inner}", held)
    return found


def add(found: dict[str, Any], place: str, value: Any) -> None:
    found[place] = value
    function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    if isinstance(function, types.FunctionType):
        found[f"{place} (code)"] = function.__code__


def made() -> set[str]:
    """Return the names that torch.ops and torch.classes hold: they make a name when it is looked up."""
    import torch

    return {*vars(torch.ops), *vars(torch.classes)}


def switch_on_everything() -> None:
    """Let all features be needed, with a value for each option that they read."""
    import argparse

    arguments = importlib.import_module("mindspeed.args_utils")

    class Everything(argparse.Namespace):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            sizes = dict.fromkeys(("tensor", "pipeline", "context", "expert"), 2)
            known = {f"{kind}_model_parallel_size": size for kind, size in sizes.items()}
            known.update(
                context_parallel_size=2, tokenizer_type="PretrainedFromHF", moe_token_dispatcher_type="alltoall"
            )
            return known.get(name, True)

    given = {key: value for key, value in vars(arguments.get_mindspeed_args()).items() if value not in (None, False)}
    arguments._MINDSPEED_ARGS = Everything(**given)
    features = importlib.import_module("mindspeed.features_manager").MindSpeedFeaturesManager.FEATURES_LIST
    for feature in features:
        feature.is_need_apply = lambda args: True


def main() -> None:
    modules = Path(sys.argv.pop(1))
    everything = sys.argv[1:2] == ["everything"]
    if everything:
        sys.argv.pop(1)
    if modules.exists():
        for name in json.loads(modules.read_text()):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    importlib.import_module("torch_npu.contrib.transfer_to_npu")  # the adaptor imports it, and it patches torch

    before, names = places(), made()
    found: dict[str, Any] = {}
    if everything:
        from mindspeed_compat import planning

        switch_on_everything()
        plan = planning.make_plan()
        found = {name: len(getattr(plan, name)) for name in ("needed", "rivals", "missing", "signatures", "failed")}
        found["failures"] = [str(failure) for failure in plan.failed]
    else:
        importlib.import_module("mindspeed.megatron_adaptor")
    from mindspeed.patch_utils import MindSpeedPatchesManager as Manager

    targets = list(Manager.patches_info)
    import mindspeed_compat

    patchers = mindspeed_compat.feature_patches()
    owners: dict[str, list[str]] = {}
    for patcher in patchers:
        report = patcher.report()
        for patch in (candidate.patch for candidate in patcher.collect()):
            for change in patch.changes:
                owner = f"{patch.name} {report[patch.name].status}"
                owners.setdefault(str(change.target).replace(":", "."), []).append(owner)
    takeover = mindspeed_compat.takeover_in_effect()
    registrations = len(list(takeover.registrations)) if takeover else 0
    patched = places()
    Manager.remove_patches()
    after = places()
    modules.write_text(json.dumps([name for name in sys.modules if name.startswith("megatron")]))
    facts = {
        "targets": targets,
        "registrations": registrations,
        "owners": owners,
        "places": len(before),
        "changed": sum(patched.get(place) is not value for place, value in before.items()),
        "left": [place for place, value in before.items() if after.get(place, before) is not value],
        "made": sorted(made() - names),
        "remarks": mindspeed_compat.remarks(),
        **found,
    }
    print("FACTS " + json.dumps(facts))


main()
