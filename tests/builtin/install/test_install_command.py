"""The command line that installs distributions works wherever the user stands: it says where they come from."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution

from patchcore.builtin.install import command, project
from patchcore.builtin.install.command import install_command, install_line_of_a_page

FOLDERS = ("npu_emulator", "mmcv_npu", "mmdet3d_npu", "torch_npu_patches", "patchcore_torch")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for installed distributions, the only one, where nothing was released and nothing is installed yet."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site)])
    monkeypatch.setattr(project, "RELEASED", False)
    monkeypatch.setattr(project, "URL", "")
    monkeypatch.setattr(command, "__file__", str(tmp_path / "a" / "b" / "c" / "d" / "command.py"))
    monkeypatch.setattr(command, "_installer", lambda: "python -m pip install")
    return site


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "my checkout"
    for name in FOLDERS:
        (folder / "plugins" / name).mkdir(parents=True)
    return folder


def install(site: Path, name: str = "patchcore", version: str = "0.1.0", **origin: Any) -> None:
    info = write_distribution(site, name, version)
    if origin:
        (info / "direct_url.json").write_text(json.dumps(origin))


def arguments(line: str) -> list[str]:
    return shlex.split(line)[4:]


class TestWhereDistributionsComeFrom:
    def test_the_checkout_that_patchcore_was_installed_from(self, here: Path, checkout: Path) -> None:
        install(here, url=checkout.as_uri(), dir_info={})
        install(here, "patchcore-torch")
        line = install_command("torch==2.13.0", "torch-npu-patches[torch]", "npu-emulator")
        plugins = checkout / "plugins"
        assert line == (
            f"python -m pip install torch==2.13.0 '{plugins}/torch_npu_patches[torch]' '{plugins}/npu_emulator'"
        )

    def test_the_checkout_that_patchcore_runs_in(
        self, here: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(command, "__file__", str(checkout / "patchcore" / "builtin" / "install" / "command.py"))
        assert arguments(install_command("npu-emulator")) == [str(checkout), str(checkout / "plugins" / "npu_emulator")]

    def test_what_it_needs_of_this_project_comes_first_where_it_is_missing(self, here: Path, checkout: Path) -> None:
        install(here, url=checkout.as_uri(), dir_info={})
        names = ("patchcore_torch", "mmcv_npu", "mmdet3d_npu")
        torch, mmcv, mmdet3d = (str(checkout / "plugins" / name) for name in names)
        assert arguments(install_command("mmdet3d-npu-patches")) == [torch, mmcv, mmdet3d]
        install(here, "patchcore-torch")
        assert arguments(install_command("mmdet3d-npu-patches", "mmcv-npu-patches")) == [mmdet3d, mmcv]
        install(here, "mmcv-npu-patches")
        assert arguments(install_command("mmdet3d-npu-patches")) == [mmdet3d]

    def test_an_editable_distribution_stays_editable(self, here: Path, checkout: Path) -> None:
        folder = checkout / "plugins" / "torch_npu_patches"
        install(here, url=checkout.as_uri(), dir_info={"editable": True})
        install(here, "patchcore-torch")
        install(here, "torch-npu-patches", url=folder.as_uri(), dir_info={"editable": True})
        assert arguments(install_command("torch-npu-patches[torch]")) == ["-e", f"{folder}[torch]"]

    def test_a_distribution_of_somebody_else_that_was_installed_from_a_folder(self, here: Path, tmp_path: Path) -> None:
        install(here, "bevformer-npu", url=tmp_path.as_uri(), dir_info={})
        assert arguments(install_command("bevformer-npu", "mmengine")) == [str(tmp_path), "mmengine"]

    def test_the_repository_at_the_same_commit(self, here: Path) -> None:
        url = "https://forge.example/team/patchcore.git"
        install(here, url=url, vcs_info={"vcs": "git", "commit_id": "abc123"})
        install(here, "patchcore-torch")
        assert arguments(install_command("torch-npu-patches[torch]", "patchcore")) == [
            f"torch-npu-patches[torch] @ git+{url}@abc123#subdirectory=plugins/torch_npu_patches",
            f"patchcore @ git+{url}@abc123",
        ]

    def test_the_folder_of_the_wheel(self, here: Path, tmp_path: Path) -> None:
        wheel = tmp_path / "wheels" / "patchcore-0.1.0-py3-none-any.whl"
        wheel.parent.mkdir()
        wheel.touch()
        install(here, url=wheel.as_uri(), archive_info={})
        assert arguments(install_command("npu-emulator")) == ["--find-links", str(wheel.parent), "npu-emulator"]

    def test_a_checkout_that_is_gone_and_no_address(self, here: Path, tmp_path: Path) -> None:
        install(here, url=(tmp_path / "gone").as_uri(), dir_info={})
        line = install_command("npu-emulator")
        assert line == "python -m pip install ./plugins/npu_emulator  # in a checkout of patchcore"

    def test_a_clone_where_the_project_has_an_address(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(project, "URL", "https://forge.example/patchcore")
        install(here)
        line = install_command("npu-emulator")
        assert line == (
            "git clone https://forge.example/patchcore patchcore && "
            "python -m pip install ./patchcore/plugins/npu_emulator"
        )

    def test_the_index_after_a_release(self, here: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(project, "RELEASED", True)
        install(here, url=checkout.as_uri(), dir_info={"editable": True})
        install(here, "patchcore-torch")
        assert arguments(install_command("mmdet3d-npu-patches", "torch-npu-patches[torch]")) == [
            "mmdet3d-npu-patches",
            "torch-npu-patches[torch]",
        ]

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"url": 3}', '{"url": "file:///"}'])
    def test_a_broken_record_is_none(self, here: Path, text: str) -> None:
        (write_distribution(here, "patchcore", "0.1.0") / "direct_url.json").write_text(text)
        assert install_command("npu-emulator").endswith("  # in a checkout of patchcore")


class TestLinesOfPages:
    def test_before_a_release_they_are_for_a_checkout(self) -> None:
        assert install_line_of_a_page("numpy", "mmdet3d-npu-patches", released=False) == (
            "python -m pip install numpy . ./plugins/patchcore_torch ./plugins/mmcv_npu ./plugins/mmdet3d_npu"
        )

    def test_after_a_release_names_are_enough(self) -> None:
        assert install_line_of_a_page("numpy", "torch-npu-patches[torch]", released=True) == (
            "python -m pip install numpy 'torch-npu-patches[torch]'"
        )


class TestInstaller:
    @pytest.fixture(autouse=True)
    def real(self, monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
        monkeypatch.undo()

    def test_python_on_the_path(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "python").touch(mode=0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python3.11"))
        assert install_command("numpy") == "python -m pip install numpy"

    def test_an_environment_that_is_not_activated(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", os.devnull)
        monkeypatch.setattr(sys, "executable", "/my venv/bin/python")
        assert install_command("numpy") == "'/my venv/bin/python' -m pip install numpy"

    def test_an_environment_of_uv_has_no_pip(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "uv").touch(mode=0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        monkeypatch.setattr(sys, "executable", "/env/bin/python")
        assert install_command("numpy") == "uv pip install --python /env/bin/python numpy"

    def test_setuptools_can_be_imported_after_a_hint(self) -> None:
        """Before Python 3.12, a finder of setuptools reacts when someone looks for pip."""
        program = "import patchcore; patchcore.install_command('numpy'); import setuptools"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0 or "No module named 'setuptools'" in done.stderr, done.stderr
