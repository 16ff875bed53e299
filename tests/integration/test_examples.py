"""The examples of adopting patchcore, and the guides, print what their pages show."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pages import blocks, split
from replay import difference

pytest.importorskip("torch")
pytest.importorskip("mmengine")
pytest.importorskip("mmcv._ext", reason="the examples use mmcv's compiled operators")

ROOT = Path(__file__).resolve().parents[2]
ADOPTION = ROOT / "examples" / "adoption"
BEVFORMER = ROOT / "examples" / "bevformer_npu"
DOCS = ROOT / "docs"
QUICKSTART = DOCS / "quickstart.md"
EMULATOR = DOCS / "emulator.md"
MIGRATION = DOCS / "migration-guide.md"
COMING_FROM = DOCS / "coming-from.md"
GRAPH = DOCS / "graph.md"
HARDWARE = sorted((DOCS / "your-hardware").glob("[0-9]*.md"))
GRAPH_CONFORMANCE = DOCS / "graph-conformance.md"
GRAPH_VENDOR = ROOT / "examples" / "graph_vendor"
BEV_SEGMENTATION = ROOT / "examples" / "bev_segmentation"
#: Pages whose sessions run in a folder with the files that the page shows, and the examples of adoption.
GUIDES = ("launching", "markers", "migrate", "ops", "profiling", "verifying")
WAYS = ("zero_code", "two_lines", "patch_folder")

MARK = "=== command"
#: What is shown is somebody else's home, and what no two runs have in common.
HOME = "/home/me"
PORT = "29500"


def sessions(page: Path) -> list[str]:
    return [block.text for block in blocks(page) if block.language == "console"]


class Shell:
    """Runs the sessions of a page in a folder.

    Args:
        folder: the current directory at the start of every session.
        home: what pages call ``/home/me``.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        ours = ("PATCHCORE_", "PYTHON", "RANK", "WORLD_SIZE")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "PYTHONUNBUFFERED": "1",  # as on a terminal
            "OMP_NUM_THREADS": "1",  # torchrun says something about it where it is not set
        }

    def run(self, commands: list[str]) -> list[str]:
        """Return what each command printed."""
        port = str(free_port())
        script = "".join(f"echo '{MARK}'\n{command.replace(PORT, port)}\n" for command in commands)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=450,  # two cores that others use, too, take a minute for the longest
        )
        said = done.stdout.replace(str(self.home), HOME).replace(sys.prefix, f"{HOME}/venv").replace(port, PORT)
        return said.split(f"{MARK}\n")[1:]

    def check(self, session: str) -> None:
        """Run the commands of a session; each prints what is shown, where ``...`` stands for anything."""
        shown = split(session)
        said = self.run([command for command, _ in shown])
        assert len(said) == len(shown), said
        for (command, expected), actual in zip(shown, said):
            missing = difference(expected, actual)
            assert missing is None, f"$ {command}\nexpected:\n{expected}\nactual:\n{actual}\nnot found:\n{missing}"


