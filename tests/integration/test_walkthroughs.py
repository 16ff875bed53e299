"""The long pages, whose sessions build on each other, print what they show."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from shell import ROOT, Shell, inherited_path, install_beside, sessions, walk

pytest.importorskip("torch")
pytest.importorskip("mmengine")
pytest.importorskip("mmcv._ext", reason="the examples use mmcv's compiled operators")

BEVFORMER = ROOT / "examples" / "bevformer_npu"
DOCS = ROOT / "docs"
QUICKSTART = DOCS / "quickstart.md"
MIGRATION = DOCS / "migration-guide.md"
GRAPH = DOCS / "graph.md"
HARDWARE = sorted((DOCS / "your-hardware").glob("[0-9]*.md"))
GRAPH_CONFORMANCE = DOCS / "graph-conformance.md"
GRAPH_VENDOR = ROOT / "examples" / "graph_vendor"
BEV_SEGMENTATION = ROOT / "examples" / "bev_segmentation"


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


def texts(folder: Path) -> dict[str, str]:
    """The files of a package by name, without what running it leaves."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in files}
