"""``with_precision_debugger``: the configuration of msprobe, checked, for msprobe itself or for our recorder.

Keys and values are those of msprobe 26.2 (``config.json``; mindstudio-probe on the package index). Its steps begin
with 0, ours with 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from patchcore import SettingsError, install_command
from patchcore.plugin import did_you_mean, find_module

__all__ = ["precision_record", "seed_everything"]

_MSPROBE = "msprobe"
#: Keys that msprobe reads; a table under the name of a task has its options.
_KEYS = (
    "task",
    "dump_path",
    "rank",
    "step",
    "level",
    "extra_info",
    "async_dump",
    "precision",
    "dump_enable",
    "statistics",
    "tensor",
    "acc_check",
    "overflow_check",
    "structure",
    "exception_dump",
    "nan_check",
    "load",
    "enable_dataloader",
)
_ARGUMENTS = ("config_path", "task", "dump_path", "level", "step")
#: Tasks and levels that our recorder can do; msprobe has more.
_TASKS, _LEVELS = ("statistics", "tensor"), ("L0", "L1", "mix")


def precision_record(config_path: Optional[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting ``record`` for a configuration of msprobe.

    Args:
        config_path: of the file in JSON, ``None`` for none.
        arguments: keys of the configuration, which win over those of the file.

    Raises:
        SettingsError: the file is missing or no configuration, a key or value means nothing, there is no
            ``dump_path``, or the task needs msprobe, which is not installed.
    """
    config = {**_read(config_path), **arguments}
    for key in config:
        if key not in _KEYS:
            raise SettingsError(f"with_precision_debugger(): msprobe has no option {key!r}{did_you_mean(key, _KEYS)}")
    path = config.get("dump_path")
    if not isinstance(path, str) or not path:
        raise SettingsError("with_precision_debugger(): there is no dump_path, the folder for the records")
    steps = [step + 1 for step in _numbers(config, "step")]
    ranks = _numbers(config, "rank")
    record = {"path": str(Path(path).absolute())}
    if find_module(_MSPROBE):
        given = {"config_path": config_path, **{key: config[key] for key in _ARGUMENTS if key in arguments}}
        further = sorted(set(arguments) - set(_ARGUMENTS))
        if further:
            raise SettingsError(
                f"with_precision_debugger(): PrecisionDebugger of msprobe takes {', '.join(_ARGUMENTS[1:])}; write "
                f"{', '.join(further)} into the file of config_path"
            )
        return {**record, "msprobe": {key: value for key, value in given.items() if value is not None}}
    for key, known in (("task", _TASKS), ("level", _LEVELS)):
        if config.get(key, known[0]) not in known:
            raise SettingsError(
                f"with_precision_debugger(): {key}={config[key]!r} needs msprobe: "
                f"{install_command('mindstudio-probe')}; without it: {', '.join(known)}"
            )
    return {
        **record,
        "steps": ",".join(map(str, steps)),
        "ranks": ",".join(map(str, ranks)),
        "operators": config.get("level", "L1") != "L0",
        "tensors": config.get("task") == "tensor",
    }


def _read(config_path: Optional[str]) -> dict[str, Any]:
    if config_path is None:
        return {}
    try:
        config = json.loads(Path(config_path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"with_precision_debugger(): {config_path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise SettingsError(f"with_precision_debugger(): {config_path} is no JSON object")
    return config


def _numbers(config: Mapping[str, Any], key: str) -> list[int]:
    """Return the numbers of a list as msprobe has it: ``[0, "2-4"]``."""
    numbers: list[int] = []
    values = config.get(key) or []
    for value in values if isinstance(values, list) else [values]:
        first, _, last = str(value).partition("-")
        if isinstance(value, bool) or not first.isdigit() or not (last or first).isdigit():
            raise SettingsError(f"with_precision_debugger(): {key}={values!r}; expected numbers from 0 on and '2-4'")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def seed_everything(seed: int, deterministic: bool) -> None:
    """Seed the generators of Python, numpy and torch, as ``seed_all`` of msprobe does.

    Args:
        seed: for all of them.
        deterministic: whether torch is to use deterministic operators only.
    """
    import random

    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    if deterministic:
        torch.use_deterministic_algorithms(True)
