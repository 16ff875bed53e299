"""The README is short and true, and so is the part of the quickstart that needs no library."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Callable

import pages
import pytest
from replay import same

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
QUICKSTART = ROOT / "docs" / "quickstart.md"


def texts(page: Path, language: str) -> list[str]:
    return [block.text for block in pages.blocks(page) if block.language == language]


@pytest.fixture
def example(tmp_path: Path) -> Path:
    module, program, _, usage = texts(QUICKSTART, "python")
    (tmp_path / "sorted_json.py").write_text(module)
    (tmp_path / "config.py").write_text(program)
    (tmp_path / "usage.py").write_text(usage)
    return tmp_path


def run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "PATCHCORE_PLUGINS": ""}
    done = subprocess.run(command, cwd=folder, env=environment, check=True, text=True, capture_output=True)
    return done.stdout + done.stderr


def test_patch_of_the_quickstart_does_what_the_page_shows(example: Path) -> None:
    (session,) = (text for text in texts(QUICKSTART, "console") if "sorted_json" in text)
    python = shlex.quote(sys.executable)
    programs = {"python": python, "patchcore": f"{python} -m patchcore"}
    for command, output in pages.split(session):
        program, _, arguments = command.partition(" ")
        assert same(output, run(example, "sh", "-c", f"{programs[program]} {arguments}")), command


def test_usage_from_python_prints_what_the_quickstart_shows(example: Path) -> None:
    (output,) = texts(QUICKSTART, "text")
    assert same(output, run(example, sys.executable, "usage.py"))


def test_first_screen_has_exactly_the_two_commands() -> None:
    first_screen = "\n".join(README.read_text(encoding="utf-8").splitlines()[:20])
    commands = [line.partition("#")[0].strip() for line in texts(README, "sh")[0].splitlines()]
    assert commands == [f"python3 -m pip install nox && python3 -m nox -s {name}" for name in ("demo", "tests")]
    assert all(command in first_screen for command in commands)


def test_readme_has_at_most_130_lines() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 130


def test_quickstart_of_the_readme_is_that_of_the_page() -> None:
    """The page is replayed; what the README shows of it must be the same, outputs may be left out."""
    long_form = dict(pair for text in texts(QUICKSTART, "console") for pair in pages.split(text))
    shown = [pair for text in texts(README, "console") for pair in pages.split(text)]
    assert shown
    for command, output in shown:
        assert output in ("", long_form[command]), command
    (patch,) = texts(README, "python")
    assert texts(QUICKSTART, "python")[0].endswith(patch)


def test_picture_of_the_readme_shows_the_quickstart(import_tool: Callable[[str], ModuleType]) -> None:
    draw_terminal = import_tool("draw_terminal")
    picture = draw_terminal.PICTURE.read_text(encoding="utf-8")
    assert picture == draw_terminal.rendered(), "out of date: run python tools/draw_terminal.py"
    assert draw_terminal.PICTURE.relative_to(ROOT).as_posix() in README.read_text(encoding="utf-8")
