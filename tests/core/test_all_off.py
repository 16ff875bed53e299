"""With every built-in plugin switched off, the core plans, applies, reports and reverts."""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from library import LIBRARY, NewNet, new

import patchcore as pc
from patchcore.planning.provenance import SUPPORT
from patchcore.plugins import BUILTINS, Plugins, installed_plugins

ROOT = Path(__file__).resolve().parents[2]
ALL_OFF = [
    *(f"no:patchcore.{name}" for names in BUILTINS.values() for name in names),
    *(f"no:{provenance.plugin}" for provenance, _ in installed_plugins(SUPPORT)),
]


def doubled(original: Any, *args: Any) -> Any:
    return original(*args) * 2


pytestmark = pytest.mark.usefixtures("registries")


@pytest.fixture
def library(make_package) -> None:
    make_package(LIBRARY)


def patcher(*patches: pc.Patch) -> pc.Patcher:
    return pc.Patcher(patches, plugins=Plugins(allowed=ALL_OFF, discover=False))


def patches() -> list[pc.Patch]:
    return [
        pc.Patch("replaced", [pc.Replace("lib.ops:conv", new), pc.Replace("lib.ops:Net", NewNet)]),
        pc.Patch("wrapped", pc.Wrap("lib.ops:pool", doubled)),
        pc.Patch("entered", pc.Replace('lib.registry:MODELS._module_dict["Net"]', NewNet, create=True)),
        pc.Patch("registered", pc.Register("lib.registry:MODELS", NewNet)),
    ]


def contents() -> dict[str, dict[str, Any]]:
    """What is in the modules of the library, and in its registry, but for what belongs to modules."""
    modules = {name: vars(sys.modules[name]) for name in LIBRARY}
    spaces = {**modules, "registry": sys.modules["lib.registry"].MODELS._module_dict}
    return {name: {key: value for key, value in space.items() if key[:2] != "__"} for name, space in spaces.items()}


def assert_patched(lib: ModuleType) -> None:
    assert lib.ops.conv(1) == lib.conv(1) == ("new", 1)  # the name bound by value, too
    assert lib.ops.Net is NewNet
    assert lib.ops.pool(1) == ("pool", 1, "pool", 1)
    assert lib.registry.MODELS._module_dict == {"Net": NewNet, "NewNet": NewNet}


def test_no_built_in_plugin_is_loaded() -> None:
    plugins = Plugins(allowed=ALL_OFF, discover=False)
    assert (plugins.builtins, plugins.problems, plugins.settings(), plugins.complete) == ({}, [], [], True)


def test_patches_of_loaded_modules_are_applied_and_reverted_exactly(library) -> None:
    lib = importlib.import_module("lib")
    importlib.import_module("lib.registry")
    before = contents()
    patched = patcher(*patches())
    assert [entry.verdict for entry in patched.plan()] == ["apply"] * 4
    assert contents() == before
    with patched:
        report = patched.report(unreachable=True)
        assert [record.status for record in report.patches] == ["applied"] * 4
        assert "rebound lib:conv" in str(report)
        assert json.loads(report.to_json())["patches"][0]["changes"][0]["rebound"] == ["lib:conv"]
        assert_patched(lib)
    assert contents() == before


def test_patches_are_applied_on_import_and_reverted_exactly(library) -> None:
    with patcher(*patches()) as patched:
        assert [record.status for record in patched.report().patches] == ["pending"] * 4
        lib = importlib.import_module("lib")
        importlib.import_module("lib.registry")
        assert [record.status for record in patched.report().patches] == ["applied"] * 4
        assert_patched(lib)
    assert lib.ops.conv(1) == lib.conv(1) == ("original", 1)
    assert lib.ops.pool(1) == ("pool", 1)
    assert lib.ops.Net.__module__ == "lib.ops"
    assert lib.registry.MODELS._module_dict == {}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda: pc.StubImport("not_there"), "patchcore.builtin.imports.changes.StubImport"),
        (lambda: pc.ReplaceImport("lib.registry", with_="lib.ops"), "patchcore.builtin.imports.changes.ReplaceImport"),
        (lambda: pc.Call(doubled, module="lib"), "patchcore.builtin.call.change.Call"),
    ],
    ids=["stub", "replace import", "call"],
)
def test_a_change_of_a_kind_that_nobody_puts_in_force_fails_and_names_what_is_missing(library, change, kind) -> None:
    importlib.import_module("lib")
    with patcher(pc.Patch("mine", change()), patches()[0]) as patched:
        record = patched.report()["mine"]
        assert record.status == "failed"
        assert f"no loaded plugin has a writer for changes of the class {kind}" in record.reason
        assert [change.status for change in record.changes] == ["failed"]
        assert patched.report()["replaced"].status == "applied"
    with pytest.raises(pc.PatchError, match="no loaded plugin has a writer for changes of the class"):
        patcher(pc.Patch("mine", change(), required=True)).apply()


def test_a_change_of_a_slot_from_a_plugin_is_written_and_other_kinds_undo_the_patch(library) -> None:
    lib = importlib.import_module("lib")
    with patcher(pc.Patch("mine", [pc.Replace("lib.ops:conv", new), pc.InjectImport("lib.registry", "MODELS", "lib")])):
        assert lib.conv(1) == ("new", 1)  # InjectImport is a change of a slot, which the core writes
        assert lib.MODELS is sys.modules["lib.registry"].MODELS
    with patcher(pc.Patch("mine", [pc.Replace("lib.ops:conv", new), pc.StubImport("not_there")])):
        assert lib.conv(1) == ("original", 1)


def test_a_setting_of_a_built_in_plugin_is_unknown() -> None:
    with pytest.raises(pc.SettingsError, match="unknown setting 'report_dir'"):
        patcher().with_settings(report_dir="reports")


def test_calls_are_counted(library, caplog) -> None:
    lib = importlib.import_module("lib")
    caplog.set_level(logging.WARNING, "patchcore")
    plugins = Plugins(allowed=ALL_OFF, discover=False)
    with pc.Patcher(patches()[:2], plugins=plugins, count=True) as patched:
        lib.conv(1)
        assert (patched.report()["replaced"].calls, patched.report().never_hit) == (1, ("wrapped",))
    assert not caplog.records


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with every plugin switched off by the environment, the installed ones too."""
    command = [sys.executable, *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PATCHCORE_")}
    path = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    variables = {**kept, "PYTHONPATH": path, "PATCHCORE_PLUGINS": ",".join(ALL_OFF), **environment}
    return subprocess.run(command, env=variables, text=True, capture_output=True, timeout=600)


def test_the_command_line_has_no_command_and_helps() -> None:
    done = run("-m", "patchcore", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "patchcore" in done.stdout
    assert "report" not in done.stdout
    done = run("-m", "patchcore", "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no command 'list'" in done.stderr


PROGRAM = """
import sys, patchcore
from patchcore.plugins import Plugins
plugins = Plugins(allowed=patchcore.Settings.load().plugins, discover=False)
patcher = patchcore.Patcher([patchcore.Patch("p", patchcore.Replace("colorsys:rgb_to_hsv", len))], plugins=plugins)
with patcher:
    import colorsys
    print(colorsys.rgb_to_hsv("abc"), patcher.report().summary())
print(colorsys.rgb_to_hsv(0, 0, 1), [name for name in sys.modules if name.startswith("patchcore.builtin")])
"""


def test_a_process_of_its_own_imports_no_built_in_plugin() -> None:
    done = run("-c", PROGRAM)
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first.startswith("3 1 applied")
    assert second == "(0.6666666666666666, 1.0, 1) []"
