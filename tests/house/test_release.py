"""tools/release.py: one command changes every version, bound and quoted output, or nothing."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import patchcore

ROOT = Path(__file__).resolve().parents[2]
if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = "patchcore/builtin/install/project.py"
URL = "https://forge.example/patchcore"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("release")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a release reads and changes, committed."""
    folder = tmp_path_factory.mktemp("original")
    pages = ("docs/*.md", "docs/*/*.md", "README*.md", "DESCRIPTION.md", "plugins/*/*.md")
    for pattern in ("pyproject.toml", "*/*/pyproject.toml", "CHANGELOG.md", PROJECT, *pages):
        for file in ROOT.glob(pattern):
            copied = folder / file.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copied)
    for name in ("patchcore/__init__.py", "plugins/npu_graph/npu_graph/version.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    changelog = folder / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## Unreleased\n", "## Unreleased\n\n- Something.\n", 1))
    address = folder / PROJECT
    address.write_text(address.read_text().replace('URL = ""', f'URL = "{URL}"'))
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "all")
    return folder


@pytest.fixture
def checkout(original: Path, tmp_path: Path) -> Path:
    """A copy of the committed files, to change."""
    return shutil.copytree(original, tmp_path / "checkout")


def stand_in(folder: Path, out: Path) -> None:
    (out / f"{folder.name}.whl").touch()


