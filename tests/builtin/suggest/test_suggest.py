"""``patchcore suggest``: what to install for a project, and what a missing command or option says."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from shop_commands import Cli, cli, site  # noqa: F401

from patchcore.builtin.install import distributions
from patchcore.builtin.install.command import install_arguments, install_command
from patchcore.builtin.suggest import command
from patchcore.builtin.suggest.imports import find_imports

PROJECT = {
    "train.py": "import torch, os\nfrom mmcv.ops import roi_pool\n",
    "tools/ascend.py": "from mx_driving import patcher\n",
    "models/head.py": "from . import neck\ndef f():\n    import mmdet3d.core as core\n",
    "venv/pyvenv.cfg": "",
    "venv/lib/thing.py": "import secret_of_venv\n",
    ".hidden/thing.py": "import secret_of_hidden\n",
    "site-packages/thing.py": "import secret_of_site\n",
    "old.py": "print 'python 2'\n",
    "notes.txt": "import secret_of_notes\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, text in PROJECT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    """No distribution of the project, and no torch_npu."""
    monkeypatch.setattr(distributions, "version_of", lambda name: None)
    monkeypatch.setattr(distributions, "find_module", lambda name: False)
    monkeypatch.setattr(command, "find_module", lambda name: False)
    monkeypatch.setenv("PATCHCORE_PLUGINS", "shop")


class TestImports:
    def test_of_the_projects_own_files(self, project: Path) -> None:
        found = find_imports(project)
        assert found.names == {
            *("torch", "os", "mmcv.ops", "mmcv.ops.roi_pool", "mx_driving", "mx_driving.patcher", "mmdet3d.core"),
        }
        assert found.roots == {"torch", "os", "mmcv", "mx_driving", "mmdet3d"}
        assert (found.files, found.unreadable) == (3, (project / "old.py",))

    def test_of_files_that_are_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "nul.py").write_bytes(b"import a\0b\n")
        (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nimport mmcv  # \xfc\n")
        (tmp_path / "gone.py").symlink_to(tmp_path / "nothing")
        found = find_imports(tmp_path)
        assert found.names == {"mmcv"}
        assert [path.name for path in found.unreadable] == ["gone.py", "nul.py"]


@pytest.mark.usefixtures("bare")
class TestWhatToInstall:
    def test_with_the_line_to_paste(self, cli: Cli, project: Path) -> None:
        out = cli("suggest", str(project)).out
        assert f"{project}: 3 Python files, 1 cannot be read ({project / 'old.py'})" in out
        names = ["mmcv-npu-patches", "mmdet3d-npu-patches", "torch-npu-patches", "mx-driving-compat", "npu-emulator"]
        assert f"\n  {install_command('torch==2.13.0', *names)}\n" in out
        assert "\ninstall\n  torch==2.13.0        for npu-emulator\n" in out
        assert "npu-graph" not in out

    def test_no_emulator_where_the_real_thing_is(
        self, cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(distributions, "find_module", lambda name: name == "torch_npu")
        assert "npu-emulator" not in cli("suggest", str(project)).out

    def test_versions_are_told_before_anything_is_installed(self, cli: Cli, project: Path) -> None:
        libraries = {
            library["name"]: library for library in cli("suggest", str(project), "--format", "json").json["libraries"]
        }
        assert libraries["mmdet3d"]["supported"] == ">=1.0.0rc6,<2"
        assert libraries["mmcv"]["patches"] == 0

    def test_nothing(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "plain.py").write_text("import json\n")
        out = cli("suggest", str(tmp_path / "plain.py")).out
        assert "nothing to suggest: the project imports no library that a plugin of patchcore patches" in out
        assert "pip install" not in out


def test_installed_distributions_are_not_to_be_installed(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributions, "version_of", lambda name: "0.1.0" if name.startswith("mm") else None)
    found = cli("suggest", str(project), "--format", "json").json["distributions"]
    assert {d["name"]: d["version"] for d in found}["mmcv-npu-patches"] == "0.1.0"
    out = cli("suggest", str(project)).out
    assert "installed already\n  mmcv-npu-patches " in out
    # torch, which npu-emulator needs, comes before them where it is not installed
    assert install_arguments("torch-npu-patches", "mx-driving-compat", "npu-emulator") in out


def test_patches_that_are_off_and_would_apply(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sell.py").write_text("import shop\n")
    shown = cli("suggest", str(tmp_path / "sell.py"), "--format", "json").json
    assert "shop.rounded" in [patch["name"] for patch in shown["off_by_default"]]
    assert "shop.price" not in [patch["name"] for patch in shown["off_by_default"]]
    (tmp_path / "sell.py").write_text("import json\n")
    assert cli("suggest", str(tmp_path / "sell.py"), "--format", "json").json["off_by_default"] == []


def test_a_folder_that_is_not_there(cli: Cli) -> None:
    result = cli("suggest", "nowhere")
    assert (result.code, result.err) == (2, "patchcore: there is no file or folder nowhere\n")


@pytest.mark.usefixtures("bare")
class TestWhatIsMissing:
    def test_a_command(self, cli: Cli) -> None:
        result = cli("ops", "train.py")
        expected = f"no command 'ops'; it comes with npu-migrate: {install_command('npu-migrate')}."
        assert (result.code, result.err) == (2, f"patchcore: {expected} See patchcore --help\n")

    @pytest.mark.parametrize("command", ["run", "verify"])
    def test_an_option(self, cli: Cli, command: str) -> None:
        result = cli(command, "--emulate-npu", "train.py")
        assert result.code == 2
        hint = f"it comes with npu-emulator: {install_command('npu-emulator')}"
        assert f"unrecognized arguments: --emulate-npu; {hint}\n" in result.err

    @pytest.mark.parametrize("there", [False, True])
    def test_a_value_that_is_an_option_of_another_plugin(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: bool
    ) -> None:
        monkeypatch.chdir(tmp_path)
        plugin = """
            import patchcore as pc

            @pc.hookimpl
            def register_run_options(parser):
                parser.add_argument("--emulate-npu", action="store_true")
            """
        (tmp_path / "way.py").write_text(textwrap.dedent(plugin), encoding="utf-8")
        result = cli("run", *(("-p", "way") if there else ()), "--emulate-npu=cann", "train.py")
        hint = f"it comes with fake-cann: {install_command('fake-cann')}"
        assert result.code == 2
        assert f"unrecognized arguments: --emulate-npu=cann; {hint}\n" in result.err

    @pytest.mark.parametrize(("value", "nearest"), [("imitaton", "; did you mean 'imitation'?"), ("", ""), ("1", "")])
    def test_a_value_that_is_not_among_the_options(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str, nearest: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        plugin = """
            import patchcore as pc

            @pc.hookimpl
            def register_run_options(parser):
                parser.add_argument("--emulate-npu", "--emulate-npu=imitation", action="store_true")
                parser.add_argument("--emulate-npu=cann", action="store_true")
            """
        (tmp_path / "values.py").write_text(textwrap.dedent(plugin), encoding="utf-8")
        result = cli("run", "-p", "values", f"--emulate-npu={value}", "train.py")
        expected = "expected --emulate-npu or --emulate-npu=imitation or --emulate-npu=cann"
        assert result.code == 2
        assert f"{expected}, found --emulate-npu={value}{nearest}\n" in result.err
