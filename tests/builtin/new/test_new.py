"""``patchcore new``: plugins that pass their own tests, and files that plugins read."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from scaffold import ROOT, new, passes_its_tests, python

from patchcore.builtin.install.command import install_command, python_command
from patchcore.builtin.new import command
from patchcore.builtin.new.about import PluginMetadata, find_about
from patchcore.builtin.new.names import PluginNames
from patchcore.cli import main
from patchcore.errors import SettingsError

needs_ruff = pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="ruff is not installed")


class TestNames:
    @pytest.mark.parametrize(
        ("name", "package", "plugin"),
        [
            ("bevformer-npu-patches", "bevformer_npu_patches", "bevformer"),
            ("BEVFormer.NPU", "bevformer_npu", "bevformer"),
            ("a", "a", "a"),
            ("a--b_.c", "a_b_c", "a_b_c"),
            ("npu", "npu", "npu"),
        ],
    )
    def test_package_and_plugin_follow_the_distribution(self, name: str, package: str, plugin: str) -> None:
        assert PluginNames.derive(name) == (name, package, plugin)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("-a", r"'-a' is not the name of a distribution.*patchcore new a$"),
            ("a b", r"not the name of a distribution.*patchcore new a-b$"),
            ("", r"not the name of a distribution.*patchcore new my-model-npu$"),
            ("bevformer/npu", r"patchcore new bevformer-npu$"),
            ("été", r"not the name of a distribution"),
            ("3d-boxes", r"'3d_boxes', which Python cannot import.*patchcore new npu-3d-boxes$"),
            ("class", r"'class', which Python cannot import"),
            ("JSON", r"'json', which is a module of the standard library.*patchcore new npu-JSON$"),
            ("_thread", r"not the name of a distribution"),
            ("tests", r"'tests', which would hide another one"),
            ("patchcore", r"would hide another one"),
        ],
    )
    def test_names_that_cannot_be_are_refused(self, name: str, message: str) -> None:
        with pytest.raises(SettingsError, match=message):
            PluginNames.derive(name)


class TestRefusals:
    @pytest.mark.parametrize("existing", ["folder", "file", "dead link"])
    def test_nothing_is_overwritten(self, tmp_path: Path, capsys: Any, existing: str) -> None:
        place = tmp_path / "a-npu"
        if existing == "folder":
            place.mkdir()
        elif existing == "file":
            place.write_text("kept")
        else:
            place.symlink_to(tmp_path / "nowhere")
        before = sorted(tmp_path.rglob("*"))
        assert main(["new", "a-npu", "--directory", str(tmp_path)]) == 2
        assert f"{place} exists, and nothing is overwritten" in capsys.readouterr().err
        assert sorted(tmp_path.rglob("*")) == before

    def test_a_directory_that_is_missing_is_not_made(self, tmp_path: Path, capsys: Any) -> None:
        assert main(["new", "a-npu", "--directory", str(tmp_path / "none")]) == 2
        assert f"make it: mkdir -p {tmp_path / 'none'}" in capsys.readouterr().err


class TestExample:
    def test_it_passes_its_own_tests(self, tmp_path: Path) -> None:
        assert passes_its_tests(new(tmp_path, "bevformer-npu"))

    def test_it_is_found_where_it_is_installed(self, tmp_path: Path) -> None:
        project = new(tmp_path, "bevformer-npu")
        write_distribution(tmp_path, "bevformer-npu", plugins={"bevformer": "bevformer_npu.plugin"})
        assert 'bevformer = "bevformer_npu.plugin"' in (project / "pyproject.toml").read_text()
        listed = json.loads(
            python("-m", "patchcore", "list", "--format", "json", path=[tmp_path, project], cwd=tmp_path)
        )
        assert "bevformer.escape" in [patch["name"] for patch in listed["patches"]]
        assert not [problem for problem in listed["problems"] if "bevformer" in str(problem)]

    def test_the_command_says_what_it_wrote(self, tmp_path: Path, capsys: Any) -> None:
        project = new(tmp_path, "bevformer-npu")
        following = f"{install_command('-e', str(project))} && {python_command()} -m pytest {project}"
        assert capsys.readouterr().out == f"written to {project}; next: {following}\n"
        files = sorted(str(file.relative_to(project)) for file in project.rglob("*") if file.is_file())
        assert files == [
            "README.md",
            "bevformer_npu/__init__.py",
            "bevformer_npu/plugin.py",
            "bevformer_npu/py.typed",
            "pyproject.toml",
            "tests/test_plugin.py",
        ]

    def test_what_is_missing_here_is_installed_too(
        self, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(command, "version_of", lambda name: None)
        monkeypatch.setattr(command, "find_module", lambda name: False)
        monkeypatch.chdir(tmp_path)
        assert main(["new", "bevformer-npu", "--format", "json"]) == 0
        following = json.loads(capsys.readouterr().out)["next"]
        line = install_command("patchcore", "pytest", "-e", "./bevformer-npu")
        assert following == f"{line} && {python_command()} -m pytest ./bevformer-npu"


@pytest.fixture
def git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Run git in a folder; it has no settings but those that the test makes."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return lambda *arguments: subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)


class TestAbout:
    def test_author_and_address_are_those_of_git(self, git: Callable[..., None], tmp_path: Path) -> None:
        git("init")
        git("config", "user.name", 'Zoë "Z" Ng')
        git("config", "user.email", "zoe@example.org")
        git("remote", "add", "origin", "git@code.example.org:team/bev.git")
        text = (new(tmp_path, "bevformer-npu", "--license", "mit or apache-2.0") / "pyproject.toml").read_text("utf-8")
        assert 'license = "MIT OR Apache-2.0"\n' in text
        assert 'authors = [{ name = "Zoë \\"Z\\" Ng", email = "zoe@example.org" }]\n' in text
        assert '\n[project.urls]\nSource = "https://code.example.org/team/bev"\n\n[project.entry-points' in text

    def test_what_git_does_not_know_is_left_to_fill_in(self, git: Callable[..., None], tmp_path: Path) -> None:
        text = (new(tmp_path, "bevformer-npu") / "pyproject.toml").read_text("utf-8")
        assert 'license = "Apache-2.0"\n# TODO authors = [{ name = "...", email = "..." }]\ndependencies' in text
        assert "urls" not in text

    def test_without_git(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert find_about(tmp_path, "MIT") == PluginMetadata("MIT")

    @pytest.mark.parametrize(
        ("remote", "address"),
        [
            ("https://code.example.org/team/bev.git", "https://code.example.org/team/bev"),
            ("https://user:secret@code.example.org:8443/team/bev/", "https://code.example.org:8443/team/bev"),
            ("ssh://git@code.example.org:2222/team/bev.git", "https://code.example.org/team/bev"),
            ("code.example.org:bev.git", "https://code.example.org/bev"),
            ("work:team/bev.git", ""),  # a name in the settings of ssh
            ("/srv/git/bev.git", ""),
            ("file:///srv/git/bev.git", ""),
            ("https://code.example.org:port/bev", ""),
        ],
    )
    def test_only_what_a_browser_can_open_is_an_address(
        self, git: Callable[..., None], tmp_path: Path, remote: str, address: str
    ) -> None:
        git("init")
        git("remote", "add", "origin", remote)
        assert find_about(tmp_path, "MIT").source == address

    @pytest.mark.parametrize("without_packaging", [False, True])
    def test_a_licence_that_has_no_such_name_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_packaging: bool
    ) -> None:
        if without_packaging:
            monkeypatch.setitem(sys.modules, "packaging.licenses", None)
        with pytest.raises(SettingsError, match=r"--license 'our own' is no SPDX expression; write Apache-2\.0"):
            find_about(tmp_path, "our own")
        assert find_about(tmp_path, "LicenseRef-Proprietary").license == "LicenseRef-Proprietary"


#: A plugin that reads files whose first line names it.
READER = """
import patchcore as pc
from patchcore.plugin import PluginSource, TitledRows