class TestRelease:
    @pytest.fixture
    def released(self, checkout: Path, tool: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The checkout after a release of which nothing was built."""
        monkeypatch.setattr(tool, "build", stand_in)
        monkeypatch.setattr(tool, "check", lambda *args: None)
        tool.release(checkout, "98.7.0", checkout.parent / "dist")
        return checkout

    def test_every_distribution_has_the_version(self, released: Path) -> None:
        stated = [re.findall(r'^version = "(.+)"', file.read_text(), re.MULTILINE) for file in plugins(released)]
        assert [version for versions in stated for version in versions] == ["98.7.0"] * (len(plugins(ROOT)) - 1)
        assert 'VERSION = "98.7.0"' in (released / "plugins/npu_graph/npu_graph/version.py").read_text()
        assert '__version__ = "98.7.0"' in (released / "patchcore/__init__.py").read_text()

    def test_what_needs_another_of_ours_needs_the_new_one(self, released: Path, tool: Any) -> None:
        ours = tool.distributions(released)
        needed = []
        for file in (released / "pyproject.toml", *plugins(released), *released.glob("examples/*/pyproject.toml")):
            project = tomllib.loads(file.read_text())["project"]
            extras = project.get("optional-dependencies", {}).values()
            for text in [*project["dependencies"], *(text for extra in extras for text in extra)]:
                requirement = Requirement(text)
                if requirement.name in ours:
                    needed.append((requirement.name, str(requirement.specifier)))
        assert {bound for _, bound in needed} == {">=98.7.0"}
        assert len(needed) >= len(ours)

    def test_quoted_outputs_name_it(self, released: Path) -> None:
        assert '"patchcore": "98.7.0"' in (released / "docs/lock.md").read_text()
        assert "npu-graph 98.7.0" in (released / "docs/your-hardware/01-empty-vendor.md").read_text()
        assert "team-cluster-patches 0.1.0" in (released / "docs/hooks.md").read_text()  # not ours

    def test_measured_figures_keep_the_version_that_they_were_measured_with(self, released: Path, tool: Any) -> None:
        page = "docs/performance.md"
        assert f"Libraries: patchcore {patchcore.__version__}, " in (released / page).read_text()
        text = "patchcore 1.0\n<!-- figures of costs -->\npatchcore 1.0\n<!-- end -->\npatchcore 1.0\n"
        expected = text.replace("1.0", "2.0").replace("costs -->\npatchcore 2.0", "costs -->\npatchcore 1.0")
        assert tool._with_quotes(text, ["patchcore"], "1.0", "2.0") == expected

    def test_pages_install_by_name(self, released: Path) -> None:
        line = "\npython -m pip install torch==2.13.0 numpy patchcore mmcv-npu-patches torch-npu-patches npu-emulator\n"
        for page in ("README.md", "README.zh-CN.md", "docs/quickstart.md"):
            assert line in (released / page).read_text()
        line = "python -m pip install patchcore 'torch-npu-patches[migrate]'\n"
        assert line in (released / "plugins/torch_npu_patches/README.md").read_text()
        pages = [*released.glob("**/*.md")]
        assert [page for page in pages if re.search(r"pip install .*\./plugins/", page.read_text())] == []

    def test_hints_in_code_name_distributions_from_then_on(self, released: Path) -> None:
        assert "\nRELEASED = True\n" in (released / PROJECT).read_text()

    def test_every_distribution_has_the_address(self, released: Path, tool: Any) -> None:
        for file in (released / "pyproject.toml", *plugins(released)):
            assert tomllib.loads(file.read_text())["project"]["urls"] == {"Source": URL}
            assert tool._with_url(file.read_text(), "https://other.example").count("[project.urls]") == 1

    def test_the_changelog_has_a_heading_for_it(self, released: Path) -> None:
        text = (released / "CHANGELOG.md").read_text()
        assert re.search(r"## Unreleased\n\n## 98\.7\.0 \(\d{4}-\d\d-\d\d\)\n\n- Something\.\n", text)

    def test_nothing_is_committed_or_tagged(self, released: Path) -> None:
        assert git(released, "tag") == ""
        assert git(released, "log", "--oneline").count("\n") == 1

    def test_without_an_address_nothing_is_released(self, checkout: Path, tool: Any) -> None:
        address = checkout / PROJECT
        address.write_text(address.read_text().replace(URL, ""))
        git(checkout, "commit", "-q", "-a", "-m", "no address")
        with pytest.raises(tool.ReleaseError, match=re.escape(f"set URL in {PROJECT}")):
            tool.release(checkout, "98.7.0", checkout.parent / "dist")
        assert git(checkout, "status", "--porcelain") == ""

    def test_a_step_that_fails_leaves_the_files_as_they_were(
        self, checkout: Path, tool: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(folder: Path, out: Path) -> None:
            assert patchcore.__version__ not in (checkout / "patchcore/__init__.py").read_text()
            raise tool.ReleaseError("no")

        monkeypatch.setattr(tool, "build", fail)
        with pytest.raises(tool.ReleaseError, match=r"^no$"):
            tool.release(checkout, "98.7.0", checkout.parent / "dist")
        assert git(checkout, "status", "--porcelain") == ""


class TestRefusals:
    @pytest.mark.parametrize(
        ("version", "message"),
        [
            ("new", "'new' is not a version; write it as 0.2.0"),
            ("v98.7.0", "is not a version in its normal form; write it as 98.7.0"),
            ("98.7.0+local", "write it as 98.7.0"),
            (patchcore.__version__, "is not newer than"),
            ("0.0.1", "0.0.1 is not newer than"),
        ],
    )
    def test_a_version(self, checkout: Path, tool: Any, version: str, message: str) -> None:
        with pytest.raises(tool.ReleaseError, match=re.escape(message)):
            tool.release(checkout, version, checkout.parent / "dist")

    def test_changes_that_are_not_committed(self, checkout: Path, tool: Any) -> None:
        (checkout / "new.py").touch()
        with pytest.raises(tool.ReleaseError, match=r"(?s)not committed:\n\?\? new.py\n.*git stash -u"):
            tool.release(checkout, "98.7.0", checkout.parent / "dist")

    def test_a_changelog_without_news(self, checkout: Path, tool: Any) -> None:
        (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 0.1.0\n\n- It.\n")
        git(checkout, "commit", "-qam", "no news")
        with pytest.raises(tool.ReleaseError, match=r'nothing under "## Unreleased": say what is new'):
            tool.release(checkout, "98.7.0", checkout.parent / "dist")


def plugins(root: Path) -> list[Path]:
    return sorted(root.glob("plugins/*/pyproject.toml"))
