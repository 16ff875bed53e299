"""``patchcore new --from patch.py``: what a patch.py did, the plugin that is made from it does."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from replay import same
from scaffold import ROOT, new, passes_its_tests, python

from mx_driving_compat.predefined.table import TABLE
from patchcore.builtin.new import command as new_command
from patchcore.cli import main

PLUGINS = {
    "diffusers": "diffusers_npu",
    "mmcv": "mmcv_npu",
    "mmdet3d": "mmdet3d_npu",
    "torch_npu": "torch_npu_patches",
    "transformers": "transformers_npu",
}
needs_ruff = pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="ruff is not installed")

#: A library that a patch.py is for.
LIBRARY = {
    "shop/__init__.py": "",
    "shop/tills.py": """
from mx_driving import __name__ as kernels


class Till:
    def __init__(self, price):
        self.price = price

    def total(self, count):
        return self.price * count

    @staticmethod
    def name():
        return "till"


def opened():
    return "by hand"


def closed():
    return "by hand"


LIMIT = 3
""",
    "shop/doors.py": """
import lidar_ops
import lidar_ops.voxels
from shop import locks


def key():
    return locks.KEY, lidar_ops.__name__
""",
    "shop/locks.py": "KEY = 'brass'\n",
    "shop/steel_locks.py": "KEY = 'steel'\n",
    "mx_driving/__init__.py": "def fused_total(till, count):\n    return -till.price * count\n",
}
PATCH_2 = '''
"""Patches of the shop."""
import mx_driving
from mx_driving.patcher import AtomicPatch, DeformConv, LegacyPatch, Patch, Patcher
from mx_driving.patcher.patch import with_imports

SKIP = ["lidar_ops", "lidar_ops.voxels"]


def limit(module, options):
    module.LIMIT = options["limit"]


def shout(function):
    return lambda *args: function(*args).upper()


class Till(Patch):
    """The till, fused."""

    name = "shop_till"

    @classmethod
    def patches(cls, options=None):
        return [
            AtomicPatch("shop.tills.Till.total", cls._total, runtime_check=cls._is_large),
            AtomicPatch("shop.tills.Till.__init__", target_wrapper=cls._init),
            AtomicPatch("shop.tills.Till.name", cls._name),
            AtomicPatch("shop.tills.opened", cls._opened, aliases=["shop.opened"]),
            AtomicPatch("shop.tills.closed", cls._opened, replacement_wrapper=shout),
        ]

    @staticmethod
    @with_imports(("mx_driving", "fused_total"))
    def _total(self, count):
        return fused_total(self, count)  # noqa: F821

    @staticmethod
    def _is_large(self, count):
        return count > 10

    @staticmethod
    def _init(original):
        def init(self, price):
            original(self, price + 1)

        return init

    @staticmethod
    def _name():
        return "npu till"

    @staticmethod
    def _opened():
        return "by npu"


def configure_patcher(patcher: Patcher, options):
    patcher.skip_import(*SKIP)
    patcher.replace_import("shop.locks", "shop.steel_locks")
    patcher.add(DeformConv, Till, LegacyPatch(limit, {"limit": 5}, "shop.tills"))
    patcher.add(AtomicPatch("shop.tills.closing", shout(len)))
'''
SCRIPT = """
import patchcore as pc
from {package} import plugin

with pc.Patcher(plugin.register_patches()) as patcher:
    from shop import doors, tills

    till = tills.Till(2)
    print(till.total(10), till.total(20), till.name(), tills.opened(), tills.closed(), tills.LIMIT, doors.key())
    print(sorted(record.status for record in patcher.report().patches), patcher.report().ok)
till = tills.Till(2)
print(till.total(10), till.total(20), till.name(), tills.opened(), tills.closed(), tills.LIMIT)
"""
PATCH_1 = """
from mx_driving.patcher import Patch, PatcherBuilder, msda


def tills(module, options):
    if hasattr(module, "Till"):
        module.Till.total = lambda self, count: options["factor"] * self.price * count


def index(module, options):
    module.LIMIT = 7


def generate_patcher_builder():
    builder = (
        PatcherBuilder()
        .add_module_patch("mmcv", Patch(msda))
        .add_module_patch("shop.tills", Patch(tills, {"factor": 100}), Patch(index))
        .disable_patches("ddp")
    )
    return builder.with_profiling("profile").brake_at(10)
"""
SCRIPT_1 = """
import patchcore as pc
from {package} import plugin

with pc.Patcher(plugin.register_patches()) as patcher:
    from shop import tills

    print(tills.Till(2).total(3), tills.LIMIT, patcher.report().ok)
