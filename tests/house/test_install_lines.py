"""Every line that installs distributions of this project is one that works, in pages, in code and in metadata."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from patchcore.builtin.install import project
from patchcore.builtin.install.command import install_line_of_a_page
from patchcore.builtin.install.distributions import known_distributions, known_modules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
METADATA = {folder: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")) for folder in FOLDERS}
NAMES = {metadata["project"]["name"]: folder for folder, metadata in METADATA.items()}
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "README.zh-CN.md", "DESCRIPTION.md")),
        *(
            page
            for pattern in ("docs/**/*.md", "plugins/*/*.md", "examples/*/README.md")
            for page in ROOT.glob(pattern)
        ),
    ]
)
CODE = sorted(path for top in ("patchcore", "patchcore_startup", "plugins") for path in (ROOT / top).rglob("*.py"))
#: A command line in a page, without a remark behind it.
COMMAND = re.compile(r"(?:python -m )?pip install ([^`#\n]*[^`#\s])")


def requirements_of(arguments: str) -> list[str]:
    """Return what a command line that a page shows installs: names in the place of folders of the checkout."""
    of_folder = {f"./{folder.relative_to(ROOT).as_posix()}": name for name, folder in NAMES.items()}
    parts = (argument.partition("[") for argument in shlex.split(arguments))
    return [{".": "patchcore", **of_folder}.get(folder, folder) + sep + extras for folder, sep, extras in parts]


def is_ours(arguments: str) -> bool:
    words = re.split(r"[\s'\"]+", arguments)
    return "./plugins/" in arguments or any(word.partition("[")[0] in NAMES for word in words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_command_lines_of_pages_are_those_of_the_function(page: Path) -> None:
    for found in COMMAND.finditer(page.read_text(encoding="utf-8")):
        if is_ours(found[1]):
            assert found[0] == install_line_of_a_page(*requirements_of(found[1]))


def test_hints_in_code_come_from_the_function() -> None:
    """What else says ``pip install`` makes the line, or is a page of a project that the user has just made."""
    others = {
        "patchcore/builtin/install/command.py",
        "patchcore/builtin/environment/command.py",  # for another Python: the arguments come from the function
        "patchcore/builtin/new/templates.py",
        "patchcore_startup/__init__.py",  # in a Python without patchcore: the arguments come from the function
        "plugins/mx_driving_compat/mx_driving_compat/reading/output/project.py",
    }
    found = set()
    for path in CODE:
        text = re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        if "pip install " in text:
            found.add(path.relative_to(ROOT).as_posix())
    assert found <= others


def test_the_distributions_are_those_of_the_checkout() -> None:
    for distribution in known_distributions():
        metadata = METADATA[ROOT / distribution.folder]["project"]
        needed = {re.split(r"[^\w-]", text)[0] for text in metadata["dependencies"]} & set(NAMES)
        assert metadata["name"] == distribution.name
        assert needed == {"patchcore", *distribution.needs}
    assert {distribution.name for distribution in known_distributions()} == set(NAMES) - {"patchcore"}


def test_no_extra_is_a_distribution_of_this_project() -> None:
    """``pip install ./folder[extra]`` would look for it on the index, which has it after a release only."""
    extras = [metadata["project"].get("optional-dependencies", {}) for metadata in METADATA.values()]
    required = {re.split(r"[^\w-]", text)[0] for extra in extras for texts in extra.values() for text in texts}
    assert required
    assert not required & set(NAMES)


def test_what_installs_a_library_is_within_the_extras_of_a_plugin() -> None:
    extras = [metadata["project"].get("optional-dependencies", {}) for metadata in METADATA.values()]
    bounds = {text for extra in extras for requirements in extra.values() for text in requirements}
    for module in known_modules():
        for text in module.install[-1:] and module.install[-1]:
            if re.search(r"[<>]=?", text):
                assert text in bounds


class TestMetadata:
    @pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
    def test_authors_and_licence(self, folder: Path) -> None:
        metadata = METADATA[folder]["project"]
        assert metadata["authors"] == [{"name": "The patchcore contributors"}]
        assert (metadata["license"], metadata["license-files"]) == ("Apache-2.0", ["LICENSE"])
        assert (folder / "LICENSE").read_text(encoding="utf-8") == (ROOT / "LICENSE").read_text(encoding="utf-8")

    @pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
    def test_the_address_is_that_of_the_project_or_none(self, folder: Path) -> None:
        urls = METADATA[folder]["project"].get("urls", {})
        assert set(urls.values()) <= {project.URL} - {""}
        assert bool(urls) or not project.RELEASED


def test_readme_and_quickstart_install_torch_too() -> None:
    ours = ["patchcore", "mmcv-npu-patches", "torch-npu-patches", "npu-emulator"]
    line = install_line_of_a_page("torch==2.13.0", "numpy", *ours)
    for name in ("README.md", "README.zh-CN.md", "docs/quickstart.md", "docs/zh/quickstart.md"):
        assert f"\n{line}\n" in (ROOT / name).read_text(encoding="utf-8")