def walk(shell: Shell, page: Path) -> None:
    """Write the files of a page and run its sessions, in the order of the page, all in one folder."""
    for block in blocks(page):
        if block.file:
            (shell.folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (shell.folder / block.file).write_text(block.text)
        elif block.language == "console":
            shell.check(block.text)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        return int(listening.getsockname()[1])


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """In a copy of the examples, so that reports do not end up in the checkout."""
    folder = tmp_path / "adoption"
    shutil.copytree(ADOPTION, folder, ignore=shutil.ignore_patterns("reports", "work_dirs", "__pycache__"))
    return Shell(folder, tmp_path)


@pytest.mark.parametrize("way", [WAYS[0], *(pytest.param(way, marks=pytest.mark.slow) for way in WAYS[1:])])
def test_readme_of_each_way_prints_what_it_shows(shell: Shell, way: str) -> None:
    shell.folder /= way
    for session in sessions(ADOPTION / way / "README.md"):
        shell.check(session)


@pytest.mark.parametrize(
    ("guide", "session"),
    [(guide, session) for guide in GUIDES for session in sessions(DOCS / f"{guide}.md")],
    ids=lambda value: value if value in GUIDES else split(value)[-1][0],
)
def test_guide_prints_what_it_shows(shell: Shell, guide: str, session: str) -> None:
    for block in blocks(DOCS / f"{guide}.md"):
        if block.file:
            (shell.folder / block.file).write_text(block.text)
    shell.check(session)


@pytest.mark.parametrize("session", sessions(COMING_FROM), ids=lambda session: split(session)[0][0])
def test_coming_from_other_tools_prints_what_it_shows(shell: Shell, session: str) -> None:
    shell.environment.update(HOME=str(shell.home), XDG_CACHE_HOME="")  # for kernels
    for block in blocks(COMING_FROM):
        if block.file:
            (shell.folder / block.file).write_text(block.text)
    shell.check(session)


@pytest.mark.parametrize("session", sessions(EMULATOR), ids=["one process", "report", "two ranks", "mmcv"])
def test_guide_to_the_emulator_prints_what_it_shows(shell: Shell, session: str) -> None:
    shutil.copy(ROOT / "examples" / "train_cuda.py", shell.folder)
    shell.environment["TMPDIR"] = str(shell.home)
    shell.check(session.replace("/tmp/", f"{HOME}/"))


def install_beside(shell: Shell, *folders: Path) -> None:
    """Let pip leave this environment alone: what the sessions of a page install goes to a folder that is on the path.

    Only there its .pth file is not read, which is what puts the folder of an editable distribution on the path.

    Args:
        shell: gets the environment.
        folders: of editable distributions.
    """
    site = shell.home / "site-packages"
    shell.environment.update(
        PIP_TARGET=str(site),
        PIP_NO_INDEX="1",
        PIP_NO_BUILD_ISOLATION="0",
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PYTHONPATH=os.pathsep.join([str(site), *map(str, folders)]),
    )


def test_readme_of_the_bevformer_prints_what_it_shows(shell: Shell) -> None:
    folder = shell.home / "bevformer_npu"
    shutil.copytree(BEVFORMER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shell.folder = folder
    install_beside(shell, folder)
    for session in sessions(BEVFORMER / "README.md"):
        shell.check(session)


def test_quickstart_prints_what_it_shows(shell: Shell) -> None:
    shell.folder = shell.home / "quickstart"
    shell.folder.mkdir()
    walk(shell, QUICKSTART)


def test_migration_guide_prints_what_it_shows(shell: Shell) -> None:
    shell.folder = shell.home / "bev_segmentation"
    shutil.copytree(BEV_SEGMENTATION, shell.folder, ignore=shutil.ignore_patterns("__pycache__", "work_dirs"))
    install_beside(shell, shell.folder / "bevseg-npu")
    walk(shell, MIGRATION)


def test_your_hardware_prints_what_it_shows_and_makes_the_example(shell: Shell) -> None:
    shell.folder = shell.home / "afternoon"
    package = "acme-graph"
    shutil.copytree(GRAPH_VENDOR, shell.folder, ignore=shutil.ignore_patterns("__pycache__", package))
    install_beside(shell, shell.folder / "acme1", shell.folder / package, *inherited_path())
    shell.environment.update(HOME=str(shell.home), XDG_CACHE_HOME="")
    for page in HARDWARE:  # the package grows from step to step
        walk(shell, page)
    assert texts(shell.folder / package) == texts(GRAPH_VENDOR / package)
    shell.environment["PIP_UPGRADE"] = "1"  # pip has something to say of what is in its target already
    for session in sessions(GRAPH_VENDOR / "README.md"):
        shell.check(session)


def test_guide_to_conformance_prints_what_it_shows(shell: Shell) -> None:
    installed = [GRAPH_VENDOR / "acme1", GRAPH_VENDOR / "acme-graph", *inherited_path()]
    shell.environment.update(PATCHCORE_MODULES="acme_graph.plugin", PYTHONPATH=os.pathsep.join(map(str, installed)))
    shell.environment["PYTHONDONTWRITEBYTECODE"] = "1"  # these are the checkout's
    for session in sessions(GRAPH_CONFORMANCE):
        shell.check(session)


def test_guide_to_the_graph_backend_prints_what_it_shows(shell: Shell) -> None:
    shell.environment.update(HOME=str(shell.home), XDG_CACHE_HOME="")
    shell.environment["PYTHONPATH"] = os.pathsep.join(map(str, inherited_path()))
    walk(shell, GRAPH)  # a session reads kernels of those before it


def inherited_path() -> list[Path]:
    """What this process has on its path before all that is installed: a checkout that is tested in place."""
    return [Path(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]


def texts(folder: Path) -> dict[str, str]:
    """The files of a package by name, without what running it leaves."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in files}


def test_patch_folder_needs_no_pyproject(shell: Shell) -> None:
    (session,) = (text for text in sessions(ADOPTION / "patch_folder" / "README.md") if "-p migrate_to_ascend" in text)
    shell.folder /= "patch_folder"
    (shell.folder / "pyproject.toml").unlink()
    shell.check("".join(f"$ PATCHCORE_PLUGINS=mmcv {command}\n{said}" for command, said in split(session)))


@pytest.mark.parametrize("way", WAYS)
def test_readme_of_each_way_shows_the_files_that_are_there(way: str) -> None:
    shown = [block for block in blocks(ADOPTION / way / "README.md") if block.file]
    assert shown
    for block in shown:
        assert block.text in (ADOPTION / way / block.file).read_text(encoding="utf-8"), block.file


#: Prints, for every kind of child, whether it is patched.
CHILDREN = """
import multiprocessing, subprocess, sys
import numpy, patchcore
LINE

def look(_):
    return hasattr(numpy, "float")

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(look, [0])[0])
    code = "import numpy; print('subprocess', hasattr(numpy, 'float'))"
    subprocess.run([sys.executable, "-c", code])
"""


@pytest.mark.parametrize(
    ("line", "patched"),
    [
        ("patchcore.apply()", {"fork": True, "spawn": True, "forkserver": True, "subprocess": False}),
        (
            "if __name__ == '__main__': patchcore.apply()",
            {"fork": True, "spawn": False, "forkserver": False, "subprocess": False},
        ),
    ],
    ids=["at module level", "guarded"],
)
def test_two_lines_reach_what_imports_the_script_again(shell: Shell, line: str, patched: dict[str, bool]) -> None:
    (shell.folder / "children.py").write_text(CHILDREN.replace("LINE", line))
    (said,) = shell.run(["python children.py"])
    assert dict(line.split() for line in said.splitlines()) == {kind: str(value) for kind, value in patched.items()}