print(tills.Till(2).total(3), tills.LIMIT)
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder with the library and the two patch.py."""
    for name, text in {**LIBRARY, "patch.py": PATCH_2, "old_patch.py": PATCH_1}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_file_that_cannot_be_read_leaves_no_folder(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "patch.py").write_text("def f(:")
    assert main(["new", "a-npu", "--directory", str(tmp_path), "--from", str(tmp_path / "patch.py")]) == 2
    assert "is no Python" in capsys.readouterr().err
    assert not (tmp_path / "a-npu").exists()


class TestMigration:
    def test_patch_classes_do_what_they_did(self, library: Path) -> None:
        project = new(library, "shop-npu", "--from", str(library / "patch.py"))
        assert passes_its_tests(project)
        printed = python("-c", SCRIPT.format(package="shop_npu"), path=[project, library], cwd=library)
        assert printed.splitlines() == [
            "30 -60 npu till by npu BY NPU 5 ('steel', 'lidar_ops')",
            "['applied', 'applied', 'applied', 'applied', 'applied', 'skipped'] True",
            "20 40 till by hand by hand 3",
        ]

    def test_functions_do_what_they_did(self, library: Path) -> None:
        project = new(library, "shop-npu", "--from", str(library / "old_patch.py"))
        assert passes_its_tests(project)
        printed = python("-c", SCRIPT_1.format(package="shop_npu"), path=[project, library], cwd=library)
        assert printed.splitlines() == ["600 7 True", "6 3"]

    def test_what_is_left_is_printed_and_kept(self, library: Path, capsys: Any) -> None:
        project = new(library, "shop-npu", "--from", str(library / "patch.py"))
        printed = capsys.readouterr().out
        plugin = (project / "shop_npu" / "plugin.py").read_text()
        for text in (printed, plugin, (project / "README.md").read_text()):
            assert "patch.py:62" in text
            assert "shout(len) is computed; declare it by hand" in text
        assert "# TODO patch.py:62: AtomicPatch('shop.tills.closing', shout(len))" in plugin
        assert "mmcv.deform_conv" in printed


@needs_ruff
@pytest.mark.parametrize("arguments", [("--from", "patch.py"), ("--from", "old_patch.py")], ids=["2.0", "1.0"])
def test_the_code_follows_the_rules(library: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]) -> None:
    monkeypatch.chdir(library)
    project = new(library, "shop-npu", *arguments)
    ours = ("--config", str(ROOT / "pyproject.toml"), "--no-cache", "--exclude", "replacements.py")
    for settings in (("--no-cache",), ours):
        python("-m", "ruff", "check", *settings, ".", path=[], cwd=project)


def test_the_patches_that_other_plugins_provide_are_there(tmp_path: Path) -> None:
    folders = [ROOT / "plugins" / folder for folder in PLUGINS.values()]
    distributions = {plugin: f"{plugin.replace('_npu', '')}-npu-patches" for plugin in PLUGINS}
    for plugin, package in PLUGINS.items():
        write_distribution(tmp_path, distributions[plugin], plugins={plugin: f"{package}.plugin"})
    printed = python("-m", "patchcore", "list", "--format", "json", path=[tmp_path, *folders], cwd=tmp_path)
    found = {patch["name"]: (patch["distribution"], patch["default"]) for patch in json.loads(printed)["patches"]}
    expected = {patch: (entry.distribution, entry.default) for entry in TABLE for patch in entry.patches}
    assert {name: found.get(name) for name in expected} == expected


def test_the_example_of_the_page_about_the_interface_does_what_it_did(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "mx-driving-patcher.md").read_text(encoding="utf-8")
    (source,) = (text for text in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "AtomicPatch(" in text)
    model, migration, program = re.split(r"# migrate_to_ascend/patch.py\n|# train.py\n", source)
    printed = re.findall(r"It prints\n\n```text\n(.*?)```", page, flags=re.DOTALL)[0]
    adding = "    PatcherBuilder().add_module_patch('my_model', Patch(scale_patch, {'factor': 10}))\n"
    adding = f"\ndef build():\n{adding}    Patcher().add(AttentionPatch)\n"
    (tmp_path / "patch.py").write_text(migration + adding, encoding="utf-8")
    project = new(tmp_path, "my-npu", "--from", str(tmp_path / "patch.py"))
    assert "TODO" not in (project / "my_npu" / "plugin.py").read_text(encoding="utf-8")
    assert passes_its_tests(project)
    without_interface = model.replace("import mx_driving_compat", "").replace("mx_driving_compat.install()", "")
    lines = program.replace("    with Patcher().add(AttentionPatch):\n        ", "    ").splitlines()
    (block,) = (number for number, line in enumerate(lines) if line.startswith("with PatcherBuilder()"))
    lines[block] = "with pc.Patcher(plugin.register_patches()):"
    code = "\n".join(["import patchcore as pc", "from my_npu import plugin", without_interface, *lines])
    assert python("-c", code, path=[project], cwd=tmp_path) == printed


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    page = (ROOT / "docs" / "new-plugin.md").read_text(encoding="utf-8")
    source, plugin, function = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "migrate_to_ascend").mkdir()
    (tmp_path / "migrate_to_ascend" / "patch.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # python is this one
    monkeypatch.setattr(new_command, "version_of", lambda name: "0.1.0")
    for session in re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL):
        line, _, output = session.partition("\n")
        assert main(line.split()[2:]) == 0
        assert same(output, capsys.readouterr().out)
    written = tmp_path / "birdview-npu" / "birdview_npu"
    assert plugin in (written / "plugin.py").read_text(encoding="utf-8")
    assert (written / "replacements.py").read_text(encoding="utf-8").endswith(textwrap.dedent(function))
    assert passes_its_tests(tmp_path / "birdview-npu")