@pc.hookimpl
def read_plugin_source(path, names, about):
    first, *rest = path.read_text().splitlines()
    if first != "# for {name}":
        return None
    if not rest:
        return pc.Skip(f"{{path}} is empty")
    if rest == ["fail"]:
        raise RuntimeError("no")
    text = "".join(rest)
    table = TitledRows("What was read", ("PATCH", "BY"), [(text, "{name}")])
    files = {{f"{{names.package}}/plugin.py": text, "about": about.license}}
    return PluginSource(files, ["from {name}", table], ["mmcv-npu-patches"])
"""


class TestFromAFile:
    """Any plugin may read files, by the hook ``read_plugin_source``."""

    @pytest.fixture(autouse=True)
    def readers(self, tmp_path: Path, make_package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = make_package({f"reader_{name}": READER.format(name=name) for name in ("a", "b")})
        write_distribution(folder, "readers", plugins={"a": "reader_a", "b": "reader_b"})
        monkeypatch.setenv("PATCHCORE_PLUGINS", "a,b")

    def refusal(self, tmp_path: Path, capsys: Any, text: str) -> str:
        (tmp_path / "file.py").write_text(text)
        assert main(["new", "shop-npu", "--directory", str(tmp_path), "--from", str(tmp_path / "file.py")]) == 2
        assert not (tmp_path / "shop-npu").exists()
        return str(capsys.readouterr().err)

    def test_the_plugin_that_knows_the_file_reads_it(
        self, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(command, "version_of", lambda name: None if name == "mmcv-npu-patches" else "0.1.0")
        (tmp_path / "file.py").write_text("# for b\nx = 1\n")
        project = new(tmp_path, "shop-npu", "--from", str(tmp_path / "file.py"))
        assert (project / "shop_npu" / "plugin.py").read_text() == "x = 1"
        assert (project / "about").read_text() == "Apache-2.0"
        assert capsys.readouterr().out.splitlines() == [
            "from b",
            "What was read",
            "  PATCH  BY",
            "  x = 1  b",
            f"written to {project}; next: {install_command('mmcv-npu-patches', '-e', str(project))} && "
            f"{python_command()} -m pytest {project}",
            f"its code is written without regard to layout; to lay it out: ruff format {project}",
        ]

    def test_what_keeps_the_plugin_from_reading_it_is_said(self, tmp_path: Path, capsys: Any) -> None:
        assert f"{tmp_path / 'file.py'} is empty" in self.refusal(tmp_path, capsys, "# for a\n")

    @pytest.mark.parametrize("text", ["# for nobody\n", "# for b\nfail\n"], ids=["unknown", "a reader fails"])
    def test_a_file_that_nobody_reads(self, tmp_path: Path, capsys: Any, text: str) -> None:
        error = self.refusal(tmp_path, capsys, text)
        assert "no installed plugin reads this file" in error
        assert install_command("mx-driving-compat") in error
        assert ("RuntimeError: no" in error) == ("fail" in text)

    def test_plugins_that_were_not_asked_are_named(
        self, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATCHCORE_PLUGINS", "a")
        error = self.refusal(tmp_path, capsys, "# for b\nx = 1\n")
        assert re.search(r"reads this file \(left out by the setting plugins: .*\bb\b.*\); for a patch.py", error)


@needs_ruff
def test_the_code_is_formatted_as_ours(tmp_path: Path) -> None:
    project = new(tmp_path, "shop-npu")
    for settings in (("--no-cache",), ("--config", str(ROOT / "pyproject.toml"), "--no-cache")):
        python("-m", "ruff", "check", *settings, ".", path=[], cwd=project)
        python("-m", "ruff", "format", "--check", *settings, ".", path=[], cwd=project)
