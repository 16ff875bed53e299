"""Names that patchcore's plugins have of torch_npu are those of the installed one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import RunOnCann

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
#: Plugins whose code and messages name torch_npu's functions; npu_emulator is an imitation with names of its own.
NAMING = ("mmcv_npu", "mmdet3d_npu", "npu_migrate", "torch_markers", "torch_npu_patches")
#: An option that can be set, and not read.
NOT_THERE = {"torch.npu.config.allow_internal_format"}


def test_the_table_of_ops_has_the_kernels_that_torch_npu_registers(on_cann: RunOnCann) -> None:
    tables = pytest.importorskip("npu_migrate.ops.tables")
    printed = on_cann(
        """
        import json, torch, torch_npu

        print(torch_npu.__version__)
        print(json.dumps(torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")))
        """
    ).stdout.splitlines()
    version, registered = printed[-2].partition("+")[0], set(json.loads(printed[-1]))
    kernels = tables.Table.read(version).kernels
    assert kernels <= registered
    assert {name.partition("::")[0] for name in registered - kernels} <= {"npu", "fsdp"}


def test_functions_that_plugins_name_are_there(on_cann: RunOnCann) -> None:
    found: set[str] = set()
    for plugin in NAMING:
        for file in (PLUGINS / plugin / plugin).rglob("*.py"):
            found.update(re.findall(r"(?<![\w.])torch(?:_npu|\.npu)(?:\.\w+)+", file.read_text(encoding="utf-8")))
    names = sorted(found)
    printed = on_cann(
        f"""
        import functools, importlib, json, torch, torch_npu

        def is_there(name):
            parts = name.split(".")
            for length in range(len(parts), 0, -1):
                try:
                    module = importlib.import_module(".".join(parts[:length]))
                except ImportError:
                    continue
                try:
                    functools.reduce(getattr, parts[length:], module)
                    return True
                except AttributeError:
                    return False
            return False

        print(json.dumps([name for name in {names!r} if not is_there(name)]))
        """
    ).stdout.splitlines()
    assert "torch.npu.set_device" in names
    assert set(json.loads(printed[-1])) == NOT_THERE
